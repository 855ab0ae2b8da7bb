"""The agent's side of the keeper's socket. A lost connection is made again, and a lost keeper started again."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from headrace.node.keeper import frames
from headrace.node.keeper.launch import SOCKET, KeeperFailed, ensure_keeper

PATIENCE_SECONDS = 5.0  # a keeper that was killed holds its socket and its lock until the kernel has cleared it away
RECONNECT_SECONDS = 0.02
ANSWER_SECONDS = 30.0  # also a start is answered long before: the container's program need only have begun


class KeeperRefused(Exception):
    """The keeper's answer was no: `code` is Invalid, NotFound, Running, StartFailed, Version or Internal."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class KeeperClient:
    """Requests are repeated over a new connection when one breaks: each operation is idempotent."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._connection: _Connection | None = None
        self._lock = asyncio.Lock()

    async def call(self, operation: str, fields: Mapping[str, Any] | None = None) -> Any:
        """Raises KeeperRefused, or KeeperFailed when no keeper can be had."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            connection = await self._connected()
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await connection.call(operation, fields or {})
            except TimeoutError:
                words = f"no answer to {operation} within {ANSWER_SECONDS:g} s"
                raise KeeperFailed(f"keeper in {self._data_dir}: {words}") from None
            except ConnectionError:
                if time.monotonic() >= deadline:
                    raise KeeperFailed(f"keeper in {self._data_dir}: connection lost during {operation}") from None
                await asyncio.sleep(RECONNECT_SECONDS)

    async def watch(self) -> AsyncIterator[dict[str, Any] | None]:
        """States as they change. None first, and whenever changes may have been missed: then the whole list is due."""
        while True:
            connection = await connect(self._data_dir)
            try:
                await connection.call("watch", {})
                yield None
                while True:
                    yield await connection.event()
            except ConnectionError:
                await asyncio.sleep(RECONNECT_SECONDS)
            finally:
                await connection.close()

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _connected(self) -> "_Connection":
        async with self._lock:
            if self._connection is None or self._connection.lost:
                await self.close()
                self._connection = await connect(self._data_dir)
            return self._connection


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._number = 0
        self.lost = False
        self._task = asyncio.create_task(self._read(), name="keeper connection")

    async def call(self, operation: str, fields: Mapping[str, Any]) -> Any:
        if self.lost:
            raise ConnectionResetError
        self._number += 1
        number = self._number
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._writer.write(frames.encode({"v": frames.VERSION, "n": number, "op": operation, **fields}))
            return await answer
        finally:
            self._waiting.pop(number, None)

    async def event(self) -> dict[str, Any]:
        event = await self._events.get()
        if event is None:
            raise ConnectionResetError
        return event

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._writer.close()

    async def _read(self) -> None:
        try:
            while True:
                size = frames.length(await self._reader.readexactly(4))
                self._take(frames.decode(await self._reader.readexactly(size)))
        except (asyncio.IncompleteReadError, ConnectionError, frames.BadFrame):
            pass
        finally:
            self.lost = True
            self._events.put_nowait(None)
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(ConnectionResetError())

    def _take(self, message: dict[str, Any]) -> None:
        if "event" in message:
            self._events.put_nowait(message["event"])
            return
        answer = self._waiting.get(message["n"])
        if answer is None or answer.done():  # its caller was cancelled
            return
        if "error" in message:
            answer.set_exception(KeeperRefused(message["error"]["code"], message["error"]["message"]))
        else:
            answer.set_result(message["ok"])


async def connect(data_dir: Path) -> _Connection:
    """Connect, starting the keeper if there is none. Raises KeeperFailed."""
    deadline, pause = time.monotonic() + PATIENCE_SECONDS, 0.0
    while time.monotonic() < deadline:
        try:
            return await _open(data_dir / "keeper")
        except (FileNotFoundError, ConnectionError):
            await ensure_keeper(data_dir)
            await asyncio.sleep(pause)
            pause = RECONNECT_SECONDS
    raise KeeperFailed(f"keeper in {data_dir}: it does not accept connections; see keeper/keeper.log there")


async def _open(directory: Path) -> _Connection:
    # Through the directory's descriptor: the path itself may be longer than a socket's address can hold.
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return _Connection(*await asyncio.open_unix_connection(f"/proc/self/fd/{descriptor}/{SOCKET}"))
    finally:
        os.close(descriptor)
