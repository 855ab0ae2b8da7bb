"""Podman's socket gone, hanging, unsafe or answering nonsense: bounded, in clear words, and over when it is back."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headrace.node.runtimes.choice import NoRuntime, _record, open_runtime, recorded
from headrace.node.runtimes.podman import PodmanRuntime
from headrace.node.runtimes.podman_images import policy_of, reference
from headrace.node.runtimes.podman_limits import limiting
from headrace.node.runtimes.podman_socket import Podman, PodmanGone, PodmanRefused, UnsafeSocket, check_socket
from headrace.node.runtimes.process import ProcessRuntime

SECONDS = 0.3


@asynccontextmanager
async def answering(path: Path, answer: bytes | None) -> AsyncIterator[None]:
    """Somebody on the socket who says just this, or nothing for ever."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answer is None:
            await reader.read()
        else:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
        writer.close()

    server = await asyncio.start_unix_server(speak, path)
    os.chmod(path, 0o600)
    try:
        yield
    finally:
        server.close()


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s") / "p.sock"


async def test_a_socket_that_is_not_there_is_said_at_once(place: Path) -> None:
    podman = Podman(place)
    with pytest.raises(PodmanGone, match="No such file"):
        await podman.call("GET", "/info")
    await podman.close()


async def test_a_socket_on_which_nobody_answers_is_left_after_the_time(place: Path) -> None:
    async with answering(place, None):
        podman, began = Podman(place, SECONDS), time.monotonic()
        with pytest.raises(PodmanGone, match=r"did not answer GET /info within 0.3 s"):
            await podman.call("GET", "/info")
        assert time.monotonic() - began < SECONDS + 2
        await podman.close()


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (b"HTTP/1.1 500 X\r\nContent-Length: 19\r\n\r\n" + b'{"message": "half"}', PodmanRefused, "half"),
        (b"HTTP/1.1 502 X\r\nContent-Length: 0\r\n\r\n", PodmanRefused, "HTTP 502"),
        (b"not HTTP at all\r\n\r\n", PodmanGone, "does not answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", PodmanGone, "does not answer"),
    ],
)
async def test_what_is_answered_is_refused_or_gone(
    place: Path, answer: bytes, error: type[Exception], words: str
) -> None:
    async with answering(place, answer):
        podman = Podman(place, SECONDS)
        with pytest.raises(error, match=words):
            await podman.call("GET", "/info")
        await podman.close()


@pytest.mark.parametrize(("mode", "words"), [(0o666, "chmod o-w"), (0o602, "lets every user in")])
async def test_a_socket_that_others_may_write_to_is_refused(place: Path, mode: int, words: str) -> None:
    async with answering(place, b""):
        os.chmod(place, mode)
        with pytest.raises(UnsafeSocket, match=words):
            await PodmanRuntime.open(place.parent, place)


async def test_a_socket_that_others_may_replace_is_refused(place: Path) -> None:
    async with answering(place, b""):
        os.chmod(place.parent, 0o777)
        with pytest.raises(UnsafeSocket, match="may replace it"):
            check_socket(place)


def test_a_file_is_no_socket(tmp_path: Path) -> None:
    (tmp_path / "p.sock").touch()
    with pytest.raises(UnsafeSocket, match="is no socket"):
        check_socket(tmp_path / "p.sock")


async def test_without_a_socket_processes_are_run_unless_podman_was_asked_for(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTAINER_HOST", f"unix://{place}")
    with pytest.raises(NoRuntime, match=r"--runtime podman: podman socket .*No such file"):
        await open_runtime(tmp_path, "podman")
    assert recorded(tmp_path) == ("", None)
    runtime = await open_runtime(tmp_path)
    assert isinstance(runtime, ProcessRuntime)
    assert recorded(tmp_path) == ("process", None)
    await runtime.stop_keeper()


@pytest.mark.parametrize(
    ("image", "told", "policy"),
    [
        ("busybox", "", "Always"),
        ("busybox:latest", "", "Always"),
        ("host:5000/busybox", "", "Always"),
        ("host:5000/busybox:1", "", "IfNotPresent"),
        ("busybox@sha256:00", "", "IfNotPresent"),
        ("busybox:latest", "Never", "Never"),
    ],
)
def test_the_pull_policy_is_kubernetes_default(image: str, told: str, policy: str) -> None:
    assert policy_of(image, told) == policy


@pytest.mark.parametrize(
    ("image", "full"),
    [
        ("busybox:1", "docker.io/library/busybox:1"),
        ("team/app", "docker.io/team/app"),
        ("localhost/app:1", "localhost/app:1"),
        ("ghcr.io/team/app", "ghcr.io/team/app"),
        ("host:5000/app", "host:5000/app"),
    ],
)
def test_a_name_without_a_registry_is_docker_hubs(image: str, full: str) -> None:
    assert reference(image) == full


@pytest.mark.parametrize(
    ("place_of_process", "limited"),
    [
        (f"libpod-{'0a' * 32}.scope/container", f"libpod-{'0a' * 32}.scope"),
        (f"libpod-{'0a' * 32}/container", f"libpod-{'0a' * 32}"),
        (f"libpod-{'0a' * 32}.scope", f"libpod-{'0a' * 32}.scope"),
        ("user.slice/container", "user.slice/container"),
    ],
)
def test_crun_limits_the_cgroup_above_the_processes(place_of_process: str, limited: str) -> None:
    assert limiting(Path("/sys/fs/cgroup") / place_of_process) == Path("/sys/fs/cgroup") / limited


def test_what_runs_here_is_still_known_when_it_could_not_be_written_again(tmp_path: Path) -> None:
    _record(tmp_path, "podman /run/podman.sock")
    (tmp_path / ".runtime").mkdir()  # nothing can be written beside it
    with pytest.raises(OSError, match="directory"):
        _record(tmp_path, "process")
    assert recorded(tmp_path) == ("podman", Path("/run/podman.sock"))
