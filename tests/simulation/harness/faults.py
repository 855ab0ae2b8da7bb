"""What goes wrong between a process and the store: each client of the simulation talks through a FaultyStore."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from headrace.api.kinds import Kind
from headrace.api.objects import Fields, Object
from headrace.store.protocol import Deletion, Gone, Listing, Store, StoreError, Unavailable, WatchEvent
from tests.simulation.harness.processes import Process
from tests.simulation.harness.server import Server

DEFAULT = Deletion()
Write = Callable[[Store], Awaitable[Object]]
Interference = Callable[[Kind, str, str], Awaitable[None]]
"""Somebody else writes the same object just before."""


@dataclass(slots=True)
class Faults:
    """How often each goes wrong, from 0 to 1. `watch_lost` is no fault of the world: it is one of the planted bugs."""

    slow: float = 0.02
    request_lost: float = 0.01
    request_late: float = 0.01
    reply_lost: float = 0.015
    doubled: float = 0.01
    interfered: float = 0.02
    crash: float = 0.002
    watch_slow: float = 0.02
    watch_cut: float = 0.005
    watch_gone: float = 0.003
    watch_lost: float = 0.0

    @classmethod
    def none(cls) -> "Faults":
        return cls(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


class FaultyStore:
    """The Store of one process, as one user. `faults` may be exchanged while it runs."""

    def __init__(
        self,
        server: Server,
        process: Process,
        user: str,
        faults: Callable[[], Faults],
        random: Random,
        interfere: Interference,
    ) -> None:
        self._server, self._process, self._user, self._faults, self._random = server, process, user, faults, random
        self._interfere = interfere

    def _happens(self, chance: float) -> bool:
        return chance > 0 and self._random.random() < chance

    async def _before(self) -> Store:
        faults = self._faults()
        await self._crash_point(faults)
        await asyncio.sleep(self._random.uniform(0.5, 15.0) if self._happens(faults.slow) else 0.001)
        await self._partition()
        return self._server.store(self._user)

    async def _partition(self) -> None:
        if self._process.is_cut_off():
            await asyncio.sleep(self._random.uniform(0.1, 5.0))
            raise Unavailable("no connection")

    async def _crash_point(self, faults: Faults) -> None:
        if self._happens(faults.crash):
            await self._process.crash()

    async def _read(self, read: Callable[[Store], Awaitable[Any]]) -> Any:
        store = await self._before()
        if self._happens(self._faults().request_lost):
            raise Unavailable("no answer")
        return await read(store)

    async def _write(self, write: Write, key: tuple[Kind, str, str] | None) -> Object:
        store, faults = await self._before(), self._faults()
        if self._happens(faults.request_lost):
            raise Unavailable("the request was lost")
        if self._happens(faults.request_late):
            self._process.later(self._random.uniform(0.1, 20.0), lambda: self._late(write))
            raise Unavailable("no answer yet; the request is under way")
        if key is not None and self._happens(faults.interfered):
            await self._interfere(*key)
        try:
            answer = await write(store)
        finally:
            if self._happens(faults.doubled):
                await self._late(write)
        await self._crash_point(faults)
        if self._happens(faults.reply_lost):
            raise Unavailable("the reply was lost")
        return answer

    async def _late(self, write: Write) -> None:
        try:
            await write(self._server.store(self._user))
        except StoreError:
            return

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        found: Object = await self._read(lambda store: store.get(kind, name, namespace))
        return found

    async def list(self, kind: Kind, namespace: str = "", **options: Any) -> Listing:
        found: Listing = await self._read(lambda store: store.list(kind, namespace, **options))
        return found

    async def watch(self, kind: Kind, namespace: str = "", **options: Any) -> AsyncIterator[WatchEvent]:
        store = await self._before()
        stream = store.watch(kind, namespace, **options)
        try:
            async for event in stream:
                faults = self._faults()
                if self._happens(faults.watch_slow):
                    await asyncio.sleep(self._random.uniform(0.1, 30.0))
                if self._happens(faults.watch_cut):
                    return
                if self._happens(faults.watch_gone):
                    raise Gone("the revision is compacted: list again")
                await self._process.reachable()
                if event.type != "BOOKMARK" and self._happens(faults.watch_lost):
                    continue
                yield event
        finally:
            await stream.aclose()  # type: ignore[attr-defined]

    async def create(self, kind: Kind, obj: Fields, namespace: str = "", *, dry_run: bool = False) -> Object:
        return await self._write(lambda store: store.create(kind, obj, namespace, dry_run=dry_run), None)

    async def patch(self, kind: Kind, name: str, namespace: str = "", **options: Any) -> Object:
        return await self._write(lambda store: store.patch(kind, name, namespace, **options), (kind, name, namespace))

    async def create_subresource(self, kind: Kind, name: str, namespace: str, subresource: str, body: Fields) -> Object:
        def write(store: Store) -> Awaitable[Object]:
            return store.create_subresource(kind, name, namespace, subresource, body)

        return await self._write(write, (kind, name, namespace))

    async def delete(self, kind: Kind, name: str, namespace: str = "", deletion: Deletion = DEFAULT) -> Object:
        return await self._write(lambda store: store.delete(kind, name, namespace, deletion), (kind, name, namespace))
