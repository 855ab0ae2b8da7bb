"""What one TLS connection takes: whose certificate counts, how long and how large a request may be."""

import asyncio
import gc
import json
import ssl
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest

from headrace.api.limits import BODY_BYTES, HEADER_BYTES, HEADER_COUNT
from headrace.apiserver import bodies, connection, lanes, pki
from headrace.apiserver import listener as api
from headrace.apiserver.exchange import Exchange, Heads
from headrace.apiserver.identity import identity_of
from tests.apiserver.joined import stranger
from tests.apiserver.serving import Serving, serving

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def opened(server: Serving, tls: ssl.SSLContext | None = None) -> AsyncIterator[Streams]:
    context = tls or server.cluster().tls()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.running.port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.close()


async def answer(streams: Streams, request: bytes) -> tuple[int, dict[str, object]]:
    """The status and the JSON body of one answer."""
    reader, writer = streams
    writer.write(request)
    async with asyncio.timeout(10):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(
            next((line for line in head.split("\r\n") if line.lower().startswith("content-length")), "0")[15:] or 0
        )
        body = await reader.readexactly(length)
    return int(head.split()[1]), json.loads(body) if body.startswith(b"{") else {"text": body.decode()}


async def ended(streams: Streams) -> bool:
    async with asyncio.timeout(10):
        return await streams[0].read() == b""


GET = b"GET /api/v1/namespaces HTTP/1.1\r\nhost: x\r\n"


async def test_a_certificate_of_our_authority_names_the_caller(server: Serving) -> None:
    async with opened(server) as streams:
        code, listing = await answer(streams, GET + b"\r\n")
        assert (code, listing["kind"]) == (200, "NamespaceList")
        assert (await answer(streams, GET + b"\r\n"))[0] == 200, "the connection is kept"


async def test_without_a_certificate_only_the_open_door_is_open(server: Serving) -> None:
    async with opened(server, stranger(server).tls()) as streams:
        assert (await answer(streams, GET + b"\r\n")) == (
            401,
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": "Unauthorized",
                "reason": "Unauthorized",
                "details": {"kind": "namespaces"},
                "code": 401,
            },
        )
        for path in (b"/healthz", b"/livez", b"/readyz", b"/version", b"/cacerts"):
            code, _ = await answer(streams, b"GET %s HTTP/1.1\r\nhost: x\r\n\r\n" % path)
            assert code == 200, path
        for path in (b"/metrics", b"/api", b"/openapi/v3", b"/secret", b"/api/v1/secrets"):
            code, _ = await answer(streams, b"GET %s HTTP/1.1\r\nhost: x\r\n\r\n" % path)
            assert code == 401, path


async def test_a_certificate_of_another_authority_is_worth_nothing(server: Serving, tmp_path: Path) -> None:
    other = pki.ensure(tmp_path / "other", server.now())
    context = stranger(server).tls()
    context.load_cert_chain(other.certificate("admin"), other.key("admin"))
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        async with opened(server, context) as streams:
            await answer(streams, GET + b"\r\n")


def test_what_a_certificate_says_is_read_as_kubernetes_reads_it() -> None:
    peer = {
        "subject": ((("organizationName", "system:masters"),), (("organizationName", "b"),), (("commonName", "ann"),)),
        "serialNumber": f"{(1_700_000_000_500 << 80) + 7:X}",
        "notBefore": "Nov 29 17:46:07 2026 GMT",
        "notAfter": "Nov 29 17:46:07 2027 GMT",
    }
    found = connection.certificate_of(peer)
    assert found is not None
    assert found.identity == identity_of("ann", ("system:masters", "b"))
    assert (found.issued, found.not_after) == (1_700_000_000.5, 1_827_510_367.0)
    assert connection.certificate_of({}) is None


@pytest.mark.parametrize(
    ("request_bytes", "code"),
    [
        pytest.param(GET + b"a: b\r\n" * HEADER_COUNT + b"\r\n", 431, id="more headers than the limit"),
        pytest.param(GET + b"a: " + b"b" * HEADER_BYTES + b"\r\n\r\n", 431, id="a header longer than the limit"),
        pytest.param(GET + b"a: " + b"b" * (2 * HEADER_BYTES), 431, id="a header that does not end"),
        pytest.param(GET + b"host: y\r\n\r\n", 400, id="two Host headers"),
        pytest.param(b"nonsense\r\n\r\n", 400, id="what is no HTTP"),
        pytest.param(
            b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
            400,
            id="two lengths of one body",
        ),
    ],
)
async def test_a_request_beyond_the_limits_is_refused_and_the_line_closed(
    server: Serving, request_bytes: bytes, code: int
) -> None:
    async with opened(server) as streams:
        found, status = await answer(streams, request_bytes)
        assert (found, status["kind"], status["code"]) == (code, "Status", code)
        assert await ended(streams)


