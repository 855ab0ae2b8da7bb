"""Processes of the simulation: they crash between any two actions, and are started again by their supervisor."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any, NoReturn

Main = Callable[["Process"], Coroutine[Any, Any, None]]


class Process:
    """`main` makes the process anew at each start; nothing of it survives a crash but what it wrote."""

    def __init__(self, name: str, main: Main, random: Random, note: Callable[[str], None]) -> None:
        self.name = name
        self.starts = 0
        self._main, self._random, self._note = main, random, note
        self._killed: asyncio.Event = asyncio.Event()
        self._cut_off_until = 0.0
        self._deliveries: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until cancelled. A main that ends by itself, with or without an error, is a fault of the program."""
        while True:
            self.starts += 1
            self._killed.clear()
            main = asyncio.create_task(self._main(self), name=f"{self.name} {self.starts}")
            killed = asyncio.create_task(self._killed.wait())
            try:
                await asyncio.wait({main, killed}, return_when=asyncio.FIRST_COMPLETED)
                if not self._killed.is_set():
                    await main
                    raise RuntimeError(f"{self.name} ended by itself")
            finally:
                killed.cancel()
                main.cancel()
                await asyncio.wait({main})
            self._note(f"{self.name} crashed")
            await asyncio.sleep(self._random.uniform(0.1, 5.0))

    def kill(self) -> None:
        self._killed.set()

    async def crash(self) -> NoReturn:
        """To be called from within: the process gets no further."""
        self.kill()
        await asyncio.sleep(float("inf"))
        raise AssertionError("a dead process went on")

    def cut_off(self, seconds: float) -> None:
        """No packet passes for so long."""
        self._cut_off_until = asyncio.get_running_loop().time() + seconds

    def heal(self) -> None:
        self._cut_off_until = 0.0

    def is_cut_off(self) -> bool:
        return asyncio.get_running_loop().time() < self._cut_off_until

    async def reachable(self) -> None:
        """Until packets pass again, at once if they do."""
        if self.is_cut_off():
            await asyncio.sleep(self._cut_off_until - asyncio.get_running_loop().time())
            await self.reachable()

    def later(self, seconds: float, deliver: Callable[[], Awaitable[None]]) -> None:
        """A request that is under way: it arrives even if its sender is dead by then."""

        async def arrive() -> None:
            await asyncio.sleep(seconds)
            await deliver()

        task = asyncio.create_task(arrive())
        self._deliveries.add(task)
        task.add_done_callback(self._deliveries.discard)

    async def settle(self) -> None:
        """Until nothing is under way any more."""
        while self._deliveries:
            await asyncio.wait(set(self._deliveries))
