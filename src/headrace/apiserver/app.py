"""From a request to its answer: who calls, may they, is there room, then the handler; every error becomes a Status.

A request costs few lookups on its way: nothing here decodes a body, and headers are read once.
"""

import asyncio
import time
from contextlib import aclosing, suppress

import orjson
import structlog

from headrace.api.limits import BODY_BYTES
from headrace.apiserver import bodies
from headrace.apiserver.answers import Answer, Stream
from headrace.apiserver.authentication import Authenticator
from headrace.apiserver.authorization import Authorizer
from headrace.apiserver.exchange import Exchange
from headrace.apiserver.lanes import Lanes, Streams, lane_of
from headrace.apiserver.lanes import Stream as OpenStream
from headrace.apiserver.observing import Observations
from headrace.apiserver.requests import Request, parse
from headrace.apiserver.resources import Resources
from headrace.apiserver.routes import Routes
from headrace.apiserver.statuses import Failure, not_found_path, status_of
from headrace.store.protocol import Invalid, StoreError

_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_INTERNAL_ERROR = Failure(500, "InternalError", "Internal error occurred: the server's log says more")
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

    async def __call__(self, exchange: Exchange) -> None:
        began = time.perf_counter()
        request = parse(exchange.method, exchange.path, exchange.query)
        code = 0
        long = False
        try:
            if exchange.choked:
                await exchange.drained()
            answer = await self._answer(request, exchange)
            if isinstance(answer, Stream):
                long = True
                code = await self._stream(answer, request, exchange)
            else:
                code = answer.code
                exchange.answer(code, answer.content_type, answer.body, answer.headers)
        except bodies.Disconnected:
            code = 499
        except StoreError as error:
            code = error.code
            _fail(exchange, error, request)
        except Exception:
            # The one broad handler of the server: a fault of ours must reach the caller as a Status, and us as a log.
            self._log.exception("request failed", method=request.method, path=request.path, user=request.identity.user)
            code = 500
            _fail(exchange, _INTERNAL_ERROR, request)
        finally:
            self._observations.record(
                request.verb or request.method,
                request.resource if code not in (401, 404) else "",
                code,
                None if long else time.perf_counter() - began,
            )

    async def _answer(self, request: Request, exchange: Exchange) -> Answer | Stream:
        header = exchange.headers.get
        request.accept = header(b"accept", b"").decode("latin-1")
        request.content_type = header(b"content-type", b"").decode("latin-1")
        request.user_agent = header(b"user-agent", b"").decode("latin-1")
        authorization = header(b"authorization", b"").decode("latin-1")
        connection = exchange.connection
        request.connection = id(connection)
        request.identity = self._authenticator.identify(connection.certificate, authorization)
        await self._authorizer.authorize(request)
        if request.method in _WITH_BODY:
            # Before the lane: a body that trickles in must not hold a place that others wait for.
            limit = BODY_BYTES if request.plural else JOIN_BYTES
            body = exchange.whole_body(limit)
            if body is None:
                body = await bodies.read(exchange, header(b"content-length"), limit)
                # Again: it came as slowly as its sender liked, who may have lost the right meanwhile.
                request.identity = self._authenticator.identify(connection.certificate, authorization)
                await self._authorizer.authorize(request)
            request.body = body
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

    async def _stream(self, stream: Stream, request: Request, exchange: Exchange) -> int:
        """Pieces until they end, the caller hangs up, the time is over or somebody ends it: all plain ends."""
        await asyncio.sleep(0)  # from here on it is a task of its own, which can be ended
        async with (
            aclosing(stream.pieces) as pieces,
            self._streams.enter(request.identity.user, stream.kind, stream.seconds) as opened,
        ):
            hangup = asyncio.create_task(_end_at_hangup(exchange, opened))
            try:
                # A revocation ends the streams that are open: this one was not yet, while its beginning was read.
                authorization = exchange.headers.get(b"authorization", b"").decode("latin-1")
                self._authenticator.identify(exchange.connection.certificate, authorization)
                first = b"" if stream.starts_at_once else await anext(pieces, b"")
                exchange.begin_stream(stream.content_type)
                if first:
                    exchange.write(first)
                stream.line.exchange = exchange
                async for piece in pieces:
                    if exchange.choked:
                        await exchange.drained()
                    if piece:
                        exchange.write(piece)
            except StoreError as error:
                if not exchange.answered:
                    raise
                # Too late for a Status: the reader of a log finds the reason at its end.
                exchange.write(f"\n{error}\n".encode())
            finally:
                hangup.cancel()
        if not exchange.answered:
            exchange.begin_stream(stream.content_type)
        exchange.end_stream()
        return 200


async def _end_at_hangup(exchange: Exchange, stream: OpenStream) -> None:
    with suppress(asyncio.CancelledError):
        await exchange.hangup()
        stream.end()


def _fail(exchange: Exchange, error: StoreError, request: Request) -> None:
    if exchange.answered:
        exchange.cut()
        return
    answer = failure_answer(error, request)
    exchange.answer(answer.code, answer.content_type, answer.body, answer.headers)


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
