"""The homes that the contract is checked on: ours in process, ours over HTTP, and a real kube-apiserver.

To add a home, add its factory to LEGS: every test of this folder then runs on it too.
"""

import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from headrace.client.http import Client
from headrace.client.kubeconfig import load
from headrace.objects.local import Caller, LocalStore
from headrace.store.kubernetes import KubernetesStore
from headrace.store.protocol import Store
from headrace.store.sqlite import open_rows
from tests.apiserver.serving import serving
from tests.kubernetes.cluster import ControlPlane

Leg = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[Store]]


async def local(path: Path | str, *, inline: bool) -> LocalStore:
    rows = await open_rows(path, inline=inline)
    caller = Caller(user="system:admin", field_manager="contract")
    store = LocalStore(rows, wall=time.time, new_uid=lambda: str(uuid.uuid4()), caller=caller)
    await store.bootstrap()
    return store


@asynccontextmanager
async def in_memory(_: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """Commits on the caller's stack: what the simulation uses."""
    store = await local(":memory:", inline=True)
    yield store
    await store.rows.close()


@asynccontextmanager
async def in_a_file(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """A writer thread, group commit and syncs: what a server uses."""
    directory: Path = request.getfixturevalue("tmp_path")
    store = await local(directory / "headrace.db", inline=False)
    yield store
    await store.rows.close()


@asynccontextmanager
async def over_http(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """Our own API server on a free port, its administrator's certificate, and a file as in production."""
    directory: Path = request.getfixturevalue("tmp_path")
    async with serving(directory, durable=True) as server, server.remote() as store:
        yield store


@asynccontextmanager
async def on_kubernetes(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """A real kube-apiserver, shared by all tests of a run."""
    plane: ControlPlane = request.getfixturevalue("kubernetes")
    async with Client(load(plane.kubeconfig)) as client:
        yield KubernetesStore(client, field_manager="contract")


LEGS: dict[str, Leg] = {"in-memory": in_memory, "file": in_a_file, "http": over_http, "kubernetes": on_kubernetes}
CLUSTER_LEGS = ("kubernetes",)
