"""A store, a clock and a manager in the test's own loop: SQLite in memory, commits on the caller's stack."""

import asyncio
import itertools
import uuid
from contextlib import asynccontextmanager

import structlog
from prometheus_client import CollectorRegistry

from headrace.objects.local import Caller, LocalStore
from headrace.runtime.clock import LoopClock
from headrace.runtime.manager import ControllerManager
from headrace.runtime.metrics import ControllerMetrics
from headrace.serve.shipped import install
from headrace.store.sqlite import open_rows

EPOCH = 1_800_000_000.0


def wall():
    return EPOCH + asyncio.get_running_loop().time()


async def open_store(user="system:admin"):
    numbers = itertools.count(1)
    rows = await open_rows(":memory:", inline=True, now=asyncio.get_running_loop().time)
    store = LocalStore(rows, wall=wall, new_uid=lambda: str(uuid.UUID(int=next(numbers))), caller=Caller(user=user))
    await install(store)
    return store


def controllers(store, registry=None):
    return ControllerManager(
        store,
        clock=LoopClock(wall),
        random=lambda: 0.5,
        metrics=ControllerMetrics(registry or CollectorRegistry()),
        log=structlog.get_logger(),
    )


@asynccontextmanager
async def running(manager):
    """Runs the manager for the body, then stops it gracefully."""
    task = asyncio.create_task(manager.run())
    try:
        yield task
    finally:
        if not task.done():
            manager.stop()
        await task
