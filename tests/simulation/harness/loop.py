"""An event loop whose clock jumps: nothing waits, time passes only when there is nothing else left to do.

It has no sockets and no threads. Everything in it happens in one order, which the seed alone decides.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class NothingLeft(RuntimeError):
    """Every task waits for another: in virtual time that is for ever."""


class _Jump:
    """Stands where the selector would: asked to wait, it moves the clock on."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[object]:
        if timeout is None:
            raise NothingLeft("every task waits for another, and no timer is set")
        if timeout > 0:
            self._loop.now += timeout
        return []

    def close(self) -> None:
        pass


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._selector = _Jump(self)
        self._clock_resolution = 1e-6  # two floats that should be one instant are one

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """At once: a thread would take real time, and make the order of things its own."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _process_events(self, event_list: list[object]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


def run(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
