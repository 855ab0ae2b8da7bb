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

    def __init__(self, wall: Callable[[], float]) -> None:
        self.wall = wall

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
