"""A complete API server on a free port with a directory of its own, for tests."""

import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headrace.apiserver.nodes import LogOptions, Nodes
from headrace.apiserver.server import Running, serve
from headrace.client.http import Client
from headrace.client.kubeconfig import Cluster, load
from headrace.objects.local import Caller, LocalStore
from headrace.store.history import DEFAULT_RETENTION, Retention
from headrace.store.kubernetes import KubernetesStore
from headrace.store.protocol import NotFound
from headrace.store.sqlite import open_rows


@dataclass
class WrittenLogs:
    """Stands for the machines: what each container wrote, by Pod uid and container name."""

    texts: dict[tuple[str, str], list[bytes]] = field(default_factory=dict)
    asked: list[tuple[str, LogOptions]] = field(default_factory=list)

    async def logs(self, node: str, pod_uid: str, container: str, options: LogOptions) -> AsyncGenerator[bytes, None]:
        self.asked.append((node, options))
        lines = self.texts.get((pod_uid, container))
        if lines is None:
            raise NotFound(f'container "{container}" is not running')
        for line in lines[-options.tail_lines :] if options.tail_lines is not None else lines:
            yield line


@dataclass
class Clock:
    """Wall time that a test may set ahead."""

    ahead_seconds: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_seconds


@dataclass(frozen=True)
class Serving:
    store: LocalStore
    running: Running
    directory: Path
    clock: Clock

    def now(self) -> float:
        return self.clock()

    def cluster(self, client: str = "") -> Cluster:
        """The credentials of the administrator, or of `controller` or `viewer`."""
        return load(self.directory / (f"{client}.kubeconfig" if client else "kubeconfig"))

    @asynccontextmanager
    async def http(self, client: str = "", cluster: Cluster | None = None) -> AsyncIterator[Client]:
        async with Client(cluster or self.cluster(client)) as opened:
            yield opened

    @asynccontextmanager
    async def remote(self, client: str = "", cluster: Cluster | None = None) -> AsyncIterator[KubernetesStore]:
        async with self.http(client, cluster) as opened:
            yield KubernetesStore(opened)


@asynccontextmanager
async def serving(
    directory: Path, nodes: Nodes | None = None, *, durable: bool = False, retention: Retention = DEFAULT_RETENTION
) -> AsyncIterator[Serving]:
    """`durable`: on a file with a writer thread, as in production; otherwise SQLite in memory."""
    if durable:
        rows = await open_rows(directory / "headrace.db", retention=retention)
    else:
        rows = await open_rows(":memory:", inline=True, retention=retention)
    clock = Clock()
    store = LocalStore(rows, wall=clock, new_uid=lambda: str(uuid.uuid4()), caller=Caller())
    try:
        async with serve(store, data_dir=directory, port=0, nodes=nodes or WrittenLogs(), wall=clock) as running:
            yield Serving(store, running, directory, clock)
    finally:
        await rows.close()
