"""Runs the Pod collector's plan, every few seconds and over all Pods."""

from collections.abc import Iterable, Sequence

from headrace.api.kinds import NODE, POD
from headrace.api.objects import Object, metadata, name_of, namespace_of, uid_of
from headrace.api.times import stamp
from headrace.runtime.actions import Action
from headrace.runtime.cache import Informers
from headrace.runtime.clock import Clock
from headrace.runtime.controller import Source
from headrace.runtime.perform import Writing
from headrace.store.protocol import NotFound, Refused, Store
from headrace.workloads.nodes import ENDED, bound_to
from headrace.workloads.plan.pods import Listed, Seen, plan

ALL = "all"


class PodCollector:
    """Its only key is ALL."""

    name = "pod-collector"

    def __init__(self, informers: Informers, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._pods, self._nodes = informers.of(POD), informers.of(NODE)
        self._missing: dict[str, float] = {}
        self._going_round = False
        self.sources: Sequence[Source] = (Source(self._pods, self._pod_changed), Source(self._nodes, _gone))

    def _pod_changed(self, before: Object | None, after: Object | None) -> Iterable[str]:
        """The first Pod starts the rounds, which go on by themselves: looking at every Pod is not for each change."""
        if self._going_round:
            return ()
        self._going_round = True
        return (ALL,)

    async def observe(self, key: str) -> Seen | None:
        now = self._clock.monotonic()
        names = {name for pod in self._pods for name in bound_to(pod)}
        missing = {name for name in names if self._nodes.get(name) is None and not await self._exists(name)}
        self._missing = {name: self._missing.get(name, now) for name in missing}
        return Seen(tuple(self._listed(pod, now) for pod in self._pods))

    async def _exists(self, node: str) -> bool:
        """Asked of the store: a cache that has not heard of a node yet must not cost Pods."""
        try:
            await self._store.get(NODE, node)
        except NotFound:
            return False
        return True

    def _listed(self, pod: Object, now: float) -> Listed:
        node = next(iter(bound_to(pod)), None)
        since = self._missing.get(node) if node else None
        return Listed(
            namespace_of(pod),
            name_of(pod),
            uid_of(pod),
            stamp(metadata(pod).get("creationTimestamp")),
            terminated=(pod.get("status") or {}).get("phase") in ENDED,
            deleting=bool(metadata(pod).get("deletionTimestamp")),
            bound=node is not None,
            orphaned_seconds=None if since is None else now - since,
        )

    def plan(self, seen: Seen, now: float) -> tuple[Action, ...]:
        return plan(seen, now)

    def refused(self, key: str, seen: Seen, action: Writing, refusal: Refused, now: float) -> tuple[Action, ...]:
        raise AssertionError(f"{key}: removing Pods asks for no capacity, yet the ledger refused: {refusal}")


def _gone(before: Object | None, after: Object | None) -> Iterable[str]:
    return (ALL,) if after is None else ()
