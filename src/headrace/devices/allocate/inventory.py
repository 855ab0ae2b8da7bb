"""What allocation knows of the cluster: slices, classes and what allocated claims hold, kept by events.

Add, update and remove are exact reverses of each other; the order of slices matters only as Kubernetes lets it matter.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.devices.allocate.device import Slice
from headrace.devices.allocate.features import DEFAULT, Features
from headrace.devices.allocate.in_use import InUse, results_of
from headrace.devices.allocate.nodes import name_of
from headrace.devices.allocate.pools import Pool, PoolID, gather
from headrace.devices.allocate.selectors import Selectors

Json = Mapping[str, Any]


class Inventory:
    """All objects are JSON of resource.k8s.io/v1; a key is any text that names one of them (its uid, or its name)."""

    def __init__(self, features: Features = DEFAULT) -> None:
        self.features = features
        self.selectors = Selectors()
        self.classes: dict[str, Json] = {}
        self.in_use = InUse()
        self._slices: dict[str, Slice] = {}
        self._on_node: dict[str, dict[str, Slice]] = {}
        self._shared: dict[str, Slice] = {}
        self._by_pool: dict[PoolID, dict[str, Slice]] = {}
        self._held: dict[str, tuple[Json, ...]] = {}

    def put_slice(self, key: str, resource_slice: Json) -> None:
        """Add a slice, or replace what the key had; a replaced slice keeps its place in the order."""
        new, old = Slice(resource_slice), self._slices.get(key)
        if old is not None and (old.node_name, old.id) != (new.node_name, new.id):
            self.drop_slice(key)
        self._slices[key] = new
        self._holder(new)[key] = new
        self._by_pool.setdefault(new.id, {})[key] = new

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

    def _holder(self, each: Slice) -> dict[str, Slice]:
        return self._on_node.setdefault(each.node_name, {}) if each.node_name else self._shared

    def put_class(self, device_class: Json) -> None:
        self.classes[device_class["metadata"]["name"]] = device_class

    def drop_class(self, name: str) -> None:
        self.classes.pop(name, None)

    def put_claim(self, key: str, claim: Json) -> None:
        """Count what the claim's allocation holds, instead of what it held before."""
        self.hold(key, results_of((claim,)))

    def drop_claim(self, key: str) -> None:
        self.hold(key, ())

    def hold(self, key: str, results: Iterable[Json]) -> None:
        """Count these allocation results under the key, instead of what it held before."""
        with_shares = self.features.ConsumableCapacity
        for result in self._held.pop(key, ()):
            self.in_use.remove(result, with_shares=with_shares)
        held = tuple(results)
        for result in held:
            self.in_use.add(result, with_shares=with_shares)
        if held:
            self._held[key] = held

    def pools(self, node: Json) -> list[Pool]:
        """The node's pools; raises Failure."""
        own = self._on_node.get(name_of(node), {})
        by_pool = {pool_id: tuple(slices.values()) for pool_id, slices in self._pools_of(own)}
        return gather(node, (*own.values(), *self._shared.values()), by_pool, self.features)

    def _pools_of(self, own: Mapping[str, Slice]) -> Iterable[tuple[PoolID, dict[str, Slice]]]:
        for each in (*own.values(), *self._shared.values()):
            yield each.id, self._by_pool[each.id]
