"""One try of each kind of probe, against something that answers and something that does not."""

import asyncio
import time
from contextlib import asynccontextmanager

import grpc
import pytest

from headrace.node.pod import Container, Probe
from headrace.node.probes import HEALTH_CHECK, Probes
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
