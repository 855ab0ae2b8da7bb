"""How a person waits for a server that is stopped or gone: told early, asked once, and a stream is never cut."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from headrace.client import http
from headrace.client.errors import Unreachable
from headrace.client.http import Client
from headrace.client.kubeconfig import Cluster
from headrace.client.patience import Patience, while_there
from tests.node.eventually import eventually

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


class Person:
    """Hears that a server is silent."""

    def __init__(self) -> None:
        self.heard = 0

    def silent(self) -> None:
        self.heard += 1


class Stopped:
    """Takes connections, as a stopped server's kernel does, and answers nothing before it `goes_on`.

    Of `connections` those count on which something was said.
    """

    def __init__(self) -> None:
        self.connections = 0
        self.goes_on = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readexactly(1)
            self.connections += 1
            await self.goes_on.wait()
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(OK)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def stopped(scheme: str, connect_seconds: float = 30.0) -> AsyncIterator[tuple[Stopped, Client, Person]]:
    server, person = Stopped(), Person()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    cluster = Cluster(f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}", skip_verification=True)
    async with Client(cluster, patience=Patience(person.silent, 0.02, connect_seconds)) as client:
        yield server, client, person
    server.goes_on.set()
    listening.close()


async def read(client: Client) -> list[bytes]:
    async with aclosing(client.stream("/log")) as pieces:
        return [piece async for piece in pieces]


@pytest.mark.parametrize("way", ["request", "stream"])
async def test_a_connection_is_waited_for_once_and_its_silence_is_told(way: str) -> None:
    """`headrace get pods` of a stopped server took 56 seconds: five times as long, without a word."""
    async with stopped("https", connect_seconds=0.2) as (server, client, person):
        with pytest.raises(Unreachable, match=r"https://127\.0\.0\.1:\d+: no connection within 0\.2 s") as failed:
            await (client.request("GET", "/x") if way == "request" else read(client))
        assert not failed.value.sent
        assert (server.connections, person.heard) == (1, 1)


async def test_an_answer_is_waited_for_once_and_told_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "ANSWER_SECONDS", 1.0)
    async with stopped("http") as (server, client, person):
        with pytest.raises(Unreachable, match=r"no answer within 1 s") as failed:
            await client.request("GET", "/x")
        assert failed.value.sent
        assert (server.connections, person.heard) == (1, 1)


async def test_a_server_that_goes_on_is_heard() -> None:
    async with stopped("http") as (server, client, person):
        asked = asyncio.create_task(client.request("GET", "/x"))
        await eventually(lambda: person.heard)
        server.goes_on.set()
        assert await asked == {}
        assert await client.request("GET", "/x") == {}
        assert server.connections == 1


async def test_a_stream_that_has_nothing_to_say_is_no_silence() -> None:
    """Of a container that writes nothing `logs --follow` has no first line."""
    async with stopped("http") as (server, client, person):
        following = asyncio.create_task(read(client))
        await eventually(lambda: server.connections)
        asked = asyncio.create_task(client.request("GET", "/x"))
        await eventually(lambda: person.heard)  # of the request: the stream began before it
        assert person.heard == 1
        server.goes_on.set()
        assert await following == [b"{}"]
        assert await asked == {}


class Flaky:
    """Cuts a connection as soon as something is said on it, `cuts` times; then it answers."""

    def __init__(self, cuts: float) -> None:
        self.asked, self.cuts = 0, cuts

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.asked += 1
                if self.asked <= self.cuts:
                    writer.transport.abort()
                    return
                writer.write(OK)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def flaky(cuts: float, silent_seconds: float) -> AsyncIterator[tuple[Flaky, Client]]:
    server = Flaky(cuts)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    cluster = Cluster(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}")
    async with Client(cluster, patience=Patience(lambda: None, silent_seconds, 30.0)) as client:
        yield server, client
    listening.close()


async def test_a_read_whose_connection_is_cut_is_asked_again() -> None:
    async with flaky(cuts=7, silent_seconds=60.0) as (server, client):
        assert await client.request("GET", "/x") == {}
        assert server.asked == 8


async def test_a_read_is_given_up_when_connections_have_been_cut_for_a_while() -> None:
    async with flaky(cuts=float("inf"), silent_seconds=0.5) as (server, client), asyncio.timeout(60):
        with pytest.raises(Unreachable):
            await client.request("GET", "/x")
        assert server.asked > 1


async def test_a_write_that_was_sent_is_never_asked_again() -> None:
    async with flaky(cuts=1, silent_seconds=60.0) as (server, client):
        with pytest.raises(Unreachable) as failed:
            await client.request("POST", "/x", body={})
        assert failed.value.sent
        assert server.asked == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_server_that_goes_without_a_word_while_it_is_waited_for_is_told_soon(method: str) -> None:
    """`headrace get pods` waited for the whole minute: its connection was open, and new ones were refused."""
    server = Stopped()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    cluster = Cluster(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}")
    async with Client(cluster, patience=Patience(lambda: None, 0.1, 30.0)) as client, asyncio.timeout(30):
        asked = asyncio.create_task(client.request(method, "/x"))
        await eventually(lambda: server.connections)
        listening.close()
        with pytest.raises(Unreachable, match=r"Connect call failed|Connection refused"):
            await asked
    assert server.connections == 1
    server.goes_on.set()


async def test_a_server_that_is_stopped_while_it_is_waited_for_is_told_after_one_try_of_a_connection() -> None:
    server, connected = Stopped(), asyncio.Event()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    connected.set()
    with pytest.raises(TimeoutError, match=r"no answer, and no new connection within 0\.2 s"):
        async with asyncio.timeout(30), while_there(url, Patience(lambda: None, 0.02, 0.2), connected):
            await asyncio.Event().wait()
    assert server.connections == 1
    server.goes_on.set()
    listening.close()


async def test_nothing_is_tried_before_there_is_a_connection_and_what_ends_by_itself_is_not_changed() -> None:
    async with while_there("http://127.0.0.1:1", Patience(lambda: None, 0.0, 1.0), asyncio.Event()):
        for _ in range(10):
            await asyncio.sleep(0)
    with pytest.raises(TimeoutError, match="of its own"):
        async with while_there("http://127.0.0.1:1", Patience(lambda: None, 0.0, 1.0), asyncio.Event()):
            raise TimeoutError("of its own")
