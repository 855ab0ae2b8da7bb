"""What a demand can tell nodes apart by: nodes that look alike to it have one answer, found on the first of them.

Only for nodes whose devices are ordinary; their pools need not be gathered for it. All others are searched one by one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import orjson

from headrace.cel.errors import CompileError
from headrace.cel.reads import Column
from headrace.devices.allocate.device import Slice
from headrace.devices.allocate.features import Features
from headrace.devices.allocate.in_use import InUse
from headrace.devices.allocate.requests import Demand
from headrace.devices.allocate.selectors import Selectors


class Lens:
    """The attributes and capacities that a demand reads, named as a driver publishes them."""

    __slots__ = ("_attributes", "_capacities", "_keys")

    def __init__(self, attributes: Iterable[str], capacities: Iterable[str]) -> None:
        """Full names, `domain/name`."""
        self._attributes, self._capacities = sorted(set(attributes)), sorted(set(capacities))
        self._keys: dict[str, tuple[list[str], list[str]]] = {}

    def look(self, slices: Sequence[Slice], in_use: InUse) -> Hashable:
        """Equal for nodes with equal answers; None where a device is held otherwise than as a whole."""
        found: list[Hashable] = []
        for each in slices:
            attributes, capacities = self._keys.get(each.driver) or self._keys_of(each.driver)
            devices = each.attributes
            seen: list[Any] = [[device.get(key) for device in devices] for key in attributes]
            if capacities:
                amounts = [device.get("capacity") or {} for device in each.spec["devices"]]
                seen += [[amount.get(key) for amount in amounts] for key in capacities]
            if each.has_taints:
                seen.append([device.get("taints") for device in each.spec["devices"]])
            used = 0
            if each.id in in_use.by_pool:
                for index, device in enumerate(each.spec["devices"]):
                    identity = (*each.id, device.get("name") or "")
                    if in_use.is_shared(identity):
                        return None
                    if identity in in_use.used:
                        used |= 1 << index
            found += (each.driver, len(devices), used, orjson.dumps(seen) if seen else b"")
        return tuple(found)

    def _keys_of(self, driver: str) -> tuple[list[str], list[str]]:
        """The keys under which the driver's devices may have them: the driver's own domain may be left out."""
        found: tuple[list[str], list[str]] = ([], [])
        for names, keys in zip((self._attributes, self._capacities), found, strict=True):
            for name in names:
                domain, _, bare = name.partition("/")
                keys += [name, bare] if domain == driver else [name]
        self._keys[driver] = found
        return found


def lens_of(demand: Demand, selectors: Selectors, features: Features) -> Lens | None:
    """None where more than single attributes and capacities, taints, and what is in use can decide."""
    if demand.error is not None or features.is_experimental:
        return None
    attributes = {constraint.attribute for claim in demand.claims for constraint in claim.constraints}
    capacities: set[str] = set()
    for want in demand.wants:
        if want.amounts:
            return None
        for check in want.checks:
            selector = selectors.compiled(check.expression)
            if isinstance(selector, CompileError) or selector.reads is None:
                return None
            for column in selector.reads:
                if not _add(column, attributes, capacities):
                    return None
    return Lens(attributes, capacities)


def _add(column: Column, attributes: set[str], capacities: set[str]) -> bool:
    match column:
        case ("attributes", domain, name):
            attributes.add(f"{domain}/{name}")
        case ("capacity", domain, name):
            capacities.add(f"{domain}/{name}")
        case ("driver",) | ("allowMultipleAllocations",):
            pass  # the driver is always told apart, and no ordinary device can be shared
        case _:
            return False
    return True
