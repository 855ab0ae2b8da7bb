"""One request on a connection, its body as it comes in and its answer as it goes out.

A whole answer is one write: over TLS each write is a record of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.apiserver.connection import Connection

AT_ONCE_BYTES = 16 * 1024  # of a TLS record: what is longer takes several anyway, and a copy costs more
BODY_AHEAD_BYTES = 64 * 1024  # of a body are read before anybody asks for it

STATUS_LINES = {status.value: b"HTTP/1.1 %d %s\r\n" % (status.value, status.phrase.encode()) for status in HTTPStatus}
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

Headers = Iterable[tuple[bytes, bytes]]


class Exchange:
    """`path` is decoded, `query` is not. `headers` by lower-case names, of several of one name the last.

    Everything here runs on the event loop.
    """

    __slots__ = (
        "_ahead",
        "_arrived",
        "_chunked",
        "_waiting",
        "answered",
        "complete",
        "connection",
        "disconnected",
        "ended",
        "expects_continue",
        "headers",
        "keep_alive",
        "method",
        "path",
        "query",
    )

    def __init__(
        self,
        connection: Connection,
        method: str,
        path: str,
        query: bytes,
        headers: Mapping[bytes, bytes],
        keep_alive: bool,
        expects_continue: bool,
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.keep_alive = keep_alive
        self.expects_continue = expects_continue
        self.complete = False  # the request's body is all there
        self.disconnected = False
        self.answered = False  # the answer has begun
        self.ended = False  # the answer is all written
        self.connection = connection
        self._arrived: list[bytes] = []
        self._ahead = 0  # bytes of these
        self._waiting: asyncio.Future[None] | None = None
        self._chunked = False

    # ---------------------------------------------------------------------------------------------- what comes in

    def arrived(self, piece: bytes) -> int:
        """A piece of the body. How many bytes of it nobody has taken yet."""
        self._arrived.append(piece)
        if self._waiting is not None:
            self._tell()
        self._ahead += len(piece)
        return self._ahead

    def completed(self) -> None:
        self.complete = True
        if self._waiting is not None:
            self._tell()

    def lost(self) -> None:
        self.disconnected = True
        self._tell()

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def whole_body(self, most: int) -> bytes | None:
        """The body if all of it is there already, as it mostly is, and no more than `most` bytes."""
        if not self.complete or self.disconnected:
            return None
        body = self._arrived[0] if len(self._arrived) == 1 else b"".join(self._arrived)
        return body if len(body) <= most else None

    async def more(self) -> bytes | None:
        """What came of the body since the last call, at least something, or None at its end or the client's."""
        if self.expects_continue and not self.answered:
            self.expects_continue = False
            self.connection.write(CONTINUE)
        while not self._arrived and not self.complete and not self.disconnected:
            self.connection.resume_reading()
            await self._told()
        if self._arrived and not self.disconnected:
            pieces = b"".join(self._arrived)
            self._forget()
            return pieces
        return None

    async def hangup(self) -> None:
        """Until the client is gone. A body that nobody asked for is thrown away."""
        while not self.disconnected:
            self._forget()
            self.connection.resume_reading()
            await self._told()

    def _forget(self) -> None:
        self._arrived.clear()
        self._ahead = 0

    async def _told(self) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        await self._waiting

    # ---------------------------------------------------------------------------------------------- what goes out

    def answer(self, code: int, content_type: bytes, body: bytes, headers: Headers = ()) -> None:
        """A whole answer."""
        if self.disconnected:
            return
        head = self._head(code, content_type, headers, b"content-length: %d\r\n" % len(body))
        if self.method == "HEAD":
            body = b""
        if len(body) <= AT_ONCE_BYTES:
            self.connection.write(head + body)
        else:
            self.connection.write_all((head, body))
        self._end()

    def begin_stream(self, content_type: bytes) -> None:
        self._chunked = self.method != "HEAD"
        if not self.disconnected:
            framing = b"transfer-encoding: chunked\r\n" if self._chunked else b""
            self.connection.write(self._head(200, content_type, (), framing))

    def write(self, piece: bytes) -> None:
        """A piece of a stream, not empty."""
        self.write_chunk(chunk_of(piece))

    def write_chunk(self, chunk: bytes) -> None:
        """A piece as `chunk_of` frames it: the same bytes for each stream that has it."""
        if self._chunked and not self.disconnected:
            self.connection.write(chunk)

    @property
    def keeps_up(self) -> bool:
        """The stream is open, and the client takes what was written."""
        return not (self.connection.choked or self.ended)

    def end_stream(self) -> None:
        if self.disconnected or self.ended:
            return
        if self._chunked:
            self.connection.write(b"0\r\n\r\n")
        self._end()

    @property
    def choked(self) -> bool:
        """The client does not take what was written: wait with `drained` before there is more."""
        return self.connection.choked and not self.disconnected

    async def drained(self) -> None:
        """Until the client takes more, or is gone."""
        await self.connection.drained()

    def cut(self) -> None:
        """Hang up, so that nobody takes half a stream for a whole one."""
        self.connection.close()

    def _head(self, code: int, content_type: bytes, headers: Headers, framing: bytes) -> bytes:
        self.answered = True
        more = b"".join([b"%s: %s\r\n" % (name, _line(value)) for name, value in headers]) if headers else b""
        closing = b"" if self.keep_alive else b"connection: close\r\n"
        return b"%s%s%s%s\r\n" % (self.connection.common_head(code, content_type), framing, more, closing)

    def _end(self) -> None:
        self.ended = True
        self.connection.answered(self)


def chunk_of(piece: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(piece), piece)


def _line(value: bytes) -> bytes:
    """A header's value; a line break in it would begin another header."""
    assert b"\r" not in value, value
    assert b"\n" not in value, value
    return value


class Heads:
    """The beginning of answers, the same for a second: status, date and content type."""

    def __init__(self, date: Callable[[], bytes]) -> None:
        self._date = date
        self._known: dict[tuple[int, bytes], bytes] = {}

    def tick(self) -> None:
        self._known.clear()

    def of(self, code: int, content_type: bytes) -> bytes:
        known = self._known.get((code, content_type))
        if known is None:
            known = b"%sdate: %s\r\ncontent-type: %s\r\n" % (STATUS_LINES[code], self._date(), content_type)
            self._known[code, content_type] = known
        return known
