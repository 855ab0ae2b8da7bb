"""Putting the API server together and keeping it up: listen, follow credentials, stop without cutting answers short."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from headrace.apiserver.app import App
from headrace.apiserver.authentication import Authenticator
from headrace.apiserver.authorization import Authorizer
from headrace.apiserver.discovery import Discovery
from headrace.apiserver.joining import Joining
from headrace.apiserver.lanes import Streams
from headrace.apiserver.listener import Listener
from headrace.apiserver.logs import PodLogs
from headrace.apiserver.node_authorization import NodeAuthorizer
from headrace.apiserver.nodes import Nodes, NoNodes
from headrace.apiserver.observing import Health, Observations
from headrace.apiserver.openapi import OpenApi
from headrace.apiserver.pki import Pki, ensure, retire, write_kubeconfig
from headrace.apiserver.printing import Printing
from headrace.apiserver.resources import Resources
from headrace.apiserver.routes import Routes
from headrace.ledger.document import document
from headrace.objects.local import LocalStore
from headrace.resize.monitoring import Monitoring
from headrace.store.protocol import StoreError

BOOKMARK_SECONDS = 60.0

NO_NODES = NoNodes()


@dataclass(frozen=True, slots=True)
class Running:
    """A server that listens. `url` is what clients on this machine use; `kubeconfig` is the administrator's."""

    url: str
    port: int
    pki: Pki
    kubeconfig: Path
    health: Health
    observations: Observations
    end_streams: Callable[[], None]
    """Ends every open watch and log plainly; their readers come back where they were."""


@contextlib.asynccontextmanager
async def serve(
    store: LocalStore,
    *,
    data_dir: Path,
    host: str = "127.0.0.1",
    port: int = 7443,
    nodes: Nodes = NO_NODES,
    wall: Callable[[], float] = time.time,
    monitoring: Monitoring | None = None,
) -> AsyncIterator[Running]:
    """Serves while the body runs; `port` 0 takes a free one. On leaving, open watches end and answers are finished.

    `data_dir` gets `pki/`, and the kubeconfigs `kubeconfig` (administrator), `controller.kubeconfig` and
    `viewer.kubeconfig`, all 0600; who of these was revoked gets a new one. Raises OSError when the address is taken.
    """
    listening = _listen(host, port)
    port = listening.getsockname()[1]
    url = f"https://{_reachable(host)}:{port}"
    streams, health, observations = Streams(), Health(), Observations()
    await store.bootstrap()
    authenticator = Authenticator(store, wall, streams.end_of)
    await authenticator.load()
    retire(data_dir / "pki", authenticator.revoked())
    pki = ensure(data_dir / "pki", wall(), (host,))
    kubeconfig = data_dir / "kubeconfig"
    write_kubeconfig(pki, kubeconfig, url, "admin")
    for client in ("controller", "viewer"):
        write_kubeconfig(pki, data_dir / f"{client}.kubeconfig", url, client)

    routes = Routes(
        Discovery(store.registry),
        OpenApi(store.registry),
        health,
        observations,
        Joining(store, pki, wall),
        pki,
        version("headrace"),
        lambda: document(store.rows.revision, wall(), store.rows.ledgers, store.rows.pools.values()),
        monitoring,
    )
    app = App(
        authenticator=authenticator,
        authorizer=Authorizer(NodeAuthorizer(store)),
        resources=Resources(store, store.registry, Printing(wall), PodLogs(store, nodes)),
        routes=routes,
        streams=streams,
        observations=observations,
    )
    listener = Listener(app, pki.server_context(), wall)
    async with contextlib.AsyncExitStack() as stack:
        follower = asyncio.create_task(authenticator.follow(), name="credentials")
        health.live["credentials"] = lambda: "revocations are not followed any more" if follower.done() else ""
        for task in (follower, asyncio.create_task(_remind(store)), asyncio.create_task(listener.tick())):
            stack.push_async_callback(_ended, task)
        await listener.start(listening)
        stack.push_async_callback(listener.stop)
        stack.callback(streams.stop)
        yield Running(url, port, pki, kubeconfig, health, observations, streams.end_open)


async def _ended(task: asyncio.Task[None]) -> None:
    """Stop a task of the server. One that had failed is told by the health check, not at the end."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, StoreError):
        await task


async def _remind(store: LocalStore) -> None:
    """Bookmarks about once a minute, as Kubernetes' clients expect them."""
    while True:
        await asyncio.sleep(BOOKMARK_SECONDS)
        store.rows.remind()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}; --host and --port choose another") from None
    return listening


def _reachable(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1" if host == "0.0.0.0" else "[::1]"
    return f"[{host}]" if ":" in host else host
