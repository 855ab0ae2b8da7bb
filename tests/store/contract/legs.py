"""The homes that the contract is checked on. A leg is opened with a directory of its own and gives a Store.

To add a home, add its factory to LEGS: every test of this folder then runs on it too.
"""

import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from headrace.objects.local import Caller, LocalStore
from headrace.store.protocol import Store
from headrace.store.sqlite import open_rows
from tests.apiserver.serving import serving

Leg = Callable[[Path], AbstractAsyncContextManager[Store]]


async def local(path: Path | str, *, inline: bool) -> LocalStore:
    rows = await open_rows(path, inline=inline)
    caller = Caller(user="system:admin", field_manager="contract")
    store = LocalStore(rows, wall=time.time, new_uid=lambda: str(uuid.uuid4()), caller=caller)
    await store.bootstrap()
    return store


@asynccontextmanager
async def in_memory(_: Path) -> AsyncIterator[Store]:
    """Commits on the caller's stack: what the simulation uses."""
    store = await local(":memory:", inline=True)
    yield store
    await store.rows.close()


@asynccontextmanager
async def in_a_file(directory: Path) -> AsyncIterator[Store]:
    """A writer thread, group commit and syncs: what a server uses."""
    store = await local(directory / "headrace.db", inline=False)
    yield store
    await store.rows.close()


@asynccontextmanager
async def over_http(directory: Path) -> AsyncIterator[Store]:
    """Our own API server on a free port, its administrator's certificate, and a file as in production."""
    async with serving(directory, durable=True) as server, server.remote() as store:
        yield store


LEGS: dict[str, Leg] = {"in-memory": in_memory, "file": in_a_file, "http": over_http}
