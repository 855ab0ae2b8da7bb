"""The work queue: a key waits in it at most once, and is never given to two workers at the same time.

A key that is added while a worker has it is given out again once that worker is done: no change is missed.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

SHORTEST_SECONDS = 0.001  # a remainder of rounding (1e-15 s) would be looked at again and again in the same instant


class QueueMetrics(Protocol):
    def added(self, depth: int) -> None: ...

    def taken(self, depth: int, waited_seconds: float) -> None: ...

    def done(self, worked_seconds: float) -> None: ...


class Stopped(Exception):
    """The queue is shut down and empty: the worker has nothing left to do."""


class Queue:
    """`now` is monotonic seconds. Its size is bounded by the number of keys that exist."""

    def __init__(self, now: Callable[[], float], metrics: QueueMetrics) -> None:
        self._now, self._metrics = now, metrics
        self._waiting: OrderedDict[str, float] = OrderedDict()
        self._taken: dict[str, float] = {}
        self._again: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._wakers: list[asyncio.Future[None]] = []
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: str) -> None:
        if self._closed or key in self._waiting:
            return
        if key in self._taken:
            self._again.add(key)
            return
        self._waiting[key] = self._now()
        self._metrics.added(len(self._waiting))
        self._wake(1)

    def add_after(self, key: str, seconds: float) -> None:
        """Add the key later. Of several such wishes for one key the earliest counts: looking again is never wrong."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        seconds = max(seconds, SHORTEST_SECONDS)
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._due, key)

    async def take(self) -> str:
        """The key that waits longest; hand it back with `done`. Raises Stopped after a shutdown, once all is taken."""
        while not self._waiting:
            if self._closed:
                raise Stopped
            waker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._wakers.append(waker)
            try:
                await waker
            except asyncio.CancelledError:
                if waker in self._wakers:
                    self._wakers.remove(waker)
                elif not waker.cancelled():
                    self._wake(1)  # it was woken for a key that it will not take: somebody else must
                raise
        key, since = self._waiting.popitem(last=False)
        now = self._now()
        self._taken[key] = now
        self._metrics.taken(len(self._waiting), now - since)
        return key

    def done(self, key: str) -> None:
        self._metrics.done(self._now() - self._taken.pop(key))
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def shut_down(self) -> None:
        """Take no more keys. What waits is dropped: the next start looks at everything anyway."""
        self._closed = True
        self._waiting.clear()
        self._again.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._wake(len(self._wakers))

    def _due(self, key: str) -> None:
        del self._timers[key]
        self.add(key)

    def _wake(self, count: int) -> None:
        for waker in self._wakers[:count]:
            if not waker.done():
                waker.set_result(None)
        del self._wakers[:count]
