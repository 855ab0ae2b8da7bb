"""Both ends of the agents' stream, joined by a real gRPC connection: windows, cancelling, endings."""

import asyncio
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
import structlog
import structlog.testing

from headrace.apiserver.agent_streams import AgentConnection, AgentRefused, AgentStreams
from headrace.apiserver.nodes import LogOptions
from headrace.node.launch import log_path
from headrace.node.refusal import Refused
from headrace.node.runtimes.protocol import ContainerState
from headrace.node.states import States
from headrace.node.stream import WINDOW_BYTES, Stream
from headrace.runtime.backoff import Backoff
from headrace.runtime.clock import LoopClock
from headrace.store.protocol import NotFound, Unavailable
from headrace.wire.generated import resize_pb2 as resize
from headrace.wire.generated.agents_pb2_grpc import AgentsServicer, add_AgentsServicer_to_server

LOG = structlog.get_logger()
ID = "u_main_0"
LINE = "x" * 90


class Service(AgentsServicer):
    """As the server's, without certificates."""

    def __init__(self, streams):
        self.streams = streams

    async def Connect(self, messages, context):
        hello = (await anext(messages)).hello
        connection = AgentConnection(hello.node, hello.version)
        self.streams.connect(connection)
        receiving = asyncio.create_task(connection.receive(messages))
        try:
            async for message in connection.messages():
                yield message
        finally:
            receiving.cancel()
            self.streams.disconnect(connection)


class Resize:
    async def update(self, request):
        raise Refused(grpc.StatusCode.FAILED_PRECONDITION, f"not admitted: {request.workload_id}")

    async def status(self, request):
        if request.workload_id == "odd":
            raise LookupError("nobody thought of this")
        return resize.GetResourceStatusResponse(success=True)


def nothing_known():
    return States(None, lambda uid: None, clock=LoopClock(time.time), random=lambda: 0.5, log=LOG)


class Joined:
    def __init__(self, streams, stream, states, path, server):
        self.streams, self.stream, self.states, self.path, self.server = streams, stream, states, path, server

    def write(self, count):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.writelines(f"2026-03-01T12:00:00.000000000Z stdout F {LINE}\n" for _ in range(count))

    def logs(self, **options):
        return self.streams.logs("node-a", "u", "main", LogOptions(**options))

    @property
    def under_way(self):
        return len(self.stream._requests)


def streaming(directory, states):
    return Stream(
        "node-a",
        "0",
        lambda: grpc.aio.insecure_channel(f"unix://{directory}/s"),
        {},
        states,
        Resize(),
        directory=directory,
        clock=LoopClock(time.time),
        backoff=Backoff(lambda: 0.5, 0.01, 0.1),
        log=LOG,
    )


class Refusing(AgentsServicer):
    async def Connect(self, messages, context):
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "Unauthorized")
        yield


async def test_a_node_that_was_revoked_is_told_how_to_come_back():
    with tempfile.TemporaryDirectory(prefix="hr-", dir="/tmp") as name, structlog.testing.capture_logs() as told:
        server = grpc.aio.server()
        add_AgentsServicer_to_server(Refusing(), server)
        server.add_insecure_port(f"unix://{name}/s")
        await server.start()
        task = asyncio.create_task(streaming(Path(name), nothing_known()).run())
        await so(lambda: told)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await server.stop(0)
    assert told[0]["event"] == "stream ended"
    assert "`headrace token create --node node-a`" in told[0]["error"]


@asynccontextmanager
async def joined():
    with tempfile.TemporaryDirectory(prefix="hr-", dir="/tmp") as name:
        directory = Path(name)
        server = grpc.aio.server()
        streams = AgentStreams(wall=time.time, log=LOG)
        add_AgentsServicer_to_server(Service(streams), server)
        server.add_insecure_port(f"unix://{directory}/s")
        await server.start()
        states = nothing_known()
        states.put(ContainerState(ID, "u", "main", "running", 1, 1, 0.0))
        stream = streaming(directory, states)
        task = asyncio.create_task(stream.run())
        await so(lambda: streams.connected() == ["node-a"])
        try:
            yield Joined(streams, stream, states, log_path(directory, ID), server)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            streams.stop()
            await server.stop(0)


