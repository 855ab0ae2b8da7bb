"""How a person waits for a server: a while for a connection, once, and told early that nothing is heard of it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from headrace.client.aiohttp_import import aiohttp

STREAM = "stream"
"""A request's `trace_request_ctx`."""


@dataclass(frozen=True, slots=True)
class Patience:
    """`silent` is called for each request of which nothing was heard for `silent_seconds`.

    A stopped server's kernel accepts connections, but nobody shakes hands: `connect_seconds` end that. An answer may
    take longer, for what was asked may be work.
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

    async def ended(session: Any, at: SimpleNamespace, _: Any) -> None:
        at.timer.cancel()

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(begun)
    trace.on_connection_create_end.append(connected)
    trace.on_connection_reuseconn.append(connected)
    trace.on_request_end.append(ended)
    trace.on_request_exception.append(ended)
    return trace
