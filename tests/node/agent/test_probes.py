"""One try of each kind of probe, against something that answers and something that does not."""

import asyncio
import os
import random
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import grpc
import msgspec
import pytest

from headrace.node import beside
from headrace.node.pod import Container, Probe, view
from headrace.node.probes import HEALTH_CHECK, Probes
from headrace.node.runtimes.protocol import ContainerState, RuntimeUnavailable
from headrace.runtime.clock import LoopClock

HERE = "127.0.0.1"


def probes():
    return Probes(lambda *_, **__: None, LoopClock(time.time), HERE)


async def tried(probe, ports=()):
    return await probes()._once(Container(name="main", ports=list(ports)), probe, "u_main_0")


@asynccontextmanager
async def http(status):
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, HERE, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def health(status):
    async def check(request, context):
        return b"\x08" + bytes([status]) if request == b"\x0a\x03web" else b""

    handler = grpc.unary_unary_rpc_method_handler(check, lambda data: data, lambda data: data)
    server = grpc.aio.server()
    service, method = HEALTH_CHECK.strip("/").split("/")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    port = server.add_insecure_port(f"{HERE}:0")
    await server.start()
    yield port
    await server.stop(0)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (200, ""),
        (302, ""),
        (404, "HTTP probe failed with statuscode: 404"),
        (500, "HTTP probe failed with statuscode: 500"),
    ],
)
async def test_http(status, said):
    async with http(status) as port:
        assert await tried(Probe(http_get={"port": port, "path": "/healthz"})) == said


async def test_http_by_the_name_of_a_port():
    async with http(200) as port:
        assert await tried(Probe(http_get={"port": "web"}), [{"name": "web", "containerPort": port}]) == ""


async def test_tcp():
    async with http(200) as port:
        assert await tried(Probe(tcp_socket={"port": port})) == ""
    assert "Connect call failed" in await tried(Probe(tcp_socket={"port": port}))


@pytest.mark.parametrize(("status", "said"), [(1, ""), (2, "service 'web' is not serving")])
async def test_grpc(status, said):
    async with health(status) as port:
        assert await tried(Probe(grpc={"port": port, "service": "web"})) == said


@pytest.mark.parametrize(
    ("command", "said"),
    [(["true"], ""), (["sh", "-c", "echo broken; exit 1"], "broken\n"), ([], "exec.command must not be empty")],
)
async def test_exec(command, said):
    assert await tried(Probe(exec={"command": command})) == said


async def test_a_command_that_takes_too_long_is_ended():
    begun = time.monotonic()
    assert await tried(Probe(exec={"command": ["sleep", "30"]}, timeout_seconds=1)) == "no answer within 1 s"
    assert time.monotonic() - begun < 5


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(
    ("of_pod", "of_container", "identity"),
    [
        pytest.param({"runAsUser": 1234}, {}, "1234 1234 1234", id="a user without a group never has root's"),
        pytest.param({}, {"runAsUser": 1234}, "1234 1234 1234", id="the container's own user"),
        pytest.param({"runAsUser": 1, "runAsGroup": 7}, {"runAsUser": 1234}, "1234 7 7", id="of both"),
        pytest.param({}, {"runAsGroup": 7}, "0 7 7", id="a group alone"),
    ],
)
async def test_an_exec_probe_has_the_user_and_the_groups_of_its_container(of_pod, of_container, identity):
    pod = view(
        {
            "metadata": {"uid": "u", "name": "web", "namespace": "default"},
            "spec": {
                "securityContext": of_pod,
                "containers": [{"name": "main", "securityContext": of_container}],
            },
        }
    )
    command = ["sh", "-c", "echo $(id -u) $(id -g) $(id -G); exit 1"]
    container = msgspec.structs.replace(
        pod.spec.containers[0], security_context=pod.security_of(pod.spec.containers[0])
    )
    assert await probes()._once(container, Probe(exec={"command": command}, timeout_seconds=60), "u_main_0") == (
        f"{identity}\n"
    )


async def of_a_child():
    process = await asyncio.create_subprocess_exec("grep", "NoNewPrivs", "/proc/self/status", stdout=-1)
    return (await process.communicate())[0]


async def test_an_exec_probe_can_gain_no_privileges_as_its_container_cannot_and_others_still_can():
    before = await of_a_child()
    _, said = await beside.run(["grep", "NoNewPrivs", "/proc/self/status"], {"runAsUser": os.geteuid()}, 1024)
    assert said.split() == ["NoNewPrivs:", "1"]
    assert await of_a_child() == before


async def test_a_command_that_is_not_there_is_said_so():
    assert "No such file or directory: 'no-such-command'" in await tried(Probe(exec={"command": ["no-such-command"]}))


async def test_of_output_without_end_the_beginning_is_kept():
    told = beside._Told(1024)
    for _ in range(100):
        told.data_received(b"x" * 1000)
    assert told.output == b"x" * 1024
    command = ["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; exit 3"]
    assert await beside.run(command, {}, 1024) == (3, "x" * 1024)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        pytest.param("sleep 987.{} | cat", "no answer within 1 s", id="when it takes too long"),
        pytest.param("sleep 987.{} & echo begun; exit 1", "begun\n", id="when it has ended itself"),
    ],
)
async def test_nothing_that_a_probe_started_is_left(script, said):
    mark = str(random.randrange(10**12))
    exec = {"command": ["sh", "-c", script.format(mark)]}
    seconds = 1 if "no answer" in said else 60
    assert await tried(Probe(exec=exec, timeout_seconds=seconds)) == said
    deadline = time.monotonic() + 60
    while any(f"987.{mark}".encode() in line for line in command_lines()):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def command_lines():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_bytes()


async def test_a_probe_that_cannot_be_made_has_failed():
    assert await tried(Probe(http_get={"path": "/"})) == "KeyError: 'port'"


class Restarted:
    """A runtime that is away for the first tries."""

    def __init__(self, tries):
        self.left = tries

    async def execute(self, id, argv, output_bytes, seconds):
        self.left -= 1
        if self.left >= 0:
            raise RuntimeUnavailable("podman does not answer")
        raise TimeoutError


@pytest.mark.looptime
async def test_a_runtime_that_is_away_says_nothing_of_a_container_that_is_probed():
    told, runtime = [], Restarted(tries=20)
    probing = Probes(lambda id, **what: told.append(what), LoopClock(time.time), HERE, runtime)
    liveness = Probe(exec={"command": ["true"]}, timeout_seconds=1, period_seconds=2, failure_threshold=2)
    probing.watch(
        Container(name="main", liveness_probe=liveness), ContainerState("u_main_0", "u", "main", "running", 1, 1, 0.0)
    )
    await asyncio.sleep(19 * 2)
    assert told == [{"started": True}]
    await asyncio.sleep(10)
    assert told[-1] == {"unhealthy": "Liveness probe failed: no answer within 1 s"}
    probing.stop()