POST = b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(POST + b"content-length: %d\r\n\r\n" % (BODY_BYTES + 1), id="a declared length too large"),
        pytest.param(
            POST + b"transfer-encoding: chunked\r\n\r\n" + b"100000\r\n%s\r\n" % (b" " * 0x100000) * 4,
            id="chunks without an end",
        ),
    ],
)
async def test_a_body_beyond_the_limit_is_refused(server: Serving, request_bytes: bytes) -> None:
    async with opened(server) as streams:
        found, status = await answer(streams, request_bytes)
        assert (found, status["message"]) == (413, f"Request entity too large: limit is {BODY_BYTES} bytes")


async def test_a_trailer_changes_no_header(server: Serving) -> None:
    body = b'{"metadata":{"name":"with-trailer"}}'
    chunks = b"%x\r\n%s\r\n0\r\ncontent-type: application/yaml\r\nhost: y\r\n\r\n" % (len(body), body)
    async with opened(server) as streams:
        code, made = await answer(streams, POST + b"transfer-encoding: chunked\r\n\r\n" + chunks)
        assert (code, made["metadata"]["name"]) == (201, "with-trailer")
        assert (await answer(streams, GET + b"\r\n"))[0] == 200, "the connection is kept"


@pytest.mark.parametrize("beginning", [pytest.param(b"0\r\na: ", id="trailer"), pytest.param(b"5;a=", id="extension")])
async def test_what_a_chunked_body_holds_beside_the_body_is_limited_too(server: Serving, beginning: bytes) -> None:
    """A stranger's trailer without an end was gathered in memory for as long as it came."""
    async with opened(server) as (reader, writer):
        writer.write(POST + b"transfer-encoding: chunked\r\n\r\n" + beginning)
        told = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))
        sent = 0
        while not told.done() and sent < 20 * HEADER_BYTES:
            writer.write(b"b" * 4096)
            sent += 4096
            await asyncio.wait({told}, timeout=0.01)
        assert (await told).startswith(b"HTTP/1.1 431 ")


async def test_a_line_goes_on_when_a_refused_body_has_been_sent(server: Serving) -> None:
    async with opened(server) as streams:
        body = b" " * (BODY_BYTES + 1)
        found, _ = await answer(streams, POST + b"content-length: %d\r\n\r\n" % len(body) + body)
        assert found == 413
        assert (await answer(streams, GET + b"\r\n"))[0] == 200


