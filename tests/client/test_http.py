"""When a request is sent again, and when never: against a server that answers as it is told."""

import asyncio
import dataclasses
import itertools
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import pytest

from headrace.api.kinds import POD
from headrace.client import http
from headrace.client.errors import ApiError, Unreachable
from headrace.client.exec_plugin import Credential
from headrace.client.http import Client
from headrace.client.kubeconfig import Cluster
from headrace.store.kubernetes import KubernetesStore
from headrace.store.protocol import Unavailable

DROP = ""


class Scripted:
    """Answers each request with the next line of a script; DROP closes the connection without an answer."""

    def __init__(self) -> None:
        self.script: list[str] = []
        self.seen: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = [line[16:] for line in head.split("\r\n") if line.lower().startswith("content-length: ")]
                await reader.readexactly(int(length[0]) if length else 0)
                self.seen.append(head.split()[0])
                answer = self.script.pop(0)
                if answer == DROP:
                    return
                writer.write(answer.encode())
        except asyncio.IncompleteReadError:
            return
        finally:
            writer.close()


def answer(code: int, body: str = "{}", **headers: str) -> str:
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {code} X\r\ncontent-length: {len(body)}\r\ncontent-type: application/json\r\n{more}\r\n{body}"


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "FIRST_DELAY_SECONDS", 0.001)


@pytest.fixture
async def server() -> AsyncIterator[tuple[Scripted, Client]]:
    scripted = Scripted()
    listening = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with Client(Cluster(f"http://127.0.0.1:{port}"), jitter=lambda: 0.0) as client:
        yield scripted, client
    listening.close()


@pytest.mark.parametrize(
    ("method", "first", "times"),
    [
        pytest.param("GET", answer(503), 2, id="a read that the server could not answer"),
        pytest.param("GET", DROP, 2, id="a read whose line broke"),
        pytest.param("POST", answer(429, retry_after="0"), 2, id="a write that was refused for want of room"),
        pytest.param("POST", answer(503), 1, id="a write that may have happened"),
        pytest.param("POST", DROP, 1, id="a write whose answer was lost"),
        pytest.param("PATCH", DROP, 1, id="a patch whose answer was lost"),
        pytest.param("GET", answer(404), 1, id="a read of what is not there"),
        pytest.param("GET", answer(301, location="http://127.0.0.1:1/"), 1, id="a redirect is not followed"),
    ],
)
async def test_a_request_is_sent(server: tuple[Scripted, Client], method: str, first: str, times: int) -> None:
    scripted, client = server
    scripted.script = [first, answer(200, '{"ok": true}')]
    if times == 2:
        assert await client.request(method, "/x", body={}) == {"ok": True}
    else:
        with pytest.raises((ApiError, Unreachable)):
            await client.request(method, "/x", body={})
    assert len(scripted.seen) == times


async def test_tries_are_bounded(server: tuple[Scripted, Client]) -> None:
    scripted, client = server
    scripted.script = [answer(503)] * 100
    with pytest.raises(ApiError):
        await client.request("GET", "/x")
    assert len(scripted.seen) == http.TRIES


async def test_a_server_that_is_not_there_is_told_in_the_words_of_the_system() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with Client(Cluster(url)) as client:
            with pytest.raises(Unreachable) as away:
                await client.request("GET", "/x")
    assert str(away.value) == f"{url}: Connection refused"


async def test_an_answer_that_is_no_status_is_still_told(server: tuple[Scripted, Client]) -> None:
    scripted, client = server
    scripted.script = [answer(400, "<html>proxy says no</html>")]
    with pytest.raises(ApiError, match="HTTP status 400: <html>proxy says no"):
        await client.request("GET", "/x")


def chunked(*pieces: str, end: bool = True) -> str:
    body = "".join(f"{len(piece):x}\r\n{piece}\r\n" for piece in pieces)
    return f"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{body}" + ("0\r\n\r\n" if end else "")


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(('{"n": 1}\n', '{"n": 2}\n'), id="a piece a document"),
        pytest.param(('{"n": 1}\n{"n": 2}\n',), id="several in a piece"),
        pytest.param(('{"n"', ": 1}\n{", '"n": 2}', "\n"), id="cut anywhere"),
    ],
)
async def test_documents_are_put_together_from_pieces(server: tuple[Scripted, Client], pieces: tuple[str, ...]) -> None:
    scripted, client = server
    scripted.script = [chunked(*pieces)]
    assert [document async for document in client.documents("/x")] == [{"n": 1}, {"n": 2}]


async def test_a_long_line_is_no_trouble(server: tuple[Scripted, Client]) -> None:
    scripted, client = server
    text = "x" * 1_400_000
    scripted.script = [chunked('{"n": "', text, '"}\n')]
    assert [document async for document in client.documents("/x")] == [{"n": text}]


async def test_a_stream_that_breaks_or_falls_silent_is_unreachable(server: tuple[Scripted, Client]) -> None:
    scripted, client = server
    scripted.script = [chunked('{"n": 1}\n', end=False), DROP]
    seen = []

    async def read(next_one: Callable[[int], None]) -> None:
        async with aclosing(client.documents("/x", silence_seconds=0.05)) as documents:
            async for document in documents:
                next_one(document["n"])

    with pytest.raises(Unreachable):
        await read(seen.append)
    assert seen == [1]


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("<html>log in first</html>", id="a page for people"),
        pytest.param('{"items": ', id="half an answer"),
    ],
)
async def test_what_is_no_json_is_no_answer(server: tuple[Scripted, Client], said: str) -> None:
    """A proxy may answer in the server's place; whoever watches goes on trying."""
    scripted, client = server
    scripted.script = [answer(200, said), chunked(said + "\n")]
    with pytest.raises(Unreachable, match="the answer is no JSON"):
        await client.request("GET", "/x")
    with pytest.raises(Unreachable, match="the answer is no JSON"):
        [document async for document in client.documents("/x")]


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("[]", id="a list"),
        pytest.param("{}", id="an event of no type"),
        pytest.param('{"type": "ADDED"}', id="an event of nothing"),
        pytest.param('{"type": "ADDED", "object": {"metadata": "web"}}', id="an object without metadata"),
        pytest.param('{"items": [null]}', id="a list of nothing"),
    ],
)
async def test_an_answer_that_is_no_object_counts_as_none(server: tuple[Scripted, Client], said: str) -> None:
    scripted, client = server
    store = KubernetesStore(client)
    scripted.script = [chunked(said + "\n"), answer(200, said if "items" in said else "[]")]
    with pytest.raises(Unavailable):
        [event async for event in store.watch(POD, since="1")]
    with pytest.raises(Unavailable):
        await store.list(POD)


async def test_sessions_of_certificates_that_were_renewed_are_closed_once_nothing_runs_on_them(
    server: tuple[Scripted, Client],
) -> None:
    """An exec plug-in may hand out a new client certificate every few minutes, for as long as an agent runs."""
    scripted, client = server
    numbers = itertools.count()
    renewing = dataclasses.replace(
        client.cluster, good_until=0.0, renew=lambda: Credential("", f"CERT {next(numbers)}", "", 0.0)
    )
    scripted.script = [chunked('{"n": 1}\n', end=False)] + [answer(200)] * 5
    async with Client(renewing) as other:
        async with aclosing(other.documents("/watch")) as watch:
            await anext(watch)
            for _ in range(5):
                await other.request("GET", "/x")
            assert len(other._before) == 1  # the stream's
        assert not other._before
