"""The control plane's end of the agents' streams: requests to nodes travel on the stream that each agent dialled.

One stream for a node; a newer one ends the older. What a reader has not taken, its agent does not send.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable

import grpc
from structlog.typing import FilteringBoundLogger

from headrace.apiserver.nodes import LogOptions
from headrace.store.protocol import NotFound, StoreError, Unavailable
from headrace.wire.generated import agents_pb2 as wire
from headrace.wire.generated import resize_pb2 as resize

OUTBOX = 256
WINDOW_BYTES = 256 * 1024
ANSWER_SECONDS = 45.0  # a Podman that hangs has 15 s, and an update waits for the one that is under way
END = wire.FromAgent(end=wire.End(code=grpc.StatusCode.UNAVAILABLE.value[0], message="the agent's stream ended"))


class AgentRefused(Exception):
    """The agent's answer to a request that it does not carry out: a gRPC status code and a sentence."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def _ignored(node: str, samples: wire.Samples) -> None:
    """For a server without monitoring."""


class _Answers:
    """What an agent sends to one request. Its size is bounded by the window, which the agent must keep to."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[wire.FromAgent] = asyncio.Queue()
        self.unread_bytes = 0


class AgentConnection:
    """One stream. `messages` is what is sent to the agent; `receive` takes in what it sends, until either ends."""

    def __init__(self, node: str, version: str, samples: Callable[[str, wire.Samples], None] = _ignored) -> None:
        """`samples` takes what the node's containers use, as it comes."""
        self.node, self.version = node, version
        self._samples = samples
        self._outbox: asyncio.Queue[wire.ToAgent | None] = asyncio.Queue(OUTBOX)
        self._requests: dict[int, _Answers] = {}
        self._last_number = 0
        self._is_closed = False

    async def messages(self) -> AsyncIterator[wire.ToAgent]:
        while (message := await self._outbox.get()) is not None:
            yield message

    async def receive(self, messages: AsyncIterable[wire.FromAgent]) -> None:
        """Returns when the agent goes or sends what it may not."""
        try:
            async for message in messages:
                if message.WhichOneof("message") == "samples":
                    self._samples(self.node, message.samples)
                    continue
                answers = self._requests.get(message.request_id)
                if answers is None:
                    continue  # its asker went away; what was under way still arrives
                answers.unread_bytes += len(message.chunk.data)
                if answers.unread_bytes > WINDOW_BYTES:
                    return
                answers.queue.put_nowait(message)
        finally:
            self.close()

    def close(self) -> None:
        """End the stream; every request under way is told so. What was still to be sent is not."""
        if self._is_closed:
            return
        self._is_closed = True
        while not self._outbox.empty():
            self._outbox.get_nowait()
        self._outbox.put_nowait(None)
        for answers in self._requests.values():
            answers.queue.put_nowait(END)

    async def ask(self, message: wire.ToAgent) -> AsyncIterator[wire.FromAgent]:
        """The answers to one request, up to its end; closing it cancels. Raises AgentRefused, Unavailable."""
        if self._is_closed:
            raise Unavailable(f"the stream of node {self.node!r} ended")
        self._last_number += 1
        number = message.request_id = self._last_number
        answers = self._requests[number] = _Answers()
        ended = False
        try:
            await self._outbox.put(message)
            while True:
                answer = await answers.queue.get()
                if answer.WhichOneof("message") == "end":
                    ended = True
                    _raise_for(answer.end)
                    return
                yield answer
                size = len(answer.chunk.data)
                if size and not self._is_closed:
                    answers.unread_bytes -= size
                    await self._outbox.put(wire.ToAgent(request_id=number, credit=wire.Credit(bytes=size)))
        finally:
            del self._requests[number]
            if not ended and not self._is_closed:
                self._cancel(number)

    def _cancel(self, number: int) -> None:
        """Never waits: its caller may be on its way out. A full outbox means a stream that is about to be cut."""
        try:
            self._outbox.put_nowait(wire.ToAgent(request_id=number, cancel=wire.Cancel()))
        except asyncio.QueueFull:
            self.close()