async def so(what):
    async with asyncio.timeout(10):
        while not what():  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # what the other end of a connection does, no event here tells


async def test_a_log_of_many_windows_arrives_whole():
    async with joined() as here:
        here.write(20_000)
        text = b"".join([piece async for piece in here.logs()])
        assert text == f"{LINE}\n".encode() * 20_000
        assert len(text) > 5 * WINDOW_BYTES
        assert here.under_way == 0


async def test_a_reader_that_stands_still_holds_back_nobody_else():
    async with joined() as here:
        here.write(20_000)
        slow = here.logs(follow=True)
        await anext(slow)
        for _ in range(3):
            async with asyncio.timeout(5):
                text = b"".join([piece async for piece in here.logs(tail_lines=2)])
            assert text == f"{LINE}\n".encode() * 2
        assert here.under_way == 1
        await slow.aclose()
        await so(lambda: here.under_way == 0)  # its agent was told to stop


async def test_a_reader_that_goes_away_ends_its_request():
    async with joined() as here:
        here.write(1)
        follow = here.logs(follow=True)
        assert await anext(follow) == f"{LINE}\n".encode()
        await follow.aclose()
        await so(lambda: here.under_way == 0)


async def test_a_follower_is_told_when_the_agent_is_lost():
    async with joined() as here:
        here.write(1)
        follow = here.logs(follow=True)
        await anext(follow)
        here.streams.end_node("node-a")
        with pytest.raises(Unavailable, match="the agent's stream ended"):
            await anext(follow)
        await so(lambda: here.streams.connected() == ["node-a"])  # it dials again


async def test_a_container_that_never_ran_is_not_found():
    async with joined() as here:
        with pytest.raises(NotFound, match="'other' not found"):
            await anext(here.streams.logs("node-a", "u", "other", LogOptions()))


async def test_a_node_without_an_agent_is_unavailable():
    async with joined() as here:
        with pytest.raises(Unavailable, match="no agent of node 'node-b' is connected"):
            await anext(here.streams.logs("node-b", "u", "main", LogOptions()))


async def test_a_refusal_keeps_its_code_and_words():
    async with joined() as here:
        with pytest.raises(AgentRefused, match="not admitted: default/p/main") as refused:
            await here.streams.update_resources("node-a", resize.UpdateResourcesRequest(workload_id="default/p/main"))
        assert refused.value.code is grpc.StatusCode.FAILED_PRECONDITION
        assert (await here.streams.get_resource_status("node-a", resize.GetResourceStatusRequest())).success


async def test_a_second_stream_of_a_node_ends_the_first():
    async with joined() as here:
        first = here.streams._connections["node-a"]
        here.streams.connect(AgentConnection("node-a", "newer"))
        with pytest.raises(Unavailable):
            await anext(first.ask(None))


async def test_a_fault_of_one_request_is_told_to_it_and_ends_no_other():
    async with joined() as here:
        here.write(1)
        follower = here.logs(follow=True)
        await anext(follower)
        with pytest.raises(AgentRefused, match="LookupError: nobody thought of this") as told:
            await here.streams.get_resource_status("node-a", resize.GetResourceStatusRequest(workload_id="odd"))
        assert told.value.code is grpc.StatusCode.INTERNAL
        here.write(1)
        async with asyncio.timeout(20):
            assert await anext(follower) == f"{LINE}\n".encode()
        await follower.aclose()


async def test_a_stream_that_cannot_be_made_is_made_later():
    tries = asyncio.Queue()

    def dial():
        tries.put_nowait(None)
        raise OSError(24, "Too many open files", "node.key")

    stream = Stream(
        "node-a",
        "0",
        dial,
        {},
        nothing_known(),
        Resize(),
        directory=Path("/nowhere"),
        clock=LoopClock(time.time),
        backoff=Backoff(lambda: 0.5, 0.01, 0.1),
        log=LOG,
    )
    task = asyncio.create_task(stream.run())
    async with asyncio.timeout(20):
        for _ in range(3):
            await tries.get()
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
