"""How a person waits for a server: a while for a connection, once, and told early that nothing is heard of it."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from headrace.client.aiohttp_import import aiohttp

STREAM = "stream"
"""A stream's `trace_request_ctx`; that of a request is an event, set when there is a connection for it."""


@dataclass(frozen=True, slots=True)
class Patience:
    """`silent` is called for each request of which nothing was heard for `silent_seconds`.

    A server that refuses or resets connections is asked again for `silent_seconds`: it may be starting. A stopped
    server's kernel accepts connections, but nobody shakes hands: `connect_seconds` end that. An answer may take longer,
    for what was asked may be work, as long as somebody is there.
    """

    silent: Callable[[], None]
    silent_seconds: float
    connect_seconds: float


def watching(patience: Patience) -> aiohttp.TraceConfig:
    """Of a STREAM only the connection is waited for: it may have nothing to say."""

    async def begun(session: Any, at: SimpleNamespace, _: Any) -> None:
        at.timer = asyncio.get_running_loop().call_later(patience.silent_seconds, patience.silent)

    async def connected(session: Any, at: SimpleNamespace, _: Any) -> None:
        if at.trace_request_ctx == STREAM:
            at.timer.cancel()
        else:
            at.trace_request_ctx.set()

    async def ended(session: Any, at: SimpleNamespace, _: Any) -> None:
        at.timer.cancel()

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(begun)
    trace.on_connection_create_end.append(connected)
    trace.on_connection_reuseconn.append(connected)
    trace.on_request_end.append(ended)
    trace.on_request_exception.append(ended)
    return trace


@asynccontextmanager
async def while_there(server: str, patience: Patience | None, connected: asyncio.Event) -> AsyncIterator[None]:
    """Around a request: ends it when a new connection is refused (ConnectionError), or not made (TimeoutError).

    Nothing else shows that a server was stopped, or has gone without a word, after it took what was asked.
    """
    if patience is None:
        yield
        return
    ends: list[OSError] = []
    try:
        async with asyncio.timeout(None) as limit:
            asking = asyncio.create_task(_ask_for_end(server, patience, connected, ends, limit))
            try:
                yield
            finally:
                asking.cancel()
    except TimeoutError:
        if ends:
            raise ends[0] from None
        raise


async def _ask_for_end(
    server: str, patience: Patience, connected: asyncio.Event, ends: list[OSError], limit: asyncio.Timeout
) -> None:
    await connected.wait()
    while not ends:
        await asyncio.sleep(patience.silent_seconds)
        try:
            async with asyncio.timeout(patience.connect_seconds):
                await _connect(server)
        except TimeoutError:
            ends.append(TimeoutError(f"no answer, and no new connection within {patience.connect_seconds:g} s"))
        except ssl.SSLError:
            pass  # whoever disagrees is there
        except OSError as error:
            ends.append(error)
    limit.reschedule(asyncio.get_running_loop().time())


async def _connect(server: str) -> None:
    """Shakes hands and says nothing, so it does not matter with whom."""
    address = urlsplit(server)
    tls: ssl.SSLContext | None = None
    if address.scheme == "https":
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection(address.hostname, address.port or (443 if tls else 80), ssl=tls)
    writer.close()