class AgentStreams:
    """Implements `headrace.apiserver.nodes.Nodes`; forwards the NodeAgent service. `wall`: seconds since the epoch."""

    def __init__(
        self,
        *,
        wall: Callable[[], float],
        log: FilteringBoundLogger,
        samples: Callable[[str, wire.Samples], None] = _ignored,
    ) -> None:
        self._wall, self._log, self.samples = wall, log, samples
        self._connections: dict[str, AgentConnection] = {}

    def connected(self) -> list[str]:
        """Names of the nodes whose agents are there."""
        return sorted(self._connections)

    def connect(self, connection: AgentConnection) -> None:
        older = self._connections.get(connection.node)
        self._connections[connection.node] = connection
        if older is not None:
            older.close()
        self._log.info("agent connected", node=connection.node, version=connection.version)

    def disconnect(self, connection: AgentConnection) -> None:
        connection.close()
        if self._connections.get(connection.node) is connection:
            del self._connections[connection.node]
            self._log.info("agent disconnected", node=connection.node)

    def end_node(self, node: str) -> None:
        """Its credentials were revoked."""
        connection = self._connections.get(node)
        if connection is not None:
            self.disconnect(connection)

    def stop(self) -> None:
        for connection in tuple(self._connections.values()):
            self.disconnect(connection)

    async def logs(self, node: str, pod_uid: str, container: str, options: LogOptions) -> AsyncGenerator[bytes, None]:
        request = wire.LogsRequest(
            pod_uid=pod_uid,
            container=container,
            follow=options.follow,
            previous=options.previous,
            timestamps=options.timestamps,
            tail_lines=options.tail_lines,
            since=None if options.since_seconds is None else self._wall() - options.since_seconds,
            limit_bytes=options.limit_bytes,
        )
        answers = self._connection(node).ask(wire.ToAgent(logs=request))
        try:
            async for answer in answers:
                yield answer.chunk.data
        except AgentRefused as refused:
            raise _store_error(refused) from None
        finally:
            await answers.aclose()  # type: ignore[attr-defined]  # ask is an async generator

    async def update_resources(
        self, node: str, request: resize.UpdateResourcesRequest
    ) -> resize.UpdateResourcesResponse:
        """Raises AgentRefused, Unavailable."""
        return (await self._one(node, wire.ToAgent(update_resources=request))).update_resources

    async def get_resource_status(
        self, node: str, request: resize.GetResourceStatusRequest
    ) -> resize.GetResourceStatusResponse:
        """Raises AgentRefused, Unavailable."""
        return (await self._one(node, wire.ToAgent(get_resource_status=request))).get_resource_status

    async def _one(self, node: str, message: wire.ToAgent) -> wire.FromAgent:
        found: wire.FromAgent | None = None
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                async for answer in self._connection(node).ask(message):
                    found = answer
        except TimeoutError:
            raise Unavailable(f"the agent of node {node!r} did not answer within {ANSWER_SECONDS:g} s") from None
        if found is None:
            raise Unavailable(f"the agent of node {node!r} ended the request without an answer")
        return found

    def _connection(self, node: str) -> AgentConnection:
        found = self._connections.get(node)
        if found is None:
            raise Unavailable(f"no agent of node {node!r} is connected")
        return found


def _raise_for(end: wire.End) -> None:
    if end.code:
        code = next((code for code in grpc.StatusCode if code.value[0] == end.code), grpc.StatusCode.UNKNOWN)
        raise AgentRefused(code, end.message)


def _store_error(refused: AgentRefused) -> StoreError:
    if refused.code is grpc.StatusCode.NOT_FOUND:
        return NotFound(refused.message)
    return Unavailable(refused.message)
