"""The one reconcile loop: a changed key is observed, planned and acted on. Level, not edge: plan from what is.

How to write a controller
-------------------------
1. `plan.py` (pure): a frozen `Seen` with all that the decision needs, and `plan(seen, now) -> tuple[Action, ...]`.
   `now` is wall seconds. The same input gives the same output; acting on a plan leaves nothing to do; names of created
   things are computed. A status patch carries `version`, so that a stale look ends in a Conflict and not in a wrong
   write. Durations that must not follow a jump of the wall clock are measured in `observe` by `clock.monotonic()`
   and handed in by Seen.
2. `controller.py`: a class (the `Job` protocol) with

   - `name`: how logs, metrics and events call it;
   - `sources`: `Source(informers.of(KIND), keys)`; `keys(before, after)` maps a change of an object to the keys to look
     at, `own_key` for the kind that the controller is about. Ask for informers, and add indexes, in the constructor;
   - `async observe(key) -> Seen | None`: reads caches (or the world) and decides nothing; None: nothing to do;
   - `plan(seen, now)`: calls the pure one;
   - `refused(key, seen, action, refusal, now) -> actions`: the ledger said no. Tell it in a condition of the object
     in the Shortfall's words, with an Event beside it, and remember it (`runtime.refusals`): else the same plan
     comes again.
3. Where things are put together: `manager.add(Job(manager.informers, ...), workers=2)` with a `ControllerManager`.

The loop takes care of the rest. A key is given to one worker at a time. After its own write it waits until the cache
has seen that write before it plans the key again (for kinds among `sources`). Conflict, and NotFound on a patch,
mean: look again. A create of what is there already and ours, and a delete of what is gone, are done. Unavailable and
every unexpected error are logged with the key and tried again with growing delay. After a failed action the rest of
the plan is not performed: the next look makes a new one.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from structlog.typing import FilteringBoundLogger

from headrace.api.kinds import Kind
from headrace.api.objects import Object, key_of
from headrace.runtime.actions import Action, Again, Event
from headrace.runtime.backoff import Backoff
from headrace.runtime.cache import Informer
from headrace.runtime.clock import Clock
from headrace.runtime.events import Recorder
from headrace.runtime.metrics import NamedMetrics
from headrace.runtime.perform import Writing, Written, perform
from headrace.runtime.queue import Queue, Stopped
from headrace.store.protocol import Conflict, NotFound, Refused, Store, Unavailable

S = TypeVar("S")
Keys = Callable[[Object | None, Object | None], Iterable[str]]

UNSEEN_SECONDS = 30.0  # a write that no watch tells for so long is not waited for any more


def own_key(before: Object | None, after: Object | None) -> Iterable[str]:
    """The key of the changed object itself."""
    obj = after if after is not None else before
    return (key_of(obj),) if obj is not None else ()


@dataclass(frozen=True, slots=True)
class Source:
    """Changes that make a controller look, and at what. `keys` must not wait; what it raises is about that object."""

    informer: Informer
    keys: Keys = own_key


class Job(Protocol[S]):
    """A controller's own part; see the module's text."""

    @property
    def name(self) -> str: ...

    @property
    def sources(self) -> Sequence[Source]: ...

    async def observe(self, key: str) -> S | None: ...

    def plan(self, seen: S, now: float) -> tuple[Action, ...]: ...

    def refused(self, key: str, seen: S, action: Writing, refusal: Refused, now: float) -> tuple[Action, ...]: ...


class Controller(Generic[S]):
    """Runs one job with a few workers. `random` answers from 0 up to 1 and spreads retries."""

    def __init__(
        self,
        job: Job[S],
        store: Store,
        *,
        clock: Clock,
        random: Callable[[], float],
        recorder: Recorder,
        metrics: NamedMetrics,
        log: FilteringBoundLogger,
        workers: int = 2,
    ) -> None:
        self.name = job.name
        self._job, self._store, self._clock, self._recorder, self._metrics = job, store, clock, recorder, metrics
        self._log = log.bind(controller=job.name)
        self._workers = workers
        self.is_started = False  # its caches are synced and its workers run
        self._backoff = Backoff(random)
        self.queue = Queue(clock.monotonic, metrics)
        self._caches: dict[Kind, Informer] = {}
        self._unseen: dict[str, _Unseen] = {}
        for source in job.sources:
            self.watch(source)

    def watch(self, source: Source) -> None:
        """One more source, also while it runs: a kind that is served from now on."""
        self._caches[source.informer.kind] = source.informer  # of a kind that was gone meanwhile there is a new one
        source.informer.subscribe(self._listener(source.keys))

    def _listener(self, keys: Keys) -> Callable[[Object | None, Object | None], None]:
        def changed(before: Object | None, after: Object | None) -> None:
            for key in keys(before, after):
                self.queue.add(key)

        changed.__qualname__ = self.name
        return changed

    async def run(self) -> None:
        """Work until `stop`; cancelling it is the crash that every sequence of writes must survive."""
        for informer in tuple(self._caches.values()):
            await informer.wait_until_synced()
        self.is_started = True
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._workers):
                tasks.create_task(self._work(), name=f"{self.name} worker {number}")

    def stop(self) -> None:
        """Take no more keys; `run` ends when the keys in work are done."""
        self.queue.shut_down()

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.take()
            except Stopped:
                return
            try:
                if self._may_look(key):
                    await self._reconcile(key)
            finally:
                self.queue.done(key)

    async def _reconcile(self, key: str) -> None:
        """One look, and its fate: done, again after a delay, or told and remembered."""
        started = self._clock.monotonic()
        try:
            result = await self._look(key)
        except Exception as error:  # the one broad catch: a fault in one key must not stop the others
            delay = self._backoff.failed(key)
            result = _result(error)
            log = self._log.bind(key=key, error=str(error) or type(error).__name__, retry_seconds=round(delay, 3))
            if result == "conflict":
                log.debug("changed in between, looking again")
            elif result == "unavailable":
                log.warning("store unavailable")
            else:
                log.error("reconcile failed", exc_info=error)
            self.queue.add_after(key, delay)
        self._metrics.reconciled(result, self._clock.monotonic() - started)

    async def _look(self, key: str) -> str:
        seen = await self._job.observe(key)
        if seen is None:
            self._backoff.succeeded(key)
            return "success"
        for action in self._job.plan(seen, self._clock.wall()):
            try:
                await self._act(key, action)
            except Refused as refusal:
                assert not isinstance(action, Event | Again)
                self._log.info("refused", key=key, shortfall=str(refusal))
                for told in self._job.refused(key, seen, action, refusal, self._clock.wall()):
                    await self._act(key, told)
                # What else the plan held is still to be done; the delay bounds a job that forgets what it was told.
                self.queue.add_after(key, self._backoff.failed(key))
                return "refused"
        self._backoff.succeeded(key)
        return "success"

    async def _act(self, key: str, action: Action) -> None:
        if isinstance(action, Again):
            self.queue.add_after(key, action.seconds)
        elif isinstance(action, Event):
            self._recorder.record(action, self.name)
        else:
            written = await perform(self._store, action)
            self._log.debug("acted", key=key, action=type(action).__name__)
            if written is not None:
                self._expect(key, written)

    # A key is not planned again before its own writes are visible

    def _expect(self, key: str, written: Written) -> None:
        cache = self._caches.get(written.kind)
        if cache is None:
            return
        unseen = self._unseen.get(key)
        if unseen is None:
            unseen = _Unseen(0, 0.0, False)
        unseen.count += 1
        unseen.until = self._clock.monotonic() + UNSEEN_SECONDS
        self._unseen[key] = unseen
        current = unseen

        def told() -> None:
            current.count -= 1
            if current.count == 0 and self._unseen.get(key) is current:
                del self._unseen[key]
                if current.wanted:
                    self.queue.add(key)

        if cache.call_when_seen(written.object, told, deleted=written.deleted):
            told()

    def _may_look(self, key: str) -> bool:
        unseen = self._unseen.get(key)
        if unseen is None:
            return True
        remaining = unseen.until - self._clock.monotonic()
        if remaining <= 0:
            self._log.warning("own write not seen in time, looking anyway", key=key, waited_seconds=UNSEEN_SECONDS)
            del self._unseen[key]
            return True
        unseen.wanted = True
        self.queue.add_after(key, remaining)
        return False


@dataclass(slots=True)
class _Unseen:
    """Writes of one key that the caches have not told yet. `wanted`: the key was due meanwhile."""

    count: int
    until: float
    wanted: bool


def _result(error: Exception) -> str:
    if isinstance(error, Conflict | NotFound):
        return "conflict"
    if isinstance(error, Unavailable):
        return "unavailable"
    return "error"
