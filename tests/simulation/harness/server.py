"""The server of the simulation: LocalStore on a real SQLite file, killed by leaving it behind and opening a copy."""

import asyncio
import functools
import itertools
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

from headrace.api.objects import Object
from headrace.objects.local import Caller, LocalStore
from headrace.serve import shipped
from headrace.store.protocol import Unavailable
from headrace.store.rows import Key, Rows, Write
from headrace.store.sqlite import SQLiteRows, open_rows

_definitions = functools.cache(shipped.shipped_definitions)  # to read YAML takes longer than to install what it says


class Witness(Protocol):
    """Is told of every commit, in order, before anybody else."""

    def committed(self, write: Write, revision: int, before: Object | None) -> None: ...


class WitnessedRows:
    """Rows that show each commit to a witness; in everything else they are the rows themselves."""

    def __init__(self, rows: Rows, witness: Witness, last: dict[Key, Object]) -> None:
        self._rows, self._witness, self._last = rows, witness, last

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    async def commit(self, write: Write, connection: int | None = None) -> int:
        revision = await self._rows.commit(write, connection)
        before = self._last.pop(write.key, None)
        if write.body is not None:
            meta = {**write.object["metadata"], "resourceVersion": str(revision)}
            self._last[write.key] = {**write.object, "metadata": meta}
        self._witness.committed(write, revision, before)
        return revision


class Server:
    """`store(user)` is the door, while it is open. `last` is what was committed, by key."""

    def __init__(self, directory: Path, wall: Callable[[], float]) -> None:
        self.last: dict[Key, Object] = {}
        self._directory, self._wall = directory, wall
        self._numbers = itertools.count(1)
        self._files = itertools.count(1)
        self._file = directory / "0.db"
        self._rows: SQLiteRows | None = None
        self._store: LocalStore | None = None
        self.opened = asyncio.Event()

    async def open(self, witness: Witness) -> SQLiteRows:
        now = asyncio.get_running_loop().time
        self._rows = await open_rows(self._file, inline=True, now=now)
        self._store = LocalStore(
            WitnessedRows(self._rows, witness, self.last), wall=self._wall, new_uid=self._new_uid, caller=Caller()
        )
        with patch.object(shipped, "shipped_definitions", _definitions):
            await shipped.install(self._store)
        self.opened.set()
        return self._rows

    def store(self, user: str) -> LocalStore:
        if self._store is None:
            raise Unavailable("the server is down")
        return self._store.acting_as(Caller(user=user, field_manager=user.rpartition(":")[2]))

    @property
    def is_open(self) -> bool:
        return self._rows is not None

    @property
    def rows(self) -> SQLiteRows:
        if self._rows is None:
            raise Unavailable("the server is down")
        return self._rows

    async def kill(self) -> None:
        """As kill -9 leaves it: the next start finds what was in the files at this moment, and nothing else."""
        rows, self._rows, self._store = self.rows, None, None
        left = self._file
        self._file = self._directory / f"{next(self._files)}.db"
        _copy(left, self._file)
        await rows.close()  # ends the watches; too late to change what was copied
        _forget(left)

    def _new_uid(self) -> str:
        return str(uuid.UUID(int=next(self._numbers)))


def _copy(source: Path, target: Path) -> None:
    for suffix in ("", "-wal"):
        part = Path(f"{source}{suffix}")
        if part.exists():
            shutil.copyfile(part, f"{target}{suffix}")


def _forget(file: Path) -> None:
    for part in file.parent.glob(f"{file.name}*"):
        part.unlink()
