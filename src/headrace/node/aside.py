"""Calls that may never return, such as to a file system that does not answer: each in a thread that nobody waits for.

The threads of `asyncio.to_thread` are few, and the process does not end before them.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class Aside:
    """One call at a time. One that was given up is waited for before the next, so that they do not pile up."""

    def __init__(self) -> None:
        self._last: asyncio.Future[None] | None = None

    async def call(self, function: Callable[[], T], seconds: float) -> T:
        """What the function answers or raises; TimeoutError with words when it takes longer."""
        try:
            async with asyncio.timeout(seconds) as limit:
                if self._last is not None:
                    await asyncio.wait({self._last})
                found: list[T] = []
                self._last = _in_a_thread(lambda: found.append(function()))
                await asyncio.shield(self._last)
                return found[0]
        except TimeoutError:
            if limit.expired():
                raise TimeoutError(f"no answer within {seconds:g} s") from None
            raise


def _in_a_thread(call: Callable[[], None]) -> "asyncio.Future[None]":
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    done.add_done_callback(lambda each: each.cancelled() or each.exception())  # nobody may be there to hear of it

    def settle(error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            call()
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, error)

    threading.Thread(target=run, name="aside", daemon=True).start()
    return done
