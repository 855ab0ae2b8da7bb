"""One HTTP/1.1 connection over httptools' parser, with limits on headers and time, and the caller's certificate.

A request's headers, a silent line and a body after its answer each have their time; `tick` looks once a second whose is
over, because a timer for each would cost more than the request.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any, Protocol, cast
from urllib.parse import unquote

import httptools

from headrace.api.limits import BODY_BYTES, HEADER_BYTES, HEADER_COUNT, HEADER_SECONDS
from headrace.apiserver.exchange import BODY_AHEAD_BYTES, Exchange, Heads
from headrace.apiserver.identity import Certificate, identity_of, issue_time
from headrace.apiserver.statuses import status_body

IDLE_SECONDS = 120.0  # longer than Go's clients keep an idle connection (90 s), so that they close first
LINGER_SECONDS = 5.0  # how long, and how much, of a body is read and thrown away after its answer
LINGER_BYTES = 4 * BODY_BYTES

_REASONS = {400: "BadRequest", 408: "Timeout", 431: "RequestHeaderFieldsTooLarge"}


class Owner(Protocol):
    """Whose connections these are. `begin` gets one request of each connection after the other."""

    heads: Heads

    def made(self, connection: "Connection") -> None: ...
    def lost(self, connection: "Connection") -> None: ...
    def begin(self, exchange: Exchange) -> None: ...


class Connection(asyncio.Protocol):
    """Reads requests and gives them to its owner. `certificate` is None where the client showed none."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._parser: Any = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self.certificate: Certificate | None = None
        self.common_head = owner.heads.of
        self.write: Callable[[bytes], None]
        self.write_all: Callable[[tuple[bytes, ...]], None]

        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._unparsed_bytes = 0
        self._in_headers = True  # also before the first byte: a silent connection is one that trickles
        self._body_moved = False
        self._refused = False

        self._receiving: Exchange | None = None
        self._answering: Exchange | None = None
        self._ready: Exchange | None = None
        self._pipeline: deque[Exchange] = deque()
        self._linger_bytes = -1  # 0 or more: the body of an answered request is thrown away
        self._due = inf
        self._reading = True
        self._stopping = False
        self.choked = False
        self._drain: asyncio.Future[None] | None = None

    # ------------------------------------------------------------------------------------------------- the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.write = self._transport.write
        self.write_all = self._transport.writelines
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        if tls is not None:
            self.certificate = certificate_of(tls.getpeercert())
        self._due = self._loop.time() + HEADER_SECONDS
        self._owner.made(self)

    def connection_lost(self, _failure: Exception | None) -> None:
        self._owner.lost(self)
        self._due = inf
        for each in (self._answering, self._receiving, *self._pipeline):
            if each is not None:
                each.lost()
        self._pipeline.clear()
        self.resume_writing()
        # They refer back to this connection: in a cycle its buffers would wait for the collector, which seldom comes.
        self._parser = self._answering = self._receiving = None

    def eof_received(self) -> None:
        """What was asked before is still answered on the way out; the transport closes itself."""

    def pause_writing(self) -> None:
        self.choked = True

    def resume_writing(self) -> None:
        self.choked = False
        if self._drain is not None:
            self._drain.set_result(None)
            self._drain = None

    async def drained(self) -> None:
        while self.choked:
            if self._drain is None:
                self._drain = self._loop.create_future()
            await asyncio.shield(self._drain)

    def resume_reading(self) -> None:
        if not self._reading and not self._pipeline:
            self._reading = True
            self._transport.resume_reading()

    def _pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._transport.pause_reading()

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def stop(self) -> None:
        """Hang up as soon as what is asked is answered."""
        self._stopping = True
        if self._answering is None:
            self._transport.close()
        else:
            self._answering.keep_alive = False

    def tick(self, now: float) -> None:
        if now < self._due or self._transport.is_closing():
            return
        self._due = inf
        if self._in_headers and self._unparsed_bytes:
            self._refuse(408, f"the request's headers did not arrive within {HEADER_SECONDS:g} seconds")
        else:
            self._transport.close()

    # ------------------------------------------------------------------------------------------------------ requests

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._body_moved = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # the application answers the request as any other
        except httptools.HttpParserError:
            self._refuse(400, "the request is not valid HTTP/1.1")
        if self._ready is not None:
            # Not while parsing: mostly all of its body has come along.
            ready, self._ready = self._ready, None
            self._owner.begin(ready)
        if self._refused:
            return
        if self._in_headers:
            self._count(len(data))
            if self._unparsed_bytes == len(data) and not self._refused:
                self._due = self._loop.time() + HEADER_SECONDS
        elif self._body_moved:
            self._unparsed_bytes = 0
        else:  # what a chunked body may hold beside the body: extensions, and trailers, which the parser gathers
            self._count(len(data))

    def _count(self, unparsed: int) -> None:
        self._unparsed_bytes += unparsed
        if self._unparsed_bytes > HEADER_BYTES:
            self._refuse_headers()

    def on_message_begin(self) -> None:
        self._in_headers = True
        self._url = b""
        self._headers = []
        self._unparsed_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        # How many there are is judged when all are there: until then `_count` bounds the bytes that they come in.
        if self._in_headers:  # and not a trailer
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._body_moved = True
        headers: dict[bytes, bytes] = {}
        size = len(self._url)
        for name, value in self._headers:
            size += len(name) + len(value)
            name = name.lower()
            if name == b"host" and name in headers:
                self._refuse(400, "the request has more than one Host header")
            headers[name] = value
        if len(self._headers) > HEADER_COUNT or size > HEADER_BYTES:
            self._refuse_headers()
        if self._refused:
            return
        self._due = inf
        parser = self._parser
        path, query = _target(self._url)
        exchange = Exchange(
            self,
            parser.get_method().decode("ascii"),
            path,
            query,
            headers,
            not self._stopping and parser.should_keep_alive() and parser.get_http_version() != "1.0",
            b"expect" in headers and headers[b"expect"].lower() == b"100-continue",
        )
        self._receiving = exchange
        if self._answering is None:
            self._answering = self._ready = exchange
        else:
            self._pipeline.append(exchange)
            self._pause_reading()

    def on_body(self, body: bytes) -> None:
        self._body_moved = True
        receiving = self._receiving
        if self._refused or receiving is None:
            return
        if self._linger_bytes >= 0:
            self._linger_bytes -= len(body)
            if self._linger_bytes < 0:
                self._transport.close()
        elif receiving.arrived(body) > BODY_AHEAD_BYTES:
            self._pause_reading()

    def on_message_complete(self) -> None:
        self._body_moved = True
        receiving = self._receiving
        if self._refused or receiving is None:
            return
        receiving.completed()
        if self._linger_bytes >= 0:
            self._linger_bytes = -1
            self._due = self._loop.time() + IDLE_SECONDS

    def answered(self, exchange: Exchange) -> None:
        """The answer is written: go on with the next request."""
        self._answering = None
        if self._transport.is_closing():
            return
        if not exchange.keep_alive:
            self._transport.close()
            return
        if self._pipeline:
            self._answering = following = self._pipeline.popleft()
            self._loop.call_soon(self._owner.begin, following)  # not from here: a long line of them would nest
        elif exchange.complete:
            # The next request may have begun already, and its headers have their own time.
            self._due = self._loop.time() + (HEADER_SECONDS if self._in_headers else IDLE_SECONDS)
        else:
            # An answer may come before its body has: closing at once would make the client lose the answer too.
            self._linger_bytes = LINGER_BYTES
            self._due = self._loop.time() + LINGER_SECONDS
        if not self._reading:
            self.resume_reading()

    def _refuse_headers(self) -> None:
        self._refuse(
            431, f"the request's headers exceed the limit of {HEADER_COUNT} headers or {HEADER_BYTES} bytes together"
        )

    def _refuse(self, code: int, message: str) -> None:
        """Answer at once and hang up, or first answer what is asked already: it would take this for its own answer."""
        if self._refused:
            return
        self._refused = True
        self._due = inf
        if self._transport.is_closing():
            return
        answering = self._answering
        if answering is not None and answering.complete:
            answering.keep_alive = False
            return
        self._ready = None
        if self._linger_bytes < 0 and (answering is None or not answering.answered):
            body = status_body(code, _REASONS[code], message)
            head = self.common_head(code, b"application/json")
            self.write(b"%scontent-length: %d\r\nconnection: close\r\n\r\n%s" % (head, len(body), body))
        self._transport.close()


def _target(url: bytes) -> tuple[str, bytes]:
    """The decoded path, and the query as it came."""
    if url.startswith(b"/") and b"#" not in url:
        raw, _, query = url.partition(b"?")
    else:
        parsed = httptools.parse_url(url)  # a whole URL, as proxies are sent it
        raw, query = parsed.path or b"/", parsed.query or b""
    path = raw.decode("latin-1")
    return (unquote(path) if "%" in path else path), query


def certificate_of(peer: Any) -> Certificate | None:
    """From `SSLObject.getpeercert()`: CN is the user, each O a group (Kubernetes' convention)."""
    if not peer:
        return None
    fields = [pair for name in peer.get("subject", ()) for pair in name]
    user = next((value for field, value in fields if field == "commonName"), "")
    groups = tuple(value for field, value in fields if field == "organizationName")
    if not user:
        return None
    return Certificate(
        identity_of(user, groups),
        issue_time(int(peer["serialNumber"], 16)),
        float(ssl.cert_time_to_seconds(peer["notAfter"])),
    )
