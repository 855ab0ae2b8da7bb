"""A Pod of which a quantity cannot be read: what is known of it is charged, and it alone is held back.

No server that stores Pods takes such a quantity in, so whoever sees one is never the arbiter of what fits.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.api.amounts import LIMITS, amount
from headrace.api.objects import Fields, Object
from headrace.api.quantity import InvalidQuantity
from headrace.ledger.pods import LISTS

Quantities = Mapping[str, Any]


def legible(pod: Object) -> tuple[Object, str]:
    """The Pod and nothing, or the Pod without the quantities that cannot be read, and which one that is and why.

    What is admitted and cannot be read is taken to be what is desired, so that the larger of that and of what was read
    back is charged.
    """
    why = next(filter(None, (unreadable(path, quantities) for path, quantities in _all(pod))), "")
    return (_without_unreadable(pod), why) if why else (pod, "")


def unreadable(path: str, quantities: Quantities) -> str:
    """Which of the quantities that stand there cannot be read, and why; nothing when all can be."""
    for name, text in quantities.items():
        try:
            amount(name, str(text))
        except InvalidQuantity as wrong:
            return f"{path}[{name}]: {str(text)!r} cannot be read: {wrong}"
    return ""


def _without_unreadable(pod: Object) -> Object:
    spec, status = dict(pod.get("spec") or {}), dict(pod.get("status") or {})
    if spec.get("overhead"):
        spec["overhead"] = _readable(spec["overhead"])
    if spec.get("resources"):
        spec["resources"] = _requirements(spec["resources"])
    for containers, statuses in LISTS:
        given = spec.get(containers) or ()
        found = [{**each, "resources": _requirements(each.get("resources") or {})} for each in given]
        wanted = {each.get("name"): each["resources"] for each in found}
        if found:
            spec[containers] = found
        if status.get(statuses):
            status[statuses] = [_told(each, wanted.get(each.get("name")) or {}) for each in status[statuses]]
    return {**pod, "spec": spec, "status": status}


def _told(told: Fields, wanted: Fields) -> Fields:
    found = dict(told)
    if record := told.get("allocatedResources"):
        readable, limits = _readable(record), wanted.get("limits") or {}
        desired = {**limits, **(wanted.get("requests") or {}), **{f"{LIMITS}{name}": limits[name] for name in limits}}
        found["allocatedResources"] = {
            name: readable.get(name, desired.get(name)) for name in record if name in readable or name in desired
        }
    if told.get("resources"):
        found["resources"] = _requirements(told["resources"])
    return found


def _requirements(resources: Fields) -> dict[str, Any]:
    return {**resources, **{name: _readable(resources[name]) for name in ("requests", "limits") if name in resources}}


def _readable(quantities: Quantities | None) -> dict[str, Any]:
    return {name: text for name, text in (quantities or {}).items() if not unreadable("", {name: text})}


def _all(pod: Fields) -> Iterator[tuple[str, Quantities]]:
    """Every list of quantities that is charged, with its place."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if spec.get("overhead"):
        yield "spec.overhead", spec["overhead"]
    if spec.get("resources"):
        yield from _both("spec.resources", spec["resources"])
    for containers, statuses in LISTS:
        for each in spec.get(containers) or ():
            if each.get("resources"):
                yield from _both(f"spec.{containers}[{each.get('name')}].resources", each["resources"])
        for each in status.get(statuses) or ():
            place = f"status.{statuses}[{each.get('name')}]"
            if each.get("allocatedResources"):
                yield f"{place}.allocatedResources", each["allocatedResources"]
            if each.get("resources"):
                yield from _both(f"{place}.resources", each["resources"])


def _both(path: str, resources: Fields) -> Iterator[tuple[str, Quantities]]:
    for name in ("requests", "limits"):
        if resources.get(name):
            yield f"{path}.{name}", resources[name]
