"""The embedded home: one SQLite file, one writer, the ledger guard inside each commit. Implements `store.rows.Rows`.

    rows = await open_rows(path)                             # production: group commit, syncs in a thread
    rows = await open_rows(":memory:", inline=True)          # simulation and tests: commits on the caller's stack

`open_rows(path, *, inline=False, on_fatal=…, now=time.monotonic, retention=Retention(), …)`
raises Unavailable when another process has the file, Unreadable when it is not ours or newer, Corrupt when damaged.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import apsw

from headrace.api.limits import WATCH_BACKLOG_EVENTS, WRITES_QUEUED
from headrace.ledger.books import Books
from headrace.store import connection, statements
from headrace.store.committer import Batch, Committer, Request
from headrace.store.faults import Corrupt, Stopped, failed_open, failed_read, failed_write
from headrace.store.high_water import HighWater
from headrace.store.history import DEFAULT_RETENTION, History, Retention
from headrace.store.lock import FileLock
from headrace.store.protocol import StoreError
from headrace.store.reader import Reader
from headrace.store.rows import Change, Key, Offer, Page, Row, Write
from headrace.store.schema import keep_private, refuse_foreign, upgrade
from headrace.store.verify import folded
from headrace.store.watchers import Watchers
from headrace.store.writer import Writer

MEMORY = ":memory:"


class SQLiteRows:
    """Made by `open_rows`. `ledgers` and `pools` are as of the last commit; `books` belongs to the writer."""

    def __init__(
        self,
        file: str,
        writing: apsw.Connection,
        reading: apsw.Connection,
        lock: FileLock | None,
        high_water: HighWater | None,
        history: History,
        books: Books,
        backlog: int,
    ) -> None:
        self.books = books
        self.ledgers = books.nodes()
        self.pools = books.pools()
        self._file = file
        self._writing = writing
        self._reading = reading
        self._lock = lock
        self._high_water = high_water
        self._checkpoints = connection.Checkpoints(writing)
        self._committer = Committer(writing, books, history)
        self._reader = Reader(reading, file)
        self._reader.committed((), self._committer.revision)
        self._watchers = Watchers(self._reader, self._committer.revision, backlog)
        self._writer: Writer | None = None
        self._stopped: Stopped | None = None
        self._on_fatal: Callable[[str], None] = lambda _: None

    @property
    def revision(self) -> int:
        return self._watchers.published

    def get(self, key: Key) -> Row | None:
        return self._reader.get(key)

    def page(
        self,
        resource: str,
        namespace: str = "",
        *,
        after: Key | None = None,
        limit: int = 0,
        at: int = 0,
        counted: bool = True,
    ) -> Page:
        return self._reader.page(resource, namespace, after, limit, at, counted)

    def watch(
        self, resource: str, namespace: str = "", *, since: int, offer: Offer | None = None
    ) -> AsyncGenerator[Change | int, None]:
        return self._watchers.watch(resource, namespace, since, offer)

    def remind(self) -> None:
        self._watchers.remind()

    def commit(self, write: Write, connection: int | None = None) -> Awaitable[int]:
        return self._submit(Request(write, connection))

    def check(self, write: Write) -> Awaitable[int]:
        return self._submit(Request(write, dry=True))

    async def close(self) -> None:
        if self._writer is not None:
            await self._writer.close()
        self._watchers.close()
        try:
            self._reading.close()
            self._writing.close()
        except apsw.Error as error:  # the last checkpoint: what it could not move stays in the log
            raise failed_write(error, self._file) from error
        finally:
            if self._high_water is not None:
                self._high_water.close()
            if self._lock is not None:
                self._lock.release()

    def start(self, on_fatal: Callable[[str], None], *, inline: bool) -> None:
        self._on_fatal = on_fatal
        if not inline:
            self._writer = Writer(
                self._committer, self._checkpoints, self._file, self._publish, on_fatal, WRITES_QUEUED
            )

    def _submit(self, request: Request) -> Awaitable[int]:
        return self._at_once(request) if self._writer is None else self._writer.submit(request)

    async def _at_once(self, request: Request) -> int:
        if self._stopped is not None:
            raise self._stopped
        try:
            batch = self._committer.run([request])
        except apsw.Error as error:
            raise self._judged(error) from error
        self._publish(batch)
        try:
            if self._checkpoints.due:
                self._checkpoints.run()
        except apsw.Error as error:  # the write itself is durable
            self._judged(error)
        (answer,) = batch.answers
        if isinstance(answer, StoreError):
            raise answer
        return answer

    def _judged(self, error: apsw.Error) -> StoreError:
        found = failed_write(error, self._file, self._committer.system_error)
        if isinstance(found, Stopped):
            self._stopped = found
            self._on_fatal(str(found))
        return found

    def _publish(self, batch: Batch) -> None:
        if self._high_water is not None:
            self._high_water.tell(batch.revision)
        self.ledgers = batch.ledgers
        self.pools = batch.pools
        self._reader.committed(batch.changes, batch.revision)
        self._watchers.publish(batch.changes, batch.revision)


async def open_rows(
    path: str | Path,
    *,
    inline: bool = False,
    on_fatal: Callable[[str], None] = lambda _: None,
    now: Callable[[], float] = time.monotonic,
    retention: Retention = DEFAULT_RETENTION,
    backlog: int = WATCH_BACKLOG_EVENTS,
    vfs: str | None = None,
) -> SQLiteRows:
    """`on_fatal` gets one line when nothing can be acknowledged any more: log it and end the process."""
    connection.refuse_old_sqlite()
    file = str(path)
    in_memory = file == MEMORY
    if in_memory and not inline:
        raise ValueError(":memory: has one connection, so it needs inline=True")
    lock = None
    if not in_memory:
        lock = FileLock(Path(path))
    try:
        if lock is not None:
            refuse_foreign(Path(path))
            keep_private(Path(path))
        writing = connection.writer(file, vfs)
        upgrade(writing)
        reading = writing if inline else connection.reader(file, vfs)
        compacted = writing.execute(statements.COMPACTED_REVISION).get
        revision = writing.execute(statements.LAST_REVISION).get
        history = History(retention, now, compacted, revision)
        books = folded(writing, file)
        high_water = None if in_memory else _high_water(Path(path), revision)
        rows = SQLiteRows(file, writing, reading, lock, high_water, history, books, backlog)
    except BaseException as error:
        if lock is not None:
            lock.release()
        if isinstance(error, apsw.Error):
            raise failed_read(error, file) from error
        raise
    rows.start(on_fatal, inline=inline)
    return rows


def _high_water(path: Path, revision: int) -> HighWater:
    try:
        found = HighWater(path)
    except OSError as error:
        raise failed_open(error, path) from error
    try:
        found.check(revision, str(path))
    except Corrupt:
        found.close()
        raise
    found.tell(revision)
    return found
