"""`headrace controllers` as processes: one leads, a paused one that wakes up writes nothing, and a stop hands over."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from headrace.api.kinds import CONFIG_MAP, LEASE
from headrace.store.protocol import Store
from tests.apiserver.serving import Serving, serving
from tests.kubernetes.cluster import ControlPlane

SECONDS = 40
ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "writing_controllers.py"
LEADING = Path(__file__).parent / "leading_controllers.py"
COMMAND = ("-m", "headrace.cli", "controllers", "--kubeconfig")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Serving]:
    async with serving(tmp_path, durable=True) as opened:
        yield opened


@asynccontextmanager
async def process(*arguments: str, stderr: int | None = None) -> AsyncIterator[asyncio.subprocess.Process]:
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
            await started.wait()


async def holder(store: Store) -> str:
    lease = await store.get(LEASE, "headrace-controllers", "kube-system")
    return str(lease["spec"].get("holderIdentity", ""))


async def until_written_by(store: Store, writer: str) -> int:
    """The revision of the first object seen with this writer."""
    async for event in store.watch(CONFIG_MAP, "default", fields="metadata.name=written"):
        if event.object.get("data", {}).get("writer") == writer:
            return int(event.object["metadata"]["resourceVersion"])
    raise AssertionError("the watch ended")


async def test_a_leader_that_was_stopped_and_goes_on_writes_nothing(server: Serving) -> None:
    kubeconfig = str(server.running.kubeconfig)
    store = server.store
    await store.create(CONFIG_MAP, {"metadata": {"name": "written"}}, "default")
    since = (await store.list(CONFIG_MAP, "default")).revision
    async with asyncio.timeout(SECONDS), process(str(SCRIPT), kubeconfig, "first") as first:
        await until_written_by(store, "first")
        async with process(str(SCRIPT), kubeconfig, "second"):
            first.send_signal(signal.SIGSTOP)
            await until_written_by(store, "second")
            first.send_signal(signal.SIGCONT)
            at = int((await store.get(CONFIG_MAP, "written", "default"))["metadata"]["resourceVersion"])
            writers = []
            # A while longer than the first needs to wake up, look and try.
            async for event in store.watch(CONFIG_MAP, "default", since=since, fields="metadata.name=written"):
                if event.type != "BOOKMARK":
                    writers.append(event.object["data"]["writer"])
                    if int(event.object["metadata"]["resourceVersion"]) > at + 200:
                        break
    changes = [writer for before, writer in zip(["", *writers], writers, strict=False) if writer != before]
    assert changes == ["first", "second"]


async def healthy(reader: asyncio.StreamReader) -> str:
    """The address that the command prints."""
    while True:
        line = (await reader.readline()).decode()
        if line.startswith("health: "):
            return line.removeprefix("health: ").strip()
        assert line, "the command ended"


async def leads(store: Store, *command: str) -> None:
    async with asyncio.timeout(SECONDS), process(*command) as started, aiohttp.ClientSession() as http:
        assert started.stdout is not None
        address = await healthy(started.stdout)
        async with http.get(address) as answer:
            assert (answer.status, await answer.text()) == (200, "ok")
        while True:
            async with http.get(address.replace("livez", "leaderz")) as answer:
                if answer.status == 200:
                    break
            await asyncio.sleep(0.05)
        assert await holder(store)
        async with http.get(address.replace("livez", "metrics")) as answer:
            assert answer.status == 200
        started.terminate()
        assert await started.wait() == 0
        assert await holder(store) == ""


async def test_a_leader_answers_for_its_health_and_gives_the_lease_back(server: Serving) -> None:
    await leads(server.store, str(LEADING), str(server.running.kubeconfig))


async def test_the_command_refuses_a_server_that_runs_its_controllers_itself(server: Serving) -> None:
    kubeconfig = str(server.running.kubeconfig)
    async with asyncio.timeout(SECONDS), process(*COMMAND, kubeconfig, stderr=asyncio.subprocess.STDOUT) as started:
        told, _ = await started.communicate()
    assert started.returncode == 1
    assert f"{server.running.url} is headrace's own server, which runs its controllers itself" in told.decode()
    assert not (await server.store.list(LEASE, "kube-system", fields="metadata.name=headrace-controllers")).items


@pytest.mark.cluster
async def test_the_command_does_so_on_a_real_cluster(kubernetes: ControlPlane) -> None:
    from headrace.client.http import Client
    from headrace.client.kubeconfig import load
    from headrace.store.kubernetes import KubernetesStore

    async with Client(load(kubernetes.kubeconfig)) as client:
        await leads(KubernetesStore(client), *COMMAND, str(kubernetes.kubeconfig))
