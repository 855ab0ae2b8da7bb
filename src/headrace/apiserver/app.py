"""The ASGI application: who calls, may they, is there room, and then the handler; every error becomes a Status.

A request costs few lookups on its way: nothing here decodes a body, and headers are read once.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import aclosing, suppress
from typing import Any

import orjson
import structlog

from headrace.api.limits import BODY_BYTES
from headrace.apiserver import bodies
from headrace.apiserver.answers import Answer, Stream
from headrace.apiserver.authentication import Authenticator
from headrace.apiserver.authorization import Authorizer
from headrace.apiserver.lanes import Lanes, Streams, lane_of
from headrace.apiserver.lanes import Stream as OpenStream
from headrace.apiserver.observing import Observations
from headrace.apiserver.requests import Request, parse
from headrace.apiserver.resources import Resources
from headrace.apiserver.routes import Routes
from headrace.apiserver.statuses import Failure, not_found_path, status_of
from headrace.store.protocol import Invalid, StoreError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Scope = MutableMapping[str, Any]


_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
JOIN_BYTES = 64 * 1024  # of requests that name no resource, some of which come from strangers


class App:
    def __init__(
        self,
        *,
        authenticator: Authenticator,
        authorizer: Authorizer,
        resources: Resources,
        routes: Routes,
        streams: Streams,
        observations: Observations,
    ) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._resources = resources
        self._routes = routes
        self._lanes = Lanes()
        self._streams = streams
        self._observations = observations
        observations.watch(self._lanes, streams)
        self._log = structlog.get_logger("headrace.apiserver")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        request = parse(scope["method"], scope["path"], scope["query_string"])
        code = 0
        long = False
        try:
            answer = await self._answer(request, scope, receive)
            if isinstance(answer, Stream):
                long = True
                code = await self._stream(answer, request, receive, send)
            else:
                code = answer.code
                await _send(send, answer, request.method)
        except bodies.Disconnected:
            code = 499
        except StoreError as error:
            code = error.code
            await _send(send, failure_answer(error, request), request.method)
        except Exception:
            # The one broad handler of the server: a fault of ours must reach the caller as a Status, and us as a log.
            self._log.exception("request failed", method=request.method, path=request.path, user=request.identity.user)
            code = 500
            if request.answered:
                raise  # the protocol cuts the line, so that nobody takes half a stream for a whole one
            await _send(send, _internal_error(request), request.method)
        finally:
            self._observations.record(
                request.verb or request.method,
                request.resource if code not in (401, 404) else "",
                code,
                None if long else time.perf_counter() - began,
            )

    async def _answer(self, request: Request, scope: Scope, receive: Receive) -> Answer | Stream:
        authorization = ""
        length: bytes | None = None
        for name, value in scope["headers"]:
            if name == b"accept":
                request.accept = value.decode("latin-1")
            elif name == b"content-type":
                request.content_type = value.decode("latin-1")
            elif name == b"authorization":
                authorization = value.decode("latin-1")
            elif name == b"content-length":
                length = value
            elif name == b"user-agent":
                request.user_agent = value.decode("latin-1")
        request.identity = self._authenticator.identify(scope["state"].get("certificate"), authorization)
        await self._authorizer.authorize(request)
        if request.method in _WITH_BODY:
            # Before the lane: a body that trickles in must not hold a place that others wait for.
            limit = BODY_BYTES if request.plural else JOIN_BYTES
            body = bodies.at_hand(scope["state"].get("cycle"))
            request.body = await bodies.read(receive, length, limit) if body is None else body
        lane = lane_of(request)
        self._lanes.enter(lane)
        try:
            if request.plural:
                return await self._resources.answer(request)
            answer = await self._routes.answer(request)
            if answer is None:
                raise not_found_path()
            return answer
        finally:
            self._lanes.leave(lane)

    async def _stream(self, stream: Stream, request: Request, receive: Receive, send: Send) -> int:
        """Pieces until they end, the caller hangs up, the time is over or somebody ends it: all plain ends."""
        async with (
            aclosing(stream.pieces) as pieces,
            self._streams.enter(request.identity.user, stream.kind, stream.seconds) as opened,
        ):
            hangup = asyncio.create_task(_end_at_hangup(receive, opened))
            try:
                first = b"" if stream.starts_at_once else await anext(pieces, b"")
                await self._begin(stream, request, send)
                if first:
                    await send({"type": "http.response.body", "body": first, "more_body": True})
                async for piece in pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            except StoreError as error:
                if not request.answered:
                    raise
                # Too late for a Status: the reader of a log finds the reason at its end.
                await send({"type": "http.response.body", "body": f"\n{error}\n".encode(), "more_body": True})
            finally:
                hangup.cancel()
        await self._begin(stream, request, send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return 200

    async def _begin(self, stream: Stream, request: Request, send: Send) -> None:
        if not request.answered:
            request.answered = True
            await send(_start(200, stream.content_type, ()))


async def _end_at_hangup(receive: Receive, stream: OpenStream) -> None:
    with suppress(asyncio.CancelledError):
        while (await receive())["type"] != "http.disconnect":
            pass  # a body that nobody asked for
        stream.end()


def _start(code: int, content_type: bytes, headers: Any) -> Message:
    return {"type": "http.response.start", "status": code, "headers": [(b"content-type", content_type), *headers]}


async def _send(send: Send, answer: Answer, method: str) -> None:
    headers = [(b"content-length", b"%d" % len(answer.body)), *answer.headers]
    await send(_start(answer.code, answer.content_type, headers))
    body = b"" if method == "HEAD" else answer.body
    await send({"type": "http.response.body", "body": body})


def failure_answer(error: StoreError, request: Request) -> Answer:
    # As Kubernetes: an Invalid names the kind of the object, every other error the resource of the URL.
    kind = request.about[0] if isinstance(error, Invalid) else request.plural
    status = status_of(error, group=request.group, resource=kind, name=request.about[1] or request.name)
    headers = []
    if isinstance(error, Failure):
        if error.retry_after:
            headers.append((b"retry-after", b"%d" % error.retry_after))
    elif error.code == 429:
        headers.append((b"retry-after", b"1"))
    return Answer(error.code, orjson.dumps(status), headers=headers)


def _internal_error(request: Request) -> Answer:
    error = Failure(500, "InternalError", "Internal error occurred: the server's log says more")
    return failure_answer(error, request)
