"""What the containers of a Pod ask for together, exactly, with what is said for the Pod as a whole (`spec.resources`).

Source: AggregateContainerRequests of k8s.io/component-helpers/resource, DefaultPodLevelResources, KEP-2837.
"""

from collections.abc import Mapping
from typing import Any, Literal

from headrace.api.objects import Fields
from headrace.api.quantity import Quantity, parse
from headrace.objects.defaults.pods import containers_of

Part = Literal["requests", "limits"]
Quantities = dict[str, Quantity]
HUGE_PAGES = "hugepages-"
OF_A_POD = ("cpu", HUGE_PAGES, "memory")
"""Resources that a Pod as a whole may have, as errors name them."""


def is_of_a_pod(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith(HUGE_PAGES)


def together(spec: Fields, part: Part) -> Quantities:
    """Containers and sidecars add up; an init container runs beside the sidecars that were started before it."""
    found: Quantities = {}
    for container in spec.get("containers") or ():
        found = _plus(found, _of(container, part))
    sidecars: Quantities = {}
    start: Quantities = {}
    for container in spec.get("initContainers") or ():
        own = _of(container, part)
        if container.get("restartPolicy") == "Always":
            found, sidecars = _plus(found, own), _plus(sidecars, own)
            start = _larger(start, sidecars)
        else:
            start = _larger(start, _plus(own, sidecars))
    return _larger(found, start)


def complete(spec: dict[str, Any]) -> None:
    """Fill in what a Pod that says something as a whole leaves out of it."""
    own = spec.get("resources")
    if not own or not (own.get("requests") or own.get("limits")):
        return
    requests, limits = dict(own.get("requests") or {}), dict(own.get("limits") or {})
    together_limits = {name: each for name, each in together(spec, "limits").items() if is_of_a_pod(name)}
    for name, limit in together_limits.items():
        if name.startswith(HUGE_PAGES) and name not in requests:
            limits.setdefault(name, str(limit))
    for name, request in together(spec, "requests").items():
        if name in ("cpu", "memory"):
            requests.setdefault(name, str(request))
    for name, text in limits.items():
        if is_of_a_pod(name):
            requests.setdefault(name, text)
    for name, text in requests.items():
        if name in limits or name not in together_limits or not _all_limit(spec, name):
            continue
        limit = together_limits[name]
        limits[name] = text if parse(text).nano > limit.nano else str(limit)
    spec["resources"] = own | {part: each for part, each in (("requests", requests), ("limits", limits)) if each}


def _all_limit(spec: dict[str, Any], name: str) -> bool:
    return all(name in ((each.get("resources") or {}).get("limits") or {}) for each in containers_of(spec))


def _of(container: Fields, part: Part) -> Quantities:
    given: Mapping[str, str] = (container.get("resources") or {}).get(part) or {}
    return {name: parse(text) for name, text in given.items()}


def _plus(one: Quantities, other: Quantities) -> Quantities:
    """The format is that of the first that is not nothing."""
    found = dict(one)
    for name, each in other.items():
        has = found.get(name)
        found[name] = each if has is None else Quantity(has.nano + each.nano, has.format if has.nano else each.format)
    return found


def _larger(one: Quantities, other: Quantities) -> Quantities:
    found = dict(one)
    for name, each in other.items():
        if name not in found or each.nano > found[name].nano:
            found[name] = each
    return found
