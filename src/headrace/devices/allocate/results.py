"""A full answer as AllocationResults of resource.k8s.io/v1: devices, configuration, and the nodes it is valid on."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.devices.allocate.failure import Failure
from headrace.devices.allocate.features import Features
from headrace.devices.allocate.nodes import name_of
from headrace.devices.allocate.partial import Partial, Pick
from headrace.devices.allocate.requests import Claim, Demand, Want
from headrace.devices.allocate.view import View

Json = Mapping[str, Any]

_BINDING = ("bindingConditions", "bindingFailureConditions")


def allocation_results(
    view: View, demand: Demand, claims: Sequence[Json], features: Features, answer: Partial, share_ids: Iterator[str]
) -> list[dict[str, Any]]:
    """One AllocationResult for each claim, in order; `claims` are named in errors.

    Raises Failure for a node selector with several terms.
    """
    picks: list[list[Pick]] = [[] for _ in demand.claims]
    for pick in answer.path():
        picks[pick.want.claim].append(pick)
    found = []
    for asked, claim, picked in zip(claims, demand.claims, picks, strict=True):
        devices: dict[str, Any] = {}
        if picked:
            devices["results"] = [_result(view, features, pick, share_ids) for pick in picked]
        config = config_of(claim, picked)
        if config:
            devices["config"] = config
        result: dict[str, Any] = {"devices": devices}
        selector = _node_selector(view, asked, picked)
        if selector is not None:
            result["nodeSelector"] = selector
        found.append(result)
    return found


def _result(view: View, features: Features, pick: Pick, share_ids: Iterator[str]) -> dict[str, Any]:
    device, want = view.devices[pick.index], pick.want
    driver, pool, name = device.id
    result: dict[str, Any] = {"request": want.full_name, "driver": driver, "pool": pool, "device": name}
    if want.is_admin or want.told:
        result |= extras_of(want)
    if device.slice.is_ordinary:
        return result
    if features.DeviceBindingAndStatus:
        for field in _BINDING:
            if device.spec.get(field):
                result[field] = list(device.spec[field])
    if pick.amounts is not None:
        result["shareID"] = next(share_ids)
        if pick.amounts:
            result["consumedCapacity"] = {key: amount.text() for key, amount in sorted(pick.amounts.items())}
    if device.slice.skip_operations and features.is_experimental:
        result["skipNodeOperations"] = list(device.slice.skip_operations)
    return result


def extras_of(want: Want) -> dict[str, Any]:
    """What a device's result says beside the names, whatever the device."""
    extras: dict[str, Any] = {}
    if want.is_admin:
        extras["adminAccess"] = True
    if want.told:
        extras["tolerations"] = [_without_empty(each) for each in want.told]
    return extras


def _without_empty(fields: Json) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value not in ("", None)}


def config_of(claim: Claim, picked: Sequence[Pick]) -> list[dict[str, Any]]:
    """The configuration of a claim's result, from its classes and from itself."""
    return _config(claim, _chosen(claim, picked)) if claim.has_config else []


def _chosen(claim: Claim, picked: Sequence[Pick]) -> list[Want]:
    """The want that served each request; one that needed no device is the first."""
    by_request = {pick.want.request: pick.want for pick in picked}
    return [by_request.get(request.name, _first_without_devices(request.wants)) for request in claim.requests]


def _first_without_devices(wants: Sequence[Want]) -> Want:
    return next((want for want in wants if not want.is_all and want.count <= 0), wants[0])


def _config(claim: Claim, chosen: Sequence[Want]) -> list[dict[str, Any]]:
    """Class configuration once for each class, then the claim's; what covers every request names none."""
    entries: list[dict[str, Any]] = []
    by_class: dict[str, list[dict[str, Any]]] = {}
    for want in chosen:
        name = want.device_class.name
        if name in by_class:
            for entry in by_class[name]:
                entry["requests"].append(want.full_name)
            continue
        by_class[name] = [_entry("FromClass", [want.full_name], each) for each in want.device_class.config]
        entries += by_class[name]
    names = [{want.request, want.full_name} for want in chosen]
    for each in claim.config:
        requests = list(each.get("requests") or ())
        if not requests or any(name & set(requests) for name in names):
            entries.append(_entry("FromClaim", requests, each))
    for entry in entries:
        if not entry["requests"] or all(name & set(entry["requests"]) for name in names):
            del entry["requests"]
    return entries


def _entry(source: str, requests: list[str], config: Json) -> dict[str, Any]:
    entry: dict[str, Any] = {"source": source, "requests": requests}
    if config.get("opaque") is not None:
        entry["opaque"] = config["opaque"]
    return entry


def _node_selector(view: View, claim: Json, picked: Sequence[Pick]) -> dict[str, Any] | None:
    fields: list[Json] = []
    expressions: list[Json] = []
    for pick in picked:
        device = view.devices[pick.index]
        holder = device.spec if device.slice.per_device else device.slice.spec
        if holder.get("nodeName") is not None or device.spec.get("bindsToNode"):
            return this_node(name_of(view.node))
        terms = (holder.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
        if len(terms) > 1:
            what = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            raise Failure("node-selector-terms", f"create NodeSelector for claim {name_of(claim)}: {what}")
        for term in terms:
            _add_new(fields, term.get("matchFields") or ())
            _add_new(expressions, term.get("matchExpressions") or ())
    term = {}
    if expressions:
        term["matchExpressions"] = expressions
    if fields:
        term["matchFields"] = fields
    return {"nodeSelectorTerms": [term]} if term else None


def this_node(name: str) -> dict[str, Any]:
    return {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]}


def _add_new(known: list[Json], requirements: Sequence[Json]) -> None:
    for requirement in requirements:
        if not any(_is_same(requirement, other) for other in known):
            known.append({key: value for key, value in requirement.items() if value})


def _is_same(one: Json, other: Json) -> bool:
    return (one.get("key"), one.get("operator"), set(one.get("values") or ())) == (
        other.get("key"),
        other.get("operator"),
        set(other.get("values") or ()),
    )
