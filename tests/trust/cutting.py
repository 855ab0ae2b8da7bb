"""A proxy that ends TLS on both sides and cuts the stream after any number of its plain bytes.

Between two TLS endpoints a cut always falls between records; here it falls where it is told to: in a line, in the size
of a chunk, in the headers. It also counts the connections, so that a test can tell that it did cut.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

from headrace.client.kubeconfig import Cluster

PIECE = 65536


class CuttingProxy:
    """`next_cut` is asked at each connection: after how many bytes of answers it is cut; None never cuts it."""

    def __init__(self, target_port: int, pki: Path, next_cut: Callable[[], int | None]) -> None:
        self._target, self._pki, self._next_cut = target_port, pki, next_cut
        self.cuts = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        """The port while the body runs."""
        inner = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        inner.load_cert_chain(self._pki / "server.crt", self._pki / "server.key")
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=inner)
        async with server:
            yield int(server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        outer = ssl.create_default_context(cafile=str(self._pki / "ca.crt"))
        outer.load_cert_chain(self._pki / "admin.crt", self._pki / "admin.key")
        with contextlib.suppress(OSError, ssl.SSLError):
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target, ssl=outer)
            asking = asyncio.create_task(_pump(reader, up_writer))
            try:
                await self._answer(up_reader, writer)
            finally:
                asking.cancel()
                for each in (writer, up_writer):
                    each.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self._next_cut()
        while piece := await reader.read(PIECE):
            if left is not None and len(piece) >= left:
                writer.write(piece[:left])
                await writer.drain()
                writer.close()  # after what was written; then nothing
                self.cuts += 1
                return
            writer.write(piece)
            await writer.drain()
            if left is not None:
                left -= len(piece)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, ssl.SSLError):
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()


def through(cluster: Cluster, port: int) -> Cluster:
    """The same server by way of the proxy."""
    return replace(cluster, server=f"https://127.0.0.1:{port}")
