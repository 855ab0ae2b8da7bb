"""The agent's end of its one gRPC stream: it dials the control plane and answers what is asked on it.

Every request has a task and a window: a slow reader of logs holds back nothing but its own request.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
from structlog.typing import FilteringBoundLogger

from headrace.node.containers import attempt_of
from headrace.node.launch import log_path
from headrace.node.logs import LogQuery, read
from headrace.node.pods import Pods
from headrace.node.refusal import Refused
from headrace.node.registration import words_of
from headrace.node.resize_service import ResizeService
from headrace.node.samples import Outgoing
from headrace.node.states import States
from headrace.runtime.backoff import Backoff
from headrace.runtime.clock import Clock
from headrace.store.protocol import Unauthorized
from headrace.wire.generated import agents_pb2 as wire
from headrace.wire.generated.agents_pb2_grpc import AgentsStub

WINDOW_BYTES = 256 * 1024
PIECE_BYTES = 32 * 1024
REQUESTS = 200
OUTBOX = 64
FIRST_SECONDS, LONGEST_SECONDS = 0.2, 10.0


class _Request:
    """One request under way, and how many bytes its reader still has room for."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self._room, self._more = WINDOW_BYTES, asyncio.Event()

    def credit(self, count: int) -> None:
        self._room = min(WINDOW_BYTES, self._room + count)
        self._more.set()

    async def take(self, count: int) -> None:
        while self._room < count:
            self._more.clear()
            await self._more.wait()
        self._room -= count


