"""Runs the pools' plan: whatever a driver publishes is looked at, and what is wrong is told."""

from collections.abc import Iterable, Sequence

from headrace.api.kinds import NODE, RESOURCE_SLICE
from headrace.api.objects import Fields, Object, name_of
from headrace.devices import pools
from headrace.devices.pools import Seen
from headrace.runtime.actions import Action
from headrace.runtime.cache import Informers
from headrace.runtime.controller import Source
from headrace.runtime.perform import Writing
from headrace.store.protocol import Refused

BY_OWNER, BY_POOL = "node or none", "pool"
NO_NODE = "/"  # before the name of a pool that is of no node: no node is called so


class ResourcePools:
    """A key is a node's name, or `/driver/pool` for a pool of no node."""

    name = "resource-pools"

    def __init__(self, informers: Informers) -> None:
        self._nodes, self._slices = informers.of(NODE), informers.of(RESOURCE_SLICE)
        self._slices.add_index(BY_OWNER, lambda each: (_owner(each),))
        self._slices.add_index(BY_POOL, lambda each: (_pool(each),))
        self.sources: Sequence[Source] = (Source(self._slices, _owners), Source(self._nodes, self._new_node))

    def _new_node(self, before: Object | None, after: Object | None) -> Iterable[str]:
        return (name_of(after),) if before is None and after is not None else ()

    async def observe(self, key: str) -> Seen | None:
        node = None if key.startswith(NO_NODE) else self._nodes.get(key)
        if node is None and not key.startswith(NO_NODE):
            return None
        names = {_pool(each) for each in self._slices.indexed(BY_OWNER, key)}
        return Seen(node, {name: self._slices.indexed(BY_POOL, name) for name in names})

    def plan(self, seen: Seen, now: float) -> tuple[Action, ...]:
        return pools.plan(seen, now)

    def refused(self, key: str, seen: Seen, action: Writing, refusal: Refused, now: float) -> tuple[Action, ...]:
        raise AssertionError(f"{key}: telling of a pool asks for no capacity, yet the ledger refused: {refusal}")


def _owners(before: Object | None, after: Object | None) -> Iterable[str]:
    return {_owner(each) for each in (before, after) if each is not None}


def _owner(resource_slice: Fields) -> str:
    node = (resource_slice.get("spec") or {}).get("nodeName")
    return str(node) if node else f"{NO_NODE}{_pool(resource_slice)}"


def _pool(resource_slice: Fields) -> str:
    spec: Fields = resource_slice.get("spec") or {}
    return f"{spec.get('driver')}/{(spec.get('pool') or {}).get('name')}"
