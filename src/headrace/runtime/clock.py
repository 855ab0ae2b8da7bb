"""The time a controller may know: monotonic seconds for waiting, wall seconds for what is written into objects.

Whoever measures a duration uses the monotonic clock; the wall clock may jump.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds that only grow, from an arbitrary start."""
        ...

    def wall(self) -> float:
        """Seconds since the epoch, as the machine believes them to be."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class LoopClock:
    """The running event loop's time. A loop of virtual time makes everything built on this clock virtual too."""

    _loop: asyncio.AbstractEventLoop | None = None

    def __init__(self, wall: Callable[[], float]) -> None:
        self.wall = wall

    def monotonic(self) -> float:
        # Kept, because asking for the running loop is a system call each time (it might be a fork).
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.get_running_loop()
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
