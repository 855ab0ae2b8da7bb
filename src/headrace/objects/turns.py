"""Long work on the event loop: all who have such work together hold the loop for one turn, then others are served."""

import asyncio

from headrace.api.resting import Resting, Result


class Turns:
    """Whose turn it is, in order of asking."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def rest(self) -> None:
        """Until all others had their turn."""
        async with self._turn:
            await asyncio.sleep(0)

    async def finish(self, work: Resting[None]) -> bool:
        """Do all of it, the first turn at once. Whether it took more than that: then others may have written."""
        rested = False
        for _ in work:
            rested = True
            await self.rest()
        return rested

    async def result(self, work: Resting[Result]) -> Result:
        """Do all of it, the first turn at once, and give its result."""
        while True:
            try:
                next(work)
            except StopIteration as end:
                result: Result = end.value
                return result
            await self.rest()
