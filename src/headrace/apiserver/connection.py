"""One HTTP/1.1 connection: uvicorn's httptools protocol with limits on headers and time, and the caller's certificate.

uvicorn has no limit on headers, takes two Host headers and waits for a trickling request for ever; all three end here.
"""

import asyncio
import ssl
from typing import Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from headrace.api.limits import BODY_BYTES, HEADER_BYTES, HEADER_COUNT, HEADER_SECONDS
from headrace.apiserver.identity import Certificate, identity_of, issue_time
from headrace.apiserver.statuses import status_body

ONE_WRITE_BYTES = 16 * 1024  # of a TLS record: what is longer takes several anyway, and a copy costs more
LINGER_SECONDS = 5.0  # how long, and how much, of a body is read and thrown away after its answer
LINGER_BYTES = 4 * BODY_BYTES

_PHRASES = {400: b"400 Bad Request", 408: b"408 Request Timeout", 431: b"431 Request Header Fields Too Large"}
_REASONS = {400: "BadRequest", 408: "Timeout", 431: "RequestHeaderFieldsTooLarge"}


class OneWrite:
    """The transport, holding an answer's head back for its body: over TLS two writes cost two records."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""
        self.get_extra_info = transport.get_extra_info
        self.is_closing = transport.is_closing
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading

    def write(self, data: bytes) -> None:
        if self._head and len(data) <= ONE_WRITE_BYTES:
            self._transport.write(self._head + data)
            self._head = b""
        elif self._head:
            self._flush()
            self._transport.write(data)
        elif data.startswith(b"HTTP/1.1 ") and data.endswith(b"\r\n\r\n"):
            self._head = data
            self._loop.call_soon(self._flush)  # a stream's head does not wait for its first piece
        else:
            self._transport.write(data)

    def _flush(self) -> None:
        if self._head:
            self._transport.write(self._head)
            self._head = b""

    def close(self) -> None:
        self._flush()
        self._transport.close()


class Connection(HttpToolsProtocol):
    """Adds to `scope["state"]` `certificate`, a `Certificate` or None where the client showed none, and the `cycle`,
    which holds the body: mostly all of it is there before anybody asks."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.certificate: Certificate | None = None
        self.in_headers = True  # also before the first byte: a silent connection is one that trickles
        self.header_bytes = 0
        self.unparsed_bytes = 0
        self.hosts = 0
        self.refused = False
        self.header_timer: asyncio.TimerHandle | None = None
        self.linger_timer: asyncio.TimerHandle | None = None
        self.linger_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, OneWrite(transport, self.loop)))
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        if tls is not None:
            self.certificate = certificate_of(tls.getpeercert())
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._stop_lingering()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.refused:
            return
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # the application answers the request as any other
        except httptools.HttpParserError:
            self._refuse(400, "the request is not valid HTTP/1.1")
            return
        if self.refused:
            return
        if self.in_headers:
            self.unparsed_bytes += len(data)
            if self.unparsed_bytes > HEADER_BYTES:
                self._refuse_headers()
            elif self.header_timer is None:
                self._arm()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.in_headers = True
        self.header_bytes = self.unparsed_bytes = self.hosts = 0
        self.scope["state"]["certificate"] = self.certificate

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self.header_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.header_bytes += len(name) + len(value)
        if len(self.headers) >= HEADER_COUNT or self.header_bytes > HEADER_BYTES:
            self._refuse_headers()
            return
        super().on_header(name, value)
        if self.headers[-1][0] == b"host":
            self.hosts += 1

    def on_headers_complete(self) -> None:
        self._disarm()
        self.in_headers = False
        if self.refused:
            return
        if self.hosts > 1:
            self._refuse(400, "the request has more than one Host header")
            return
        super().on_headers_complete()
        self.scope["state"]["cycle"] = self.cycle

    def on_body(self, body: bytes) -> None:
        if self.refused:
            return
        if self.linger_timer is not None:
            self.linger_bytes -= len(body)
            if self.linger_bytes < 0:
                self.transport.close()
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.refused:
            return
        if self.linger_timer is not None:
            self._stop_lingering()
            self.cycle.more_body = False
            return
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer may come before its body has: closing at once would make the client lose the answer too."""
        super().on_response_complete()
        if self.cycle.more_body and not self.transport.is_closing():
            self._unset_keepalive_if_required()
            self.linger_bytes = LINGER_BYTES
            self.linger_timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _stop_lingering(self) -> None:
        if self.linger_timer is not None:
            self.linger_timer.cancel()
            self.linger_timer = None

    def _should_upgrade(self) -> bool:
        return False

    def _arm(self) -> None:
        self._disarm()
        self.header_timer = self.loop.call_later(HEADER_SECONDS, self._too_slow)

    def _disarm(self) -> None:
        if self.header_timer is not None:
            self.header_timer.cancel()
            self.header_timer = None

    def _too_slow(self) -> None:
        self.header_timer = None
        if self.transport.is_closing():
            return
        if self.unparsed_bytes == 0:
            self.transport.close()
        else:
            self._refuse(408, f"the request's headers did not arrive within {HEADER_SECONDS:g} seconds")

    def _refuse_headers(self) -> None:
        self._refuse(
            431, f"the request's headers exceed the limit of {HEADER_COUNT} headers or {HEADER_BYTES} bytes together"
        )

    def _refuse(self, code: int, message: str) -> None:
        """Answer at once and hang up; a request that runs on this connection loses its answer, as on any disconnect."""
        if self.refused:
            return
        self.refused = True
        self._disarm()
        if self.transport.is_closing():
            return
        body = status_body(code, _REASONS[code], message)
        self.transport.write(
            b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"
            % (_PHRASES[code], len(body), body)
        )
        self.transport.close()


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
