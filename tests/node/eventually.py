"""Waiting in tests: on a condition, with a deadline."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def eventually(look: Callable[[], Awaitable[T] | T], seconds: float = 30.0) -> T:
    """The first true answer of `look`; fails when there is none in time."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if isinstance(found, Awaitable):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, f"{look} did not come true within {seconds} s"
        await asyncio.sleep(0.01)