class Stream:
    """`dial` makes a channel (anew each time: certificates change). `run` keeps the stream until cancelled."""

    def __init__(
        self,
        node: str,
        version: str,
        dial: Callable[[], grpc.aio.Channel],
        pods: Pods,
        states: States,
        service: ResizeService,
        *,
        directory: Path,
        clock: Clock,
        backoff: Backoff,
        log: FilteringBoundLogger,
        samples: Outgoing | None = None,
    ) -> None:
        self._node, self._version, self._dial, self._service = node, version, dial, service
        self._pods, self._states, self._directory = pods, states, directory
        self._clock, self._backoff, self._log = clock, backoff, log
        self._samples = samples
        self._requests: dict[int, _Request] = {}

    async def run(self) -> None:
        while True:
            try:
                await self._connect()
            except Exception:  # such as a certificate that cannot be read: Pods need no stream
                self._log.exception("stream ended")
            await self._clock.sleep(self._backoff.failed(""))

    async def _connect(self) -> None:
        """One stream, from its beginning to its end; its requests end with it."""
        outbox: asyncio.Queue[wire.FromAgent] = asyncio.Queue(OUTBOX)
        outbox.put_nowait(wire.FromAgent(hello=wire.Hello(node=self._node, version=self._version)))
        async with self._dial() as channel, asyncio.TaskGroup() as tasks:
            stub = AgentsStub(channel)  # type: ignore[no-untyped-call]  # generated code has no types
            call = stub.Connect()
            telling = tasks.create_task(_tell(call, outbox), name="stream out")
            sending = None if self._samples is None else tasks.create_task(self._send(self._samples, outbox))
            try:
                async for message in call:
                    self._backoff.succeeded("")
                    self._take(message, outbox, tasks)
            except grpc.aio.AioRpcError as error:
                told = error.details() or ""
                if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                    told = words_of(Unauthorized(told), self._node)
                self._log.warning("stream ended", code=error.code().name, error=told)
            finally:
                telling.cancel()
                if sending is not None:
                    sending.cancel()
                for request in self._requests.values():
                    if request.task is not None:
                        request.task.cancel()
                self._requests.clear()

    async def _send(self, samples: Outgoing, outbox: asyncio.Queue[wire.FromAgent]) -> None:
        """Each round as it was measured; one that a stream full of answers has no room for is left out."""
        while True:
            await samples.ready()
            if not outbox.full() and (batch := samples.take()) is not None:
                outbox.put_nowait(wire.FromAgent(samples=batch))

    def _take(self, message: wire.ToAgent, outbox: asyncio.Queue[wire.FromAgent], tasks: asyncio.TaskGroup) -> None:
        number, kind = message.request_id, message.WhichOneof("message")
        known = self._requests.get(number)
        if kind == "credit":
            if known is not None:
                known.credit(message.credit.bytes)
            return
        if kind == "cancel":
            if known is not None and known.task is not None:
                known.task.cancel()
            return
        if known is not None or len(self._requests) >= REQUESTS:
            end = wire.End(code=grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], message=f"at most {REQUESTS} requests")
            tasks.create_task(outbox.put(wire.FromAgent(request_id=number, end=end)))
            return
        request = _Request()
        self._requests[number] = request
        request.task = tasks.create_task(self._answer(message, request, outbox), name=f"request {number} {kind}")

    async def _answer(self, message: wire.ToAgent, request: _Request, outbox: asyncio.Queue[wire.FromAgent]) -> None:
        number = message.request_id
        try:
            match message.WhichOneof("message"):
                case "logs":
                    async for piece in self._logs(message.logs):
                        for at in range(0, len(piece), PIECE_BYTES):
                            data = piece[at : at + PIECE_BYTES]
                            await request.take(len(data))
                            await outbox.put(wire.FromAgent(request_id=number, chunk=wire.Chunk(data=data)))
                    end = wire.End()
                case "update_resources":
                    answer = await self._service.update(message.update_resources)
                    await outbox.put(wire.FromAgent(request_id=number, update_resources=answer))
                    end = wire.End()
                case "get_resource_status":
                    status = await self._service.status(message.get_resource_status)
                    await outbox.put(wire.FromAgent(request_id=number, get_resource_status=status))
                    end = wire.End()
                case kind:
                    raise Refused(grpc.StatusCode.UNIMPLEMENTED, f"request {kind!r}: this agent does not know it")
        except Refused as refused:
            end = wire.End(code=refused.code.value[0], message=refused.message)
        except OSError as error:
            end = wire.End(code=grpc.StatusCode.INTERNAL.value[0], message=str(error))
        except Exception as error:  # one request's trouble is not the others'
            self._log.exception("request failed", request=message.WhichOneof("message"))
            end = wire.End(code=grpc.StatusCode.INTERNAL.value[0], message=f"{type(error).__name__}: {error}")
        finally:
            self._requests.pop(number, None)
        await outbox.put(wire.FromAgent(request_id=number, end=end))

    def _logs(self, request: wire.LogsRequest) -> AsyncIterator[bytes]:
        """Raises Refused when the container never ran here."""
        id = self._run_of(request)
        query = LogQuery(
            follow=request.follow,
            timestamps=request.timestamps,
            tail_lines=request.tail_lines if request.HasField("tail_lines") else None,
            since=request.since if request.HasField("since") else None,
            limit_bytes=request.limit_bytes if request.HasField("limit_bytes") else None,
        )
        return read(log_path(self._directory, id), query, lambda: self._is_running(id))

    def _run_of(self, request: wire.LogsRequest) -> str:
        """The newest run, or the one that the status tells of (its record may be gone, its log is not)."""
        worker = self._pods.get(request.pod_uid)
        status = worker.pod.container_status(request.container) if worker else {}
        if request.previous:
            told = ((status.get("lastState") or {}).get("terminated") or {}).get("containerID")
            ids: list[str] = []
        else:
            told = status.get("containerID")
            states = [state for state in self._states.of(request.pod_uid) if state.container == request.container]
            ids = sorted((state.id for state in states), key=attempt_of)
        if ids:
            return ids[-1]
        if told:
            return str(told).partition("://")[2]
        which = "previous terminated container" if request.previous else "container"
        raise Refused(grpc.StatusCode.NOT_FOUND, f"{which} {request.container!r} not found: it has not run here")

    def _is_running(self, id: str) -> bool:
        return any(state.id == id and state.state == "running" for state in self._states.of(id.rsplit("_", 2)[0]))


async def _tell(call: Any, outbox: asyncio.Queue[wire.FromAgent]) -> None:
    """What is to be said, until the call has ended; why it did is told where it is read.

    Not a generator given to the call: gRPC leaves it running when a connection breaks, and Python complains later.
    """
    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        while True:
            await call.write(await outbox.get())