async def test_headers_that_trickle_are_timed_out(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEADER_SECONDS", 0.05)
    async with opened(server) as streams:
        found, status = await answer(streams, b"GET / HTTP/1.1\r\nhost: x\r\n")
        assert (found, status["reason"]) == (408, "Timeout")
        assert await ended(streams)
    async with opened(server) as streams:
        assert await ended(streams), "a line on which nothing is said"


async def test_headers_that_trickle_after_another_request_are_timed_out_too(
    server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEADER_SECONDS", 0.05)
    async with opened(server) as streams:
        assert (await answer(streams, GET + b"\r\n" + b"GET / HTTP/1.1\r\n"))[0] == 200
        assert (await answer(streams, b""))[0] == 408
        assert await ended(streams)


async def test_a_body_that_stops_coming_is_timed_out(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_IDLE_SECONDS", 0.05)
    monkeypatch.setattr(connection, "LINGER_SECONDS", 0.05)
    async with opened(server) as streams:
        found, status = await answer(streams, POST + b'content-length: 100\r\n\r\n{"half": ')
        assert (found, status["reason"]) == (408, "Timeout")
        assert await ended(streams)


async def test_bodies_that_trickle_take_no_place_from_others(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lanes._LIMITS, "writes", 1)
    body = b'{"metadata": {"name": "quick"}}'
    async with opened(server) as slow, opened(server) as quick:
        slow[1].write(POST + b'content-length: 100\r\n\r\n{"half": ')
        await slow[1].drain()
        assert (await answer(quick, GET + b"\r\n"))[0] == 200, "the slow one has been seen by now"
        assert (await answer(quick, POST + b"content-length: %d\r\n\r\n" % len(body) + body))[0] == 201


async def test_a_stranger_may_send_little(server: Serving) -> None:
    join = b"POST /headrace/v1alpha1/join HTTP/1.1\r\nhost: x\r\ncontent-length: 70000\r\n\r\n"
    async with opened(server, stranger(server).tls()) as streams:
        assert (await answer(streams, join))[0] == 413


async def test_an_answer_before_the_body_ends_the_line_after_a_while(
    server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LINGER_SECONDS", 0.05)
    async with opened(server, stranger(server).tls()) as streams:
        found, _ = await answer(streams, POST + b"content-length: 100\r\n\r\n{")
        assert found == 401
        assert await ended(streams)


async def test_an_upgrade_gets_an_answer_in_words(server: Serving) -> None:
    upgrade = (
        b"GET /api/v1/namespaces/default/pods/web/exec?command=sh HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\n"
        b"upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    async with opened(server) as streams:
        found, status = await answer(streams, upgrade)
        assert (found, status["message"]) == (501, "exec of pods is not served yet")
    async with opened(server, server.cluster("viewer").tls()) as streams:
        found, status = await answer(streams, upgrade)
        assert found == 403
        assert 'cannot create resource "pods/exec"' in str(status["message"])


async def test_a_fault_of_ours_is_a_status_too(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> bytes:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(type(server.store), "get_body", broken)
    async with opened(server) as streams:
        found, status = await answer(streams, b"GET /api/v1/namespaces/default HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (found, status["reason"]) == (500, "InternalError")
        assert "secret detail" not in str(status)


async def test_requests_that_follow_each_other_closely_are_answered_in_order(server: Serving) -> None:
    async with opened(server) as streams:
        streams[1].write(GET + b"\r\n" + b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await answer(streams, b""))[1]["kind"] == "NamespaceList"
        assert "gitVersion" in (await answer(streams, b""))[1]


MAKE = b'content-length: 32\r\n\r\n{"metadata": {"name": "before"}}'


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(b"nonsense\r\n\r\n", id="what is no HTTP"),
        pytest.param(GET + b"host: y\r\n\r\n", id="a request with two Host headers"),
        pytest.param(GET + b"a: b\r\n" * HEADER_COUNT + b"\r\n", id="a request with too many headers"),
    ],
)
async def test_what_follows_a_request_and_is_refused_takes_no_answer_from_it(server: Serving, after: bytes) -> None:
    """The refusal came first, and was taken for the answer to the write, which had been done."""
    async with opened(server) as streams:
        code, made = await answer(streams, POST + MAKE + after)
        assert (code, made["metadata"]["name"]) == (201, "before")
        assert await ended(streams)


async def test_a_watch_is_told_no_refusal_of_what_follows_it(server: Serving) -> None:
    async with opened(server) as (reader, writer):
        writer.write(GET.replace(b"namespaces ", b"namespaces?watch=1&timeoutSeconds=1 ") + b"\r\n")
        async with asyncio.timeout(10):
            await reader.readuntil(b"ADDED")
            writer.write(b"nonsense\r\n\r\n")
            rest = await reader.read()
        assert b"HTTP/1.1" not in rest
        assert rest.endswith(b"\r\n0\r\n\r\n")


async def test_a_body_in_very_many_pieces_is_counted_piece_by_piece() -> None:
    """A quarter of a megabyte of chunks of one byte, from anybody, held the loop for twelve seconds."""
    looked = 0

    class Piece(bytes):
        def __len__(self) -> int:
            nonlocal looked
            looked += 1
            return super().__len__()

    exchange = Exchange(Mock(), "POST", "/", b"", {}, True, False)
    assert [exchange.arrived(Piece(b"ab")) for _ in range(100)] == list(range(2, 202, 2))
    assert looked == 100
    assert await exchange.more() == b"ab" * 100
    assert exchange.arrived(b"abc") == 3


async def test_a_body_that_comes_in_pieces_is_read_whole(server: Serving) -> None:
    body = b'{"metadata": {"name": "pieces"}}'
    async with opened(server) as streams:
        streams[1].write(POST + b"transfer-encoding: chunked\r\n\r\n")
        for at in range(0, len(body), 8):
            await streams[1].drain()
            streams[1].write(b"%x\r\n%s\r\n" % (len(body[at : at + 8]), body[at : at + 8]))
        found, made = await answer(streams, b"0\r\n\r\n")
        assert (found, made["metadata"]["name"]) == (201, "pieces")
        found, _ = await answer(streams, POST + b"expect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(body))
        assert found == 100


async def test_a_whole_url_and_an_old_version_are_understood(server: Serving) -> None:
    async with opened(server) as streams:
        code, listing = await answer(streams, b"GET https://x/api/v1/namespaces?limit=1 HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (code, len(listing["items"])) == (200, 1)
        code, _ = await answer(streams, b"GET /api/v1/namespaces/def%61ult HTTP/1.0\r\nhost: x\r\n\r\n")
        assert code == 200
        assert await ended(streams), "HTTP/1.0 keeps no line"


async def test_a_line_that_is_over_is_forgotten_at_once() -> None:
    """The collector comes seldom, and what a line holds of OpenSSL's buffers is large."""

    class Owner:
        heads = Heads(lambda: b"now")

        def made(self, _: connection.Connection) -> None: ...
        def lost(self, _: connection.Connection) -> None: ...
        def begin(self, exchange: Exchange) -> None:
            exchange.answer(200, b"text/plain", b"ok")

    line = connection.Connection(Owner())
    line.connection_made(Mock(get_extra_info=lambda _: None, is_closing=lambda: False))
    line.data_received(GET + b"\r\n")
    line.connection_lost(None)
    alive = weakref.ref(line)
    gc.disable()
    try:
        del line
        assert alive() is None
    finally:
        gc.enable()


async def test_a_handshake_that_does_not_begin_is_timed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "HANDSHAKE_SECONDS", 0.05)
    async with serving(tmp_path) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.running.port)
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()
