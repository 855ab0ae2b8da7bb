"""The embedded home as one process: the SQLite file, the API server, the agents' streams and the controllers."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from structlog.typing import FilteringBoundLogger

from headrace.apiserver import pki
from headrace.apiserver.server import NO_NODES, Running, serve
from headrace.metrics.memory import MemoryMetrics
from headrace.objects.home import Caller
from headrace.objects.local import LocalStore
from headrace.resize.monitoring import Monitoring
from headrace.runtime.clock import LoopClock
from headrace.runtime.manager import ControllerManager
from headrace.serve.shipped import install
from headrace.store.sqlite import open_rows

if TYPE_CHECKING:
    from headrace.apiserver.agents import Agents

FILE = "headrace.db"
_VARIANTS = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}


def fresh_uid() -> str:
    """A random UUID (RFC 9562, version 4), as text: six times as fast as by way of `uuid.uuid4`."""
    bits = os.urandom(16).hex()
    return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-{_VARIANTS[bits[16]]}{bits[17:20]}-{bits[20:]}"


@dataclass(frozen=True, slots=True)
class HomeSettings:
    """`port` and `agents_port` 0 take free ones. `agents` and `controllers` off leave an API server alone."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 7443
    agents_port: int = 7444
    controllers: bool = True
    agents: bool = True


@dataclass(frozen=True, slots=True)
class Home:
    """What runs. `agents_port` is 0 where agents are off; `failed` is set, the reason in `why`, when nothing can be
    acknowledged any more."""

    running: Running
    store: LocalStore
    agents_port: int
    failed: asyncio.Event
    why: list[str] = field(default_factory=list)


@contextlib.asynccontextmanager
async def home(settings: HomeSettings, log: FilteringBoundLogger) -> AsyncIterator[Home]:
    """Runs while the body runs. Raises Unavailable, Unreadable, Corrupt about the file, OSError about a port."""
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    failed, why = asyncio.Event(), []
    loop = asyncio.get_running_loop()

    def fatal(line: str) -> None:
        why.append(line)
        log.critical(line)
        loop.call_soon_threadsafe(failed.set)

    rows = await open_rows(settings.data_dir / FILE, on_fatal=fatal)
    try:
        making = await _making_certificates(settings)  # with the file's lock held, so nobody else does
        store = LocalStore(rows, wall=time.time, new_uid=fresh_uid, caller=Caller())
        monitoring = Monitoring(MemoryMetrics(), time.time)
        agents = _agents(store, log, monitoring) if settings.agents else None
        if making is not None:
            await making.wait()
        async with serve(
            store,
            data_dir=settings.data_dir,
            host=settings.host,
            port=settings.port,
            nodes=agents or NO_NODES,
            monitoring=monitoring,
        ) as running:
            await install(store)
            agents_port = 0
            if agents is not None:
                agents_port = await agents.start(running.pki, settings.host, settings.agents_port)
            log.info("serving", url=running.url, agents_port=agents_port, durability="synchronous=FULL")
            try:
                async with _controlling(settings, store, running, monitoring, log):
                    yield Home(running, store, agents_port, failed, why)
            finally:
                if agents is not None:
                    await agents.stop()
    finally:
        await rows.close()


def _agents(store: LocalStore, log: FilteringBoundLogger, monitoring: Monitoring) -> "Agents":
    # Not at the top: gRPC is a fifth of an API server's memory.
    from headrace.apiserver import resize
    from headrace.apiserver.agents import Agents
    from headrace.resize.service import ResizeServices

    services = ResizeServices(store, wall=time.time, ledger_of=lambda node: store.rows.ledgers.get(node))
    return Agents(
        store,
        log=log,
        add_services=lambda server, callers: resize.add_services(server, callers, services, monitoring),
        samples=monitoring.samples,
    )


async def _making_certificates(settings: HomeSettings) -> asyncio.subprocess.Process | None:
    """A first start has its certificates made beside it. If that fails, `serve` tries itself and says why."""
    directory = settings.data_dir / "pki"
    if pki.is_complete(directory, time.time(), (settings.host,)):
        return None
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "headrace.apiserver.pki", str(directory), settings.host),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )


@contextlib.asynccontextmanager
async def _controlling(
    settings: HomeSettings, store: LocalStore, running: Running, monitoring: Monitoring, log: FilteringBoundLogger
) -> AsyncIterator[ControllerManager | None]:
    if not settings.controllers:
        yield None
        return
    # Not at the top: an API server alone needs none of it, and it is a third of the code.
    from headrace.resize.scraper import Scraper
    from headrace.serve.controllers import embedded_controllers

    clock = LoopClock(time.time)
    manager = embedded_controllers(store, clock, log, running.observations.registry, monitoring)
    scraper = Scraper(manager.informers, monitoring, clock, log)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(manager.run(), name="controllers")
        await manager.wait_until_synced()
        scraping = tasks.create_task(scraper.run(), name="scraper")
        try:
            yield manager
        finally:
            scraping.cancel()
            manager.stop()
