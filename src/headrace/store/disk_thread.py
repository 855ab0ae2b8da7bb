"""The thread that waits for the disk, so that the event loop never waits for it long.

A sync mostly ends in a fraction of a millisecond. To go on with other work meanwhile and be woken by the thread costs
more than that wait, so the loop waits too, for `PATIENCE_SECONDS` at most, and not at all while the disk is slow.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from time import perf_counter

PATIENCE_SECONDS = 0.001

Work = Callable[[], None]
Then = Callable[[Exception | None], None]
"""What the loop does with the end of a piece of work: None, or how it failed."""


@dataclass(frozen=True, slots=True)
class Ended:
    failure: Exception | None


SUCCEEDED = Ended(None)


@dataclass(slots=True)
class _Given:
    """Whoever takes `decided` first says how the end is told: by releasing `ended`, or by calling `then` later."""

    work: Work
    then: Then
    decided: Lock = field(default_factory=Lock)
    ended: Lock = field(default_factory=Lock)
    failure: Exception | None = None


class DiskThread:
    """One piece of work at a time. `soon` hands a callable to the event loop from another thread; `now`: seconds."""

    def __init__(self, soon: Callable[[Work], object], now: Callable[[], float] = perf_counter) -> None:
        self._soon = soon
        self._now = now
        self._took = 0.0
        self._queue: SimpleQueue[_Given | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="headrace-disk", daemon=True)
        self._thread.start()

    def hand(self, work: Work, then: Then) -> None:
        """`then` is called on the loop when `work` has ended."""
        given = _Given(work, then)
        given.decided.acquire()
        self._queue.put(given)

    def hand_and_wait(self, work: Work, then: Then) -> Ended | None:
        """How `work` ended, if it did so while it was worth waiting for; otherwise `then` is called later."""
        if self._took > PATIENCE_SECONDS:
            self.hand(work, then)
            return None
        given = _Given(work, then)
        given.ended.acquire()
        self._queue.put(given)
        if not given.ended.acquire(timeout=PATIENCE_SECONDS):
            if given.decided.acquire(blocking=False):
                return None
            given.ended.acquire()  # the thread was first: it is about to let go
        return SUCCEEDED if given.failure is None else Ended(given.failure)

    def end(self) -> None:
        """After what was handed over before. Waits for it."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (given := self._queue.get()) is not None:
            began = self._now()
            given.failure = failure_of(given.work)
            self._took = self._now() - began
            if given.decided.acquire(blocking=False):
                given.ended.release()
            else:
                self._soon(partial(given.then, given.failure))


def failure_of(work: Work) -> Exception | None:
    try:
        work()
    except Exception as error:  # whatever it is, those who wait for the write must hear of it
        return error
    return None
