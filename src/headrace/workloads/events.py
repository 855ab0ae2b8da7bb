"""Runs the plan for old Events, once a minute. Events are listed page by page, never cached: nobody else needs them."""

from collections.abc import Iterable, Sequence

from headrace.api.kinds import EVENT, NAMESPACE
from headrace.api.limits import LIST_PAGE
from headrace.api.objects import Object, metadata, name_of, namespace_of, uid_of
from headrace.api.times import stamp
from headrace.runtime.actions import Action
from headrace.runtime.cache import Informers
from headrace.runtime.controller import Source
from headrace.runtime.perform import Writing
from headrace.store.protocol import Refused, Store
from headrace.workloads.plan.events import Seen, Told, plan

ALL = "all"


class EventTTL:
    """Its only key is ALL; any Namespace (there is always one) starts its rounds."""

    name = "event-ttl"

    def __init__(self, informers: Informers, store: Store) -> None:
        self._store = store
        self.sources: Sequence[Source] = (Source(informers.of(NAMESPACE), _first),)

    async def observe(self, key: str) -> Seen | None:
        events: list[Told] = []
        resume = ""
        while True:
            page = await self._store.list(EVENT, limit=LIST_PAGE, resume=resume)
            events += [_told(each) for each in page.items]
            resume = page.resume
            if not resume:
                return Seen(tuple(events))

    def plan(self, seen: Seen, now: float) -> tuple[Action, ...]:
        return plan(seen, now)

    def refused(self, key: str, seen: Seen, action: Writing, refusal: Refused, now: float) -> tuple[Action, ...]:
        raise AssertionError(f"{key}: removing Events asks for no capacity, yet the ledger refused: {refusal}")


def _first(before: Object | None, after: Object | None) -> Iterable[str]:
    return (ALL,) if before is None else ()


def _told(event: Object) -> Told:
    series = event.get("series") or {}
    times = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        metadata(event).get("creationTimestamp"),
    )
    at = next((at for each in times if (at := stamp(each))), 0.0)
    return Told(namespace_of(event), name_of(event), uid_of(event), at)
