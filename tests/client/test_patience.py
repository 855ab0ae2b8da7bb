"""How a person waits for a server that is stopped: told early, asked once, and a stream is never cut."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from headrace.client import http
from headrace.client.errors import Unreachable
from headrace.client.http import Client
from headrace.client.kubeconfig import Cluster
from headrace.client.patience import Patience
from tests.node.eventually import eventually

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


class Person:
    """Hears that a server is silent."""

    def __init__(self) -> None:
        self.heard = 0

    def silent(self) -> None:
        self.heard += 1


class Stopped:
    """Takes connections, as a stopped server's kernel does, and answers nothing before it `goes_on`."""

    def __init__(self) -> None:
        self.connections = 0
        self.goes_on = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await self.goes_on.wait()
        try:
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
