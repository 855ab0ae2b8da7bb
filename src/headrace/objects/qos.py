"""The QoS class of a Pod from what its containers ask for (pkg/apis/core/v1/helper/qos)."""

from collections.abc import Iterator
from typing import Any

from headrace.api.objects import Fields
from headrace.api.quantity import parse

COUNTED = ("cpu", "memory")


def qos_class(spec: Fields) -> str:
    """Guaranteed, Burstable or BestEffort."""
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    guaranteed = True
    for resources in _resources(spec):
        limited = 0
        for part, totals in (("requests", requests), ("limits", limits)):
            for name, nano in _amounts(resources.get(part) or {}):
                totals[name] = totals.get(name, 0) + nano
                limited += part == "limits"
        guaranteed = guaranteed and limited == len(COUNTED)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _resources(spec: Fields) -> Iterator[Fields]:
    own = spec.get("resources")
    if own and (own.get("requests") or own.get("limits")):
        yield own
        return
    for part in ("initContainers", "containers"):
        for container in spec.get(part) or ():
            yield container.get("resources") or {}


def _amounts(resources: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for name in COUNTED:
        nano = parse(str(resources[name])).nano if name in resources else 0
        if nano > 0:
            yield name, nano
