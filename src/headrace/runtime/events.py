"""The event recorder: v1 Events about objects, as kube's recorder makes them; best effort, and bounded everywhere.

A repeated event raises the count of the first one. An object that keeps shouting is limited to a burst, then a trickle.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from headrace.api.kinds import EVENT
from headrace.api.objects import Object, name_of
from headrace.api.times import to_time
from headrace.runtime.actions import Event
from headrace.runtime.clock import Clock
from headrace.store.protocol import AlreadyExists, NotFound, Store, StoreError, Unavailable

QUEUED_EVENTS = 1000
REMEMBERED_EVENTS = 4096
BURST_EVENTS = 25  # client-go's EventSourceObjectSpamFilter: 25 at once, then one in five minutes
REFILL_SECONDS = 300.0
WRITE_TRIES, RETRY_SECONDS = 3, 1.0
MESSAGE_BYTES = 1024  # what Kubernetes' validation accepts


@dataclass(slots=True)
class _Remembered:
    name: str
    namespace: str
    count: int


@dataclass(frozen=True, slots=True)
class _Told:
    """An event waiting to be written. `serial` makes its name unique, and the same in each try."""

    component: str
    event: Event
    at: float
    serial: int


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Recorder:
    """`component` is who reports: the controller's name. `dropped` counts what was not written."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        log: FilteringBoundLogger,
        component: str = "headrace",
        dropped: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._clock, self._log, self._component, self._dropped = store, clock, log, component, dropped
        self._queue: deque[_Told] = deque()
        self._arrived = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._known: OrderedDict[tuple[str, Event], _Remembered] = OrderedDict()
        self._buckets: OrderedDict[tuple[str, str], _Bucket] = OrderedDict()
        self._serial = 0

    def record(self, event: Event, component: str = "") -> None:
        """Never waits and never fails; what is too much is dropped and counted."""
        component = component or self._component
        if len(self._queue) >= QUEUED_EVENTS or not self._may_speak(component, event):
            self._dropped()
            return
        self._serial = (self._serial + 1) % 1000
        self._queue.append(_Told(component, event, self._clock.wall(), self._serial))
        self._idle.clear()
        self._arrived.set()

    async def run(self) -> None:
        """Write what is recorded, in order, until cancelled."""
        while True:
            while self._queue:
                await self._write(self._queue[0])
                self._queue.popleft()
            self._idle.set()
            self._arrived.clear()
            await self._arrived.wait()

    async def flush(self) -> None:
        """Until everything recorded so far is written or dropped."""
        await self._idle.wait()

    def _may_speak(self, component: str, event: Event) -> bool:
        now, key = self._clock.monotonic(), (component, event.uid or f"{event.namespace}/{event.name}")
        bucket = self._buckets.setdefault(key, _Bucket(BURST_EVENTS, now))
        self._buckets.move_to_end(key)
        if len(self._buckets) > REMEMBERED_EVENTS:
            self._buckets.popitem(last=False)
        bucket.tokens = min(BURST_EVENTS, bucket.tokens + (now - bucket.at) / REFILL_SECONDS)
        bucket.at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    async def _write(self, told: _Told) -> None:
        for remaining in reversed(range(WRITE_TRIES)):
            try:
                await self._write_once(told)
                return
            except Unavailable as error:
                if remaining:
                    await self._clock.sleep(RETRY_SECONDS)
                    continue
                self._drop(told.event, error)
            except StoreError as error:  # a namespace that ends, an object that may not be spoken of
                self._drop(told.event, error)
                return
            except Exception as error:  # a fault in one event must not stop the others
                self._dropped()
                key = f"{told.event.namespace}/{told.event.name}"
                self._log.error("event dropped", key=key, reason=told.event.reason, exc_info=error)
                return

    def _drop(self, event: Event, error: StoreError) -> None:
        self._dropped()
        self._log.warning("event dropped", key=f"{event.namespace}/{event.name}", reason=event.reason, error=str(error))

    async def _write_once(self, told: _Told) -> None:
        key = (told.component, told.event)
        known = self._known.get(key)
        if known is not None:
            try:
                await self._store.patch(
                    EVENT,
                    known.name,
                    known.namespace,
                    fields={"count": known.count + 1, "lastTimestamp": to_time(told.at)},
                )
                known.count += 1
                self._known.move_to_end(key)
                return
            except NotFound:  # it was too old and is gone: begin again
                del self._known[key]
        obj = _object(told)
        with suppress(AlreadyExists):  # the reply to this very event was lost
            await self._store.create(EVENT, obj, obj["metadata"]["namespace"])
        self._known[key] = _Remembered(name_of(obj), obj["metadata"]["namespace"], 1)
        if len(self._known) > REMEMBERED_EVENTS:
            self._known.popitem(last=False)


def _object(told: _Told) -> Object:
    """Named as client-go names it: the object's name and the time in nanoseconds, in hexadecimal."""
    event, at = told.event, to_time(told.at)
    involved = {
        "apiVersion": event.kind.api_version,
        "kind": event.kind.kind,
        "name": event.name,
        "uid": event.uid,
    }
    if event.namespace:
        involved["namespace"] = event.namespace
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {
            "name": f"{event.name}.{int(told.at * 1_000_000) * 1000 + told.serial:x}",
            "namespace": event.namespace or "default",
        },
        "involvedObject": involved,
        "reason": event.reason,
        "message": event.message.encode(errors="replace")[:MESSAGE_BYTES].decode(errors="ignore"),
        "source": {"component": told.component},
        "reportingComponent": told.component,
        "reportingInstance": "",
        "type": event.type,
        "count": 1,
        "firstTimestamp": at,
        "lastTimestamp": at,
    }
