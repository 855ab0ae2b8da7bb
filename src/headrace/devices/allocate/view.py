"""One node as allocation sees it: its pools and devices in order (`View`), and what of them is in use (`State`).

Both are values: a search that began goes on with what it began with, whatever events arrive in between.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from headrace.devices.allocate.constraints import Value
from headrace.devices.allocate.device import Counters, Device
from headrace.devices.allocate.features import Features
from headrace.devices.allocate.in_use import InUse
from headrace.devices.allocate.nodes import InvalidSelector, is_for_node
from headrace.devices.allocate.pools import Pool, PoolID

Json = Mapping[str, Any]
Groups = frozenset[str] | None  # compatibility groups that all devices of a counter set share; None if all name none

OPTIONAL_NODE_OPERATIONS = "DRAOptionalNodeOperations"
MASKS_KEPT = 16


class Chosen:
    """The devices that some selectors take (`yes`) and fail on (`error`), of those they were asked about."""

    __slots__ = ("asked", "error", "yes")

    def __init__(self) -> None:
        self.asked = self.yes = self.error = 0


class View:
    """Device sets elsewhere are whole numbers with one bit for each of `devices`, in this order.

    `candidates` are all pools with a slice that may be for the node, `pools` those that are.
    `layout` is equal for nodes whose devices differ in nothing but names; the inventory numbers them (`kind`).
    `chosen` and `groups` remember, whatever the demand: which devices selectors take, and which devices have equal
    values of an attribute.
    """

    __slots__ = (
        "_marks",
        "candidates",
        "chosen",
        "devices",
        "everything",
        "groups",
        "has_invalid",
        "has_many_terms",
        "is_simple",
        "kind",
        "layout",
        "may_skip_operations",
        "node",
        "pool_of",
        "pools",
        "slices",
        "usable",
    )

    def __init__(self, node: Json, pools: Sequence[Pool], candidates: Iterable[PoolID], features: Features) -> None:
        self.node, self.pools, self.candidates = node, pools, tuple(candidates)
        self.usable = [pool for pool in pools if pool.is_usable]
        self.has_invalid = any(pool.invalid is not None for pool in pools)
        self.devices: list[Device] = [device for pool in self.usable for device in pool.devices]
        self.everything = (1 << len(self.devices)) - 1
        self.pool_of: list[int] = [number for number, pool in enumerate(self.usable) for _ in pool.devices]
        declared = (node.get("status") or {}).get("declaredFeatures") or ()
        self.may_skip_operations = features.OptionalNodeOperations and OPTIONAL_NODE_OPERATIONS in declared
        self.slices = slices = [each for pool in self.usable for each in pool.slices]
        self.is_simple = all([each.is_simple for each in slices]) and not any(pool.counters for pool in self.usable)
        self.has_many_terms = any(_has_many_terms(each.spec) for each in slices) or any(
            _has_many_terms(device.spec) for each in slices if each.per_device for device in each.devices
        )
        self.kind = -1
        self.chosen: dict[tuple[str, ...], Chosen] = {}
        self.groups: dict[str, dict[Value, int]] = {}
        self._marks: tuple[int, int, int] | None = None
        self.layout: Hashable = tuple(self._layout(pool) for pool in pools)

    @property
    def marks(self) -> tuple[int, int, int]:
        """The devices that take counters, those that can be shared, and those that a taint or a gate may bar."""
        if self._marks is None and all([each.is_ordinary and not each.has_taints for each in self.slices]):
            self._marks = 0, 0, 0
        if self._marks is None:
            counting = shareable = barred = 0
            for index, device in enumerate(self.devices):
                if device.takes_counters:
                    counting |= 1 << index
                if device.is_shareable:
                    shareable |= 1 << index
                if device.takes_counters or device.slice.skip_operations or device.taints:
                    barred |= 1 << index
            self._marks = counting, shareable, barred
        return self._marks

    def chosen_by(self, expressions: tuple[str, ...]) -> Chosen:
        found = self.chosen.get(expressions)
        if found is None:
            if len(self.chosen) >= MASKS_KEPT:
                self.chosen.clear()
            found = self.chosen[expressions] = Chosen()
        return found

    def remember_groups(self, attribute: str, groups: dict[Value, int]) -> None:
        if len(self.groups) >= MASKS_KEPT:
            self.groups.clear()
        self.groups[attribute] = groups

    def _layout(self, pool: Pool) -> Hashable:
        if not pool.is_usable:
            return pool.is_incomplete
        devices = tuple([each.layout for each in pool.slices])
        counters = tuple(sorted(pool.counters.items())) if pool.counters else ()
        if not any(each.per_device or each.skip_operations for each in pool.slices):
            return devices, counters
        here = tuple(
            (self._is_here(device), bool(device.slice.skip_operations and self.may_skip_operations))
            for device in pool.devices
        )
        return devices, counters, here

    def _is_here(self, device: Device) -> Hashable:
        if not device.slice.per_device:
            return True
        try:
            return is_for_node(device.spec, self.node)
        except InvalidSelector:
            return object()  # equal to nothing: its error names the device


class State:
    """What is in use on one node. `key` is equal where all of it is."""

    __slots__ = ("available", "groups", "held", "key", "shared", "used")

    def __init__(self, view: View, in_use: InUse, features: Features) -> None:
        self.used = self.shared = 0
        self.held: dict[int, dict[str, int]] = {}
        self.available: tuple[Counters | None, ...] = ()
        self.groups: tuple[dict[str, Groups], ...] = ()
        first = 0
        for pool in view.usable:
            if pool.id in in_use.by_pool:
                used, shared = pool.in_use(in_use)
                self.used |= used << first
                self.shared |= shared << first
            first += len(pool.devices)
        for index in _bits(self.shared):
            consumed = in_use.consumed.get(view.devices[index].id)
            if consumed is not None:
                self.held[index] = dict(consumed)
        self.key: Hashable = self.used
        if view.is_simple and not self.shared:
            return
        self.available = tuple(_available(pool, in_use) for pool in view.usable)
        if features.CompatibilityGroups:
            self.groups = tuple(_groups(pool, in_use) for pool in view.usable)
        self.key = (
            self.used,
            self.shared,
            tuple((index, tuple(sorted(amounts.items()))) for index, amounts in self.held.items()),
            tuple(None if left is None else tuple(sorted(left.items())) for left in self.available),
            tuple(tuple(sorted(each.items(), key=str)) for each in self.groups),
        )


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        mask ^= low
        yield low.bit_length() - 1


def _has_many_terms(holder: Json) -> bool:
    selector = holder.get("nodeSelector")
    return selector is not None and len(selector.get("nodeSelectorTerms") or ()) > 1


def _holding(pool: Pool, in_use: InUse) -> list[Device]:
    return [device for device in (*pool.devices, *pool.elsewhere) if device.takes_counters and in_use.holds(device.id)]


def _available(pool: Pool, in_use: InUse) -> Counters | None:
    """What is left of the pool's counters; None if one is overdrawn, which blocks all that consume any."""
    if not pool.counters:
        return {}
    left = dict(pool.counters)
    for device in _holding(pool, in_use):
        for key, amount in device.consumes.items():
            if key in left:
                left[key] -= amount
    return None if any(amount < 0 for amount in left.values()) else left


def _groups(pool: Pool, in_use: InUse) -> dict[str, Groups]:
    """Per counter set with a device in use, the compatibility groups that those devices share."""
    found: dict[str, Groups] = {}
    for device in _holding(pool, in_use):
        for counter_set, groups in device.compatibility_groups():
            known = found.setdefault(counter_set, groups or None)
            if known is not None and groups:
                found[counter_set] = known & groups
    return found
