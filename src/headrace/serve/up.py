"""`headrace up`: the embedded home in this process, an agent (and simulated drivers) as children of it."""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structlog.typing import FilteringBoundLogger

from headrace.apiserver.pki import certificate_hash
from headrace.apiserver.tokens import JOIN_SECONDS, create_join_token
from headrace.node.certificate import Credentials
from headrace.serve import collection
from headrace.serve.announcement import Announced, announcing
from headrace.serve.home import Home, HomeSettings, home
from headrace.serve.supervisor import supervise

if TYPE_CHECKING:
    from headrace.client.http import (
        Client,
    )  # aiohttp costs 6 MB and a tenth of a second, which a server alone is spared

CERTIFICATE_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class UpSettings:
    """`agent` are options handed on to `headrace agent`; `drivers` (each a name and options) are started beside it."""

    home: HomeSettings
    node: str
    agent: tuple[str, ...] = ()
    drivers: tuple[tuple[str, ...], ...] = ()
    with_agent: bool = True

    @property
    def agent_dir(self) -> Path:
        return self.home.data_dir / "agent"


async def run_home(
    settings: HomeSettings, log: FilteringBoundLogger, stop: asyncio.Event, ready: Callable[[Home], None]
) -> None:
    """Until `stop`. Raises RuntimeError when the store can acknowledge nothing any more."""
    async with home(settings, log) as running:
        with announcing(settings.data_dir, _told(running)):
            collection.settle()
            ready(running)
            await _until(stop, running)


async def run_up(
    settings: UpSettings, log: FilteringBoundLogger, stop: asyncio.Event, ready: Callable[[Home], None]
) -> None:
    """Until `stop`; the children end first, so that they can still say goodbye."""
    async with home(settings.home, log) as running:
        with announcing(settings.home.data_dir, _told(running)):
            parts = [asyncio.create_task(each, name="part") for each in (await _parts(settings, running, log))]
            try:
                collection.settle()
                ready(running)
                await _until(stop, running, parts)
            finally:
                for part in parts:
                    part.cancel()
                await asyncio.gather(*parts, return_exceptions=True)


async def _until(stop: asyncio.Event, running: Home, parts: Sequence[asyncio.Task[None]] = ()) -> None:
    """A part never ends by itself: what one has ended with is raised."""
    waiting = {asyncio.create_task(stop.wait()), asyncio.create_task(running.failed.wait())}
    await asyncio.wait({*waiting, *parts}, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    for part in parts:
        if part.done():
            part.result()
    if running.failed.is_set():
        raise RuntimeError(running.why[0])


async def _parts(settings: UpSettings, running: Home, log: FilteringBoundLogger) -> list[Coroutine[Any, Any, None]]:
    if not settings.with_agent:
        return []
    server = running.running.url
    agents = f"{server.removeprefix('https://').rpartition(':')[0]}:{running.agents_port}"
    environment = {}
    if not Credentials(settings.agent_dir / "pki").exist():
        environment["HEADRACE_JOIN_TOKEN"] = await create_join_token(
            running.store, settings.node, running.running.pki.ca_hash(), time.time()
        )
    shared = ("--node-name", settings.node, "--data-dir", str(settings.agent_dir), "--server", server)
    agent = ("agent", *shared, "--agents-server", agents, *settings.agent)
    return [
        supervise("agent", agent, environment, log),
        *(_driver(settings, each[0], ("driver", *each, *shared), log) for each in settings.drivers),
    ]


async def _driver(settings: UpSettings, name: str, arguments: Sequence[str], log: FilteringBoundLogger) -> None:
    """A driver speaks with the agent's certificate, so it starts when there is one."""
    while not Credentials(settings.agent_dir / "pki").exist():  # noqa: ASYNC110
        await asyncio.sleep(CERTIFICATE_LOOK_SECONDS)  # another process writes it
    await supervise(name, arguments, {}, log)


async def join_token(client: "Client", node: str, ttl_seconds: float = JOIN_SECONDS) -> str:
    """A join token for one node, made through the API of a server. Raises StoreError."""
    from headrace.store.kubernetes import KubernetesStore

    authority = certificate_hash(client.cluster.ca_pem.strip())
    return await create_join_token(KubernetesStore(client), node, authority, time.time(), ttl_seconds)


def _told(home: Home) -> Announced:
    return Announced(os.getpid(), home.running.url, home.agents_port, home.running.kubeconfig)
