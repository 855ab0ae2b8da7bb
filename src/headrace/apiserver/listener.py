"""The listening socket and its connections: requests become tasks, the clock ticks for all, and a stop ends nothing
halfway.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Coroutine, Generator
from email.utils import formatdate
from types import coroutine
from typing import Any

from headrace.apiserver.connection import Connection
from headrace.apiserver.exchange import Exchange, Heads

HANDSHAKE_SECONDS = 10.0
STOP_SECONDS = 10.0
TICK_SECONDS = 1.0
BACKLOG = 512

Application = Callable[[Exchange], Coroutine[Any, Any, None]]


class Listener:
    """Listens from `start` to `stop`."""

    def __init__(self, application: Application, context: ssl.SSLContext, wall: Callable[[], float]) -> None:
        """`wall`: seconds since the epoch, for the Date header."""
        self._application = application
        self._context = context
        self.heads = Heads(lambda: formatdate(wall(), usegmt=True).encode())
        self._connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self._rest = asyncio.Event()
        self._stopping = False

    async def start(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self),
            sock=listening,
            ssl=self._context,
            backlog=BACKLOG,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,  # one that trickles holds a descriptor for nothing
            ssl_shutdown_timeout=HANDSHAKE_SECONDS,
        )

    async def tick(self) -> None:
        """For as long as it listens: the time of day for answers, and the end of what takes too long."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self.heads.tick()
            now = loop.time()
            for connection in tuple(self._connections):
                connection.tick(now)

    async def stop(self) -> None:
        """No new connections; what is asked is answered, for a while."""
        self._server.close()
        self._stopping = True
        for connection in tuple(self._connections):
            connection.stop()
        self._at_rest()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self._rest.wait()
        for task in self._tasks:
            task.cancel()
        for connection in tuple(self._connections):
            connection.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def made(self, connection: Connection) -> None:
        """Its handshake is over."""
        self._connections.add(connection)
        if self._stopping:
            connection.stop()

    def begin(self, exchange: Exchange) -> None:
        """Most requests wait for nothing and are answered here and now; one that waits goes on as a task."""
        work = self._application(exchange)
        try:
            waits_for = work.send(None)
        except StopIteration:
            return
        task = asyncio.get_running_loop().create_task(_finish(work, waits_for))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._stopping:
            self._at_rest()

    def lost(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if self._stopping:
            self._at_rest()

    def _at_rest(self) -> None:
        if not self._connections and not self._tasks:
            self._rest.set()


async def _finish(work: Coroutine[Any, Any, None], waits_for: Any) -> None:
    await _going_on(work, waits_for)


@coroutine
def _going_on(work: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    """The rest of a coroutine whose first step was made outside of a task. (Python 3.12 has eager tasks for this.)"""
    while True:
        failure: BaseException | None = None
        try:
            yield waits_for
        except BaseException as error:  # of what it waited for: the coroutine's to handle
            failure = error
        try:
            waits_for = work.send(None) if failure is None else work.throw(failure)
        except StopIteration:
            return
        finally:
            failure = None  # its traceback refers to this frame, which would refer to it
