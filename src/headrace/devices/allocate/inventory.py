"""What allocation knows of the cluster: slices, classes and what allocated claims hold, kept by events.

Add, update and remove are exact reverses of each other. What follows from the objects (views of nodes, answers to
demands) is kept until an event touches it; `changes` tells which nodes were touched.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import orjson

from headrace.devices.allocate.device import DeviceID, Slice
from headrace.devices.allocate.features import DEFAULT, Features
from headrace.devices.allocate.in_use import InUse, results_of
from headrace.devices.allocate.known import UNKNOWN, Known, Unknown
from headrace.devices.allocate.looks import lens_of
from headrace.devices.allocate.nodes import labels_of, name_of
from headrace.devices.allocate.outline import Outline
from headrace.devices.allocate.pools import Gathered, PoolID, gather
from headrace.devices.allocate.requests import DeviceClass, read_claims
from headrace.devices.allocate.selectors import Selectors
from headrace.devices.allocate.view import State, View

Json = Mapping[str, Any]

DEMANDS_KEPT = 128
KINDS_KEPT = 50_000
CHANGES_KEPT = 100_000


class Inventory:
    """All objects are JSON of resource.k8s.io/v1; a key is any text that names one of them (its uid, or its name)."""

    def __init__(self, features: Features = DEFAULT) -> None:
        self.features = features
        self.selectors = Selectors()
        self.classes: dict[str, DeviceClass] = {}
        self.in_use = InUse()
        self.nodes: dict[str, Json] = {}
        self.numbers: dict[str, int] = {}
        self.names: list[str] = []
        self.epoch = 0
        self.serials: dict[str, int] = {}  # by node: grows with each event that touches it
        self.changes: list[str] = []
        self.changes_forgotten = 0
        self._slices: dict[str, Slice] = {}
        self._on_node: dict[str, dict[str, Slice]] = {}
        self._shared: dict[str, Slice] = {}
        self._by_pool: dict[PoolID, dict[str, Slice]] = {}
        self._held: dict[str, tuple[Json, ...]] = {}
        self._holders: dict[DeviceID, dict[str, None]] = {}
        self.views: dict[str, View] = {}
        self.states: dict[str, State] = {}
        self._gathered: Gathered = {}
        self._seen_by: dict[PoolID, dict[str, None]] = {}
        self._kinds: dict[Hashable, int] = {}
        self._known: dict[bytes, Known] = {}

    # Events

    def put_node(self, node: Json) -> None:
        """Add or update a node. Nodes are numbered in the order they come; the numbers hold within one `epoch`."""
        name = name_of(node)
        before = self.nodes.get(name)
        self.nodes[name] = node
        if before is None:
            self.numbers[name] = len(self.names)
            self.names.append(name)
        if before is None or not _is_alike(before, node):
            self._drop_view(name)
            self._changed(name)

    def drop_node(self, name: str) -> None:
        if self.nodes.pop(name, None) is None:
            return
        self._drop_view(name)
        self.names = list(self.nodes)
        self.numbers = {each: number for number, each in enumerate(self.names)}
        self.epoch += 1

    def put_slice(self, key: str, resource_slice: Json) -> None:
        """Add a slice, or replace what the key had; a replaced slice keeps its place in the order."""
        new, old = Slice(resource_slice), self._slices.get(key)
        new.read()
        if old is not None and (old.node_name, old.id) != (new.node_name, new.id):
            self.drop_slice(key)
        self._slices[key] = new
        self._holder(new)[key] = new
        self._by_pool.setdefault(new.id, {})[key] = new
        self._touch(new)

    def drop_slice(self, key: str) -> None:
        old = self._slices.pop(key, None)
        if old is None:
            return
        del self._holder(old)[key]
        del self._by_pool[old.id][key]
        if old.node_name and not self._on_node[old.node_name]:
            del self._on_node[old.node_name]
        if not self._by_pool[old.id]:
            del self._by_pool[old.id]
        self._touch(old)

    def _holder(self, each: Slice) -> dict[str, Slice]:
        return self._on_node.setdefault(each.node_name, {}) if each.node_name else self._shared

    def put_class(self, device_class: Json) -> None:
        self.classes[device_class["metadata"]["name"]] = DeviceClass(device_class)
        self.forget_answers()

    def drop_class(self, name: str) -> None:
        self.classes.pop(name, None)
        self.forget_answers()

    def forget_answers(self) -> None:
        """Drop all that was found out about demands (a class changed, or somebody wants to measure a first time)."""
        self._known.clear()
        self.epoch += 1

    def put_claim(self, key: str, claim: Json) -> None:
        """Count what the claim's allocation holds, instead of what it held before."""
        self.hold(key, results_of((claim,)))

    def drop_claim(self, key: str) -> None:
        self.hold(key, ())

    def hold(self, key: str, results: Iterable[Json]) -> None:
        """Count these allocation results under the key, instead of what it held before."""
        with_shares = self.features.ConsumableCapacity
        held, before = tuple(results), self._held.pop(key, ())
        if held:
            self._held[key] = held
        if held == before:
            return
        for result in before:
            self._holders.get(_device_of(result), {}).pop(key, None)
        for result in held:
            self._holders.setdefault(_device_of(result), {})[key] = None
        touched = {self.in_use.remove(result, with_shares=with_shares) for result in before}
        touched |= {self.in_use.add(result, with_shares=with_shares) for result in held}
        for pool in {device[:2] for device in touched if device is not None}:
            for name in self._onlookers(pool):
                self.states.pop(name, None)
                self._changed(name)

    def holders(self, device: DeviceID) -> list[str]:
        """The keys under which the device is held."""
        return list(self._holders.get(device, ()))

    # What follows

    def view(self, node: Json) -> View:
        """The node's pools and devices; raises Failure."""
        name = name_of(node)
        known = self.views.get(name)
        if known is not None and (known.node is node or _is_alike(known.node, node)):
            return known
        own = self._on_node.get(name, {})
        candidates = (*own.values(), *self._shared.values())
        by_pool = {each.id: tuple(self._by_pool[each.id].values()) for each in candidates}
        self._drop_view(name)
        view = View(node, gather(node, candidates, by_pool, self.features, self._gathered), by_pool, self.features)
        if len(self._kinds) >= KINDS_KEPT:
            self._forget()
        view.kind = self._kinds.setdefault(view.layout, len(self._kinds))
        self.views[name] = view
        for each in by_pool:
            self._seen_by.setdefault(each, {})[name] = None
        return view

    def state(self, view: View) -> State:
        """What is in use on the node just now."""
        name = name_of(view.node)
        known = self.states.get(name)
        if known is None:
            known = self.states[name] = State(view, self.in_use, self.features)
        return known

    def known(self, claims: Sequence[Json]) -> Known:
        """What was found out about these claims, whatever their names are."""
        key = orjson.dumps([(claim.get("spec") or {}).get("devices") for claim in claims])
        found = self._known.get(key)
        if found is None:
            found = Known(read_claims(claims, self.classes, self.features))
            if found.demand.error is None:
                if len(self._known) >= DEMANDS_KEPT:
                    del self._known[next(iter(self._known))]
                self._known[key] = found
        return found

    def look(self, name: str, known: Known) -> tuple[Hashable, tuple[Slice, ...]] | None:
        """How the node looks to a demand, and its slices in order; None where it has to be searched for itself."""
        if isinstance(known.lens, Unknown):
            known.lens = lens_of(known.demand, self.selectors, self.features)
        slices = None if known.lens is None else self.ordinary(name)
        if known.lens is None or slices is None:
            return None
        seen = known.lens.look(slices, self.in_use)
        return None if seen is None else (seen, slices)

    def at_a_glance(self, name: str, known: Known) -> Outline | Unknown | None:
        """The answer of a node that looks like one that was searched."""
        serial = self.serials.get(name, 0)
        before = known.at_node.get(name)
        if before is not None and before[0] == serial:
            return before[1]
        seen = self.look(name, known)
        if seen is None:
            return UNKNOWN
        outline = known.by_look(seen[0])
        if not isinstance(outline, Unknown):
            known.at_node[name] = serial, outline, seen[1]
        return outline

    def ordinary(self, name: str) -> tuple[Slice, ...] | None:
        """The node's slices in the order of its pools, if they are all it sees, each is a pool of its own, and all of
        them are ordinary."""
        if self._shared:
            return None
        own = self._on_node.get(name)
        if own is None:
            return ()
        slices = tuple(own.values())
        for each in slices:
            if not each.is_ordinary or each.count != 1 or len(self._by_pool[each.id]) != 1:
                return None
        return slices if len(slices) == 1 else tuple(sorted(slices, key=_pool_of))

    def may_have_invalid_pool(self, name: str) -> bool:
        """Whether the node's pools were found to be invalid, or nobody has looked."""
        view = self.views.get(name)
        return self.ordinary(name) is None if view is None else view.has_invalid

    def _onlookers(self, pool: PoolID) -> dict[str, None]:
        """The nodes for which something of the pool counts: that saw it, or have a slice of it."""
        names = dict.fromkeys(self._seen_by.get(pool, ()))
        for each in self._by_pool.get(pool, {}).values():
            if each.node_name:
                names[each.node_name] = None
        return names

    def _touch(self, each: Slice) -> None:
        """A slice came or went: all for whom its pool counts look again, and all nodes if it may be for any."""
        self._gathered.pop(each.id, None)
        if each.node_name:
            names = self._onlookers(each.id)
            names[each.node_name] = None
        else:
            names = dict.fromkeys((*self.views, *self.nodes))
        for name in names:
            self._drop_view(name)
            self._changed(name)

    def _drop_view(self, name: str) -> None:
        self.states.pop(name, None)
        view = self.views.pop(name, None)
        if view is None:
            return
        for pool in view.candidates:
            seen = self._seen_by.get(pool)
            if seen is not None:
                seen.pop(name, None)
                if not seen:
                    del self._seen_by[pool]

    def _forget(self) -> None:
        self._kinds.clear()
        self.forget_answers()
        for name in list(self.views):
            self._drop_view(name)

    def _changed(self, name: str) -> None:
        self.changes.append(name)
        self.serials[name] = self.changes_forgotten + len(self.changes)
        if len(self.changes) >= CHANGES_KEPT:
            half = CHANGES_KEPT // 2
            del self.changes[:half]
            self.changes_forgotten += half


def _device_of(result: Json) -> DeviceID:
    return result.get("driver", ""), result.get("pool", ""), result.get("device", "")


def _pool_of(each: Slice) -> PoolID:
    return each.id


def _is_alike(known: Json, node: Json) -> bool:
    """Whether all that allocation reads of a node is as it was."""
    return labels_of(known) == labels_of(node) and (known.get("status") or {}).get("declaredFeatures") == (
        node.get("status") or {}
    ).get("declaredFeatures")
