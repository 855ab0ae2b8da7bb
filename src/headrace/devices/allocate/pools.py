"""Pools as one node sees them: newest generation, completeness, validity, and the order devices are tried in.

Nothing is allocated from an incomplete or invalid pool, but it stays in the list, since `allocationMode: All` asks.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headrace.api.quantity import parse
from headrace.devices.allocate.device import NO_FIELDS, Counters, Device, Slice
from headrace.devices.allocate.failure import Failure
from headrace.devices.allocate.features import Features
from headrace.devices.allocate.in_use import InUse
from headrace.devices.allocate.nodes import InvalidSelector, is_for_node

Json = Mapping[str, Any]
PoolID = tuple[str, str]  # driver, pool


class Pool:
    """One pool as some nodes see it. `elsewhere` are its devices for other nodes, which share its counters."""

    __slots__ = ("_in_use", "counters", "devices", "elsewhere", "id", "invalid", "is_incomplete", "slices")

    def __init__(self, pool_id: PoolID, slices: Sequence[Slice] = (), *, is_incomplete: bool = False) -> None:
        self.id = pool_id
        self.is_incomplete = is_incomplete
        self.invalid: str | None = None
        self.slices = tuple(slices)
        self.devices: tuple[Device, ...] = ()
        self.elsewhere: tuple[Device, ...] = ()
        self.counters: Counters = {}
        self._in_use = (-1, 0, 0)

    def __str__(self) -> str:
        return "/".join(self.id)

    @property
    def is_usable(self) -> bool:
        return not self.is_incomplete and self.invalid is None

    def in_use(self, held: InUse) -> tuple[int, int]:
        """The devices in use, and those shared, as bits in the order of `devices`."""
        version = held.versions.get(self.id, 0)
        if self._in_use[0] != version:
            used = shared = 0
            for index, device in enumerate(self.devices):
                if device.id in held.used:
                    used |= 1 << index
                if held.is_shared(device.id):
                    shared |= 1 << index
            self._in_use = version, used, shared
        return self._in_use[1:]

    @property
    def has_binding_conditions(self) -> bool:
        return any(device.spec.get("bindingConditions") is not None for device in self.devices)


Gathered = dict[PoolID, list[tuple[list[Slice], Pool | None]]]


def gather(
    node: Json,
    candidates: Iterable[Slice],
    in_cluster: Mapping[PoolID, Sequence[Slice]],
    features: Features,
    known: Gathered,
) -> list[Pool]:
    """The node's pools in the order they are searched.

    `known` remembers pools by the slices they were made of, for the next node: its owner forgets a pool that changes.

    `candidates` are the node's own slices, then those without a node name, each in list order; `in_cluster` holds the
    slices of every pool on all nodes. Raises a fatal Failure for a node selector that does not parse.
    """
    relevant: dict[PoolID, list[Slice]] = {}
    for each in candidates:
        if not features.PartitionableDevices and (
            each.spec.get("perDeviceNodeSelection") is not None or each.counter_sets
        ):
            continue
        if not features.CompatibilityGroups and each.has_compatibility_groups:
            continue
        if _is_relevant(each, node):
            _add_newest(relevant, each)
    first: list[Pool] = []
    last: list[Pool] = []
    for pool_id, slices in relevant.items():
        pool = _known(pool_id, slices, in_cluster[pool_id], features, known)
        if pool is not None:
            (last if pool.has_binding_conditions else first).append(pool)
    return sorted(first, key=_by_id) + sorted(last, key=_by_id)


def _known(
    pool_id: PoolID, slices: list[Slice], everywhere: Sequence[Slice], features: Features, known: Gathered
) -> Pool | None:
    if slices[0].node_name:  # a node's own slices are nobody else's
        return _complete(pool_id, slices, everywhere, features)
    made = known.setdefault(pool_id, [])
    for before, pool in made:
        if before == slices:
            return pool
    pool = _complete(pool_id, slices, everywhere, features)
    made.append((slices, pool))
    return pool


def _by_id(pool: Pool) -> PoolID:
    return pool.id


def _is_relevant(each: Slice, node: Json) -> bool:
    spec = each.spec
    try:
        if each.node_name or spec.get("allNodes") or spec.get("nodeSelector") is not None:
            return is_for_node(spec, node)
    except InvalidSelector as error:
        raise _unreadable(f"slice {each.name}", spec, error) from None
    if not each.per_device:
        return False  # some future way to name nodes
    for device in each.devices:
        try:
            if is_for_node(device.spec, node):
                return True
        except InvalidSelector as error:
            raise _unreadable(f"device {device.name} in slice {each.name}", device.spec, error) from None
    return False


def _unreadable(what: str, holder: Json, error: InvalidSelector) -> Failure:
    text = unreadable_selector(holder, error)
    return Failure("node-selection", f"gather pool information: failed to perform node selection for {what}: {text}")


def unreadable_selector(holder: Json, error: InvalidSelector) -> str:
    return f"failed to parse node selector {selector_text(holder['nodeSelector'])}: {error}"


def selector_text(selector: Json) -> str:
    """A node selector as Kubernetes' generated code prints it."""
    terms = ",".join(
        "NodeSelectorTerm{"
        f"MatchExpressions:[]NodeSelectorRequirement{{{_requirements_text(term.get('matchExpressions'))}}},"
        f"MatchFields:[]NodeSelectorRequirement{{{_requirements_text(term.get('matchFields'))}}},"
        "}"
        for term in selector.get("nodeSelectorTerms") or ()
    )
    return f"&NodeSelector{{NodeSelectorTerms:[]NodeSelectorTerm{{{terms}{',' if terms else ''}}},}}"


