"""kubectl logs, with the machines played by a table of what each container wrote."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest
import yaml

from headrace.api.kinds import POD
from headrace.apiserver.nodes import LogOptions
from headrace.store.protocol import Unavailable
from tests.apiserver.serving import Serving, WrittenLogs, serving
from tests.e2e.kubectl.conftest import Kubectl
from tests.e2e.kubectl.manifests import SIDE, WEB


async def bound(kubectl: Kubectl, server: Serving, manifest: str, name: str) -> str:
    """A Pod on node-a whose containers run; its uid."""
    pod = yaml.safe_load(manifest)
    pod["spec"]["nodeName"] = "node-a"
    await kubectl("create", "-f", "-", stdin=yaml.safe_dump(pod))
    made = await server.store.get(POD, name, "default")
    return str(made["metadata"]["uid"])


async def test_logs_shows_what_a_container_wrote(kubectl: Kubectl, server: Serving, logs: WrittenLogs) -> None:
    uid = await bound(kubectl, server, WEB, "web")
    logs.texts[uid, "main"] = [b"one\n", b"two\n", b"three\n"]
    assert await kubectl("logs", "web") == "one\ntwo\nthree\n"
    assert await kubectl("logs", "web", "--tail=1") == "three\n"
    assert await kubectl("logs", "web", "-c", "main", "--timestamps", "--limit-bytes=100") == "one\ntwo\nthree\n"
    node, options = logs.asked[-1]
    assert (node, options) == ("node-a", LogOptions(timestamps=True, limit_bytes=100))


async def test_logs_that_cannot_be_shown_say_why(kubectl: Kubectl, server: Serving) -> None:
    await kubectl("create", "-f", kubectl.file("web.yaml", WEB))
    assert "pod web does not have a host assigned" in await kubectl("logs", "web", code=1)
    assert "(NotFound)" in await kubectl("logs", "ghost", code=1)
    assert "container ghost is not valid for pod web" in await kubectl("logs", "web", "-c", "ghost", code=1)
    await kubectl("delete", "pod", "web")
    await bound(kubectl, server, WEB, "web")
    assert 'previous terminated container "main" in pod "web" not found' in await kubectl("logs", "web", "-p", code=1)


class Endless(WrittenLogs):
    """A container that goes on writing until its reader leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.left = asyncio.Event()

    async def logs(self, node: str, pod_uid: str, container: str, options: LogOptions) -> AsyncGenerator[bytes, None]:
        try:
            for number in range(1_000_000):
                yield b"line %d\n" % number
                await asyncio.sleep(0.01)
        finally:
            self.left.set()


class TestFollowing:
    @pytest.fixture
    async def server(self, tmp_path: Path, logs: WrittenLogs) -> AsyncIterator[Serving]:
        async with serving(tmp_path, logs) as opened:
            yield opened

    @pytest.fixture
    def logs(self) -> Endless:
        return Endless()

    async def test_follow_goes_on_until_the_reader_leaves(
        self, kubectl: Kubectl, server: Serving, logs: Endless
    ) -> None:
        await bound(kubectl, server, WEB, "web")
        process = await kubectl.start("logs", "-f", "web")
        assert process.stdout is not None
        async with asyncio.timeout(15):
            for number in range(5):
                assert await process.stdout.readline() == b"line %d\n" % number
            process.terminate()
            await logs.left.wait()


async def test_a_pod_of_two_containers_asks_which(kubectl: Kubectl, server: Serving, logs: WrittenLogs) -> None:
    uid = await bound(kubectl, server, SIDE, "side")
    logs.texts[uid, "one"] = [b"first\n"]
    logs.texts[uid, "two"] = [b"second\n"]
    assert await kubectl("logs", "side", "-c", "two") == "second\n"
    assert "[pod/side/one] first" in await kubectl("logs", "side", "--all-containers", "--prefix")


class Breaking(WrittenLogs):
    """A node that is lost in the middle of a log."""

    async def logs(self, node: str, pod_uid: str, container: str, options: LogOptions) -> AsyncGenerator[bytes, None]:
        yield b"one\n"
        raise Unavailable(f"the stream of node {node!r} ended")


class TestBreaking:
    @pytest.fixture
    async def server(self, tmp_path: Path) -> AsyncIterator[Serving]:
        async with serving(tmp_path, Breaking()) as opened:
            yield opened

    async def test_a_log_that_breaks_off_ends_with_the_reason(self, kubectl: Kubectl, server: Serving) -> None:
        await bound(kubectl, server, WEB, "web")
        assert await kubectl("logs", "-f", "web") == "one\n\nthe stream of node 'node-a' ended\n"


async def test_a_container_that_its_node_does_not_run_is_not_found(kubectl: Kubectl, server: Serving) -> None:
    await bound(kubectl, server, WEB, "web")
    assert 'container "main" is not running' in await kubectl("logs", "web", code=1)
