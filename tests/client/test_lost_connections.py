"""A kept connection that is lost under a request: what may have been done is not done again."""

import asyncio

import pytest

from headrace.client.errors import Unreachable
from headrace.client.http import Client
from headrace.client.kubeconfig import Cluster

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


@pytest.mark.parametrize(("method", "times"), [("DELETE", 1), ("PUT", 1), ("POST", 1), ("GET", 2)])
async def test_only_reads_are_repeated(method: str, times: int) -> None:
    """A DELETE that was done was sent again, and the answer was that there is nothing to delete."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (line := await reader.readline()) and await reader.readuntil(b"\r\n\r\n"):
            seen.append(line.split()[0])
            if len(seen) == 2:
                break  # the second request is read, and gets no answer
            writer.write(OK)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Client(Cluster(f"http://127.0.0.1:{port}"), jitter=lambda: 0.0) as client:
        await client.request("GET", "/first")
        if times == 1:
            with pytest.raises(Unreachable) as lost:
                await client.request(method, "/second")
            assert lost.value.sent
        else:
            await client.request(method, "/second")
    assert seen == [b"GET", *[method.encode()] * times]