def _requirements_text(requirements: Sequence[Json] | None) -> str:
    return "".join(
        f"NodeSelectorRequirement{{Key:{each.get('key') or ''},Operator:{each.get('operator') or ''},"
        f"Values:[{' '.join(each.get('values') or ())}],}},"
        for each in requirements or ()
    )


def _add_newest(relevant: dict[PoolID, list[Slice]], each: Slice) -> None:
    known = relevant.get(each.id)
    if known is None or each.generation > known[0].generation:
        relevant[each.id] = [each]
    elif each.generation == known[0].generation:
        known.append(each)


def _complete(pool_id: PoolID, slices: list[Slice], everywhere: Sequence[Slice], features: Features) -> Pool | None:
    """None when a newer generation, made for other nodes, has replaced this one."""
    believed = slices[0]
    if len(slices) == believed.count:
        return _build(pool_id, slices, (), features)
    if any(each.generation > believed.generation for each in everywhere):
        return None
    current = [
        each
        for each in everywhere
        if each.generation == believed.generation
        and (features.CompatibilityGroups or not each.has_compatibility_groups)
    ]
    if len(current) != believed.count:
        return Pool(pool_id, is_incomplete=True)
    return _build(pool_id, slices, current, features)


def _build(pool_id: PoolID, slices: list[Slice], everywhere: Sequence[Slice], features: Features) -> Pool:
    here = sorted(slices, key=lambda each: each.name)
    names = {each.name for each in here}
    others = [each for each in everywhere if each.name not in names] if len(here) < len(everywhere) else []
    holders = [each for each in (*here, *others) if features.PartitionableDevices and each.counter_sets]
    with_devices = [each for each in here if not (features.PartitionableDevices and each.counter_sets)]
    pool = Pool(pool_id, with_devices)
    devices = [device for each in with_devices for device in each.devices]
    elsewhere = [device for each in others if each not in holders for device in each.devices]
    counters, sets = _counters(holders)
    pool.invalid = _duplicate_name(devices)
    if pool.invalid is None and features.PartitionableDevices:
        pool.invalid = sets if isinstance(sets, str) else _unknown_counter(sets, (*devices, *elsewhere))
    if pool.invalid is None:
        pool.devices, pool.elsewhere, pool.counters = tuple(devices), tuple(elsewhere), counters
    return pool


def _duplicate_name(devices: Sequence[Device]) -> str | None:
    seen: set[str] = set()
    for device in devices:
        if device.name in seen:
            return f"duplicate device name {device.name}"
        seen.add(device.name)
    return None


def _counters(holders: Sequence[Slice]) -> tuple[Counters, dict[str, frozenset[str]] | str]:
    """All counters with their values, and the counters' names by set; a text instead if a set is defined twice."""
    counters: Counters = {}
    sets: dict[str, frozenset[str]] = {}
    for holder in holders:
        for counter_set in holder.counter_sets:
            name = counter_set.get("name") or ""
            if name in sets:
                return counters, f"duplicate counter set name {name}"
            values = counter_set.get("counters") or NO_FIELDS
            sets[name] = frozenset(values)
            for counter, value in values.items():
                counters[name, counter] = parse(str(value.get("value", "0"))).nano
    return counters, sets


def _unknown_counter(sets: dict[str, frozenset[str]], devices: Iterable[Device]) -> str | None:
    for device in devices:
        if not device.takes_counters:
            continue
        for consumption in device.spec["consumesCounters"]:
            name = consumption.get("counterSet") or ""
            if name not in sets:
                return f"counter set {name} not found"
            for counter in consumption.get("counters") or NO_FIELDS:
                if counter not in sets[name]:
                    return f"counter {counter} not found in counter set {name}"
    return None
