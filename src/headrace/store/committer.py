"""One transaction for a batch of writes: version check, ledger guard, revision, object, log. Nothing else writes.

Its statements are quick and its sync is slow, so they are steps of their own: `prepare`, `sync`, then `settle` or
`take_back`. Only `sync` waits for the disk; nothing here knows about threads or the event loop.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

import apsw

from headrace.api.quantity import InvalidQuantity
from headrace.ledger.books import GUARDED, Books
from headrace.ledger.devices import Pool, PoolKey
from headrace.ledger.node import Ledger
from headrace.store import statements
from headrace.store.connection import BUSY_MILLISECONDS
from headrace.store.history import History
from headrace.store.protocol import AlreadyExists, Conflict, Invalid, NotFound, Refused, StoreError
from headrace.store.rows import Body, Change, Key, Write


class Request(NamedTuple):
    """A write, or with `dry` only the question whether it would be refused. `connection` as in `Rows.commit`."""

    write: Write
    connection: int | None = None
    dry: bool = False


class Prepared(NamedTuple):
    """What `prepare` did: its answers and changes count once they are synced; the rest is what comes then."""

    answers: list[int | StoreError]
    changes: list[Change]
    compacted: int
    started: int
    mark: int


class Batch(NamedTuple):
    """`answers` match the requests: the revision of a write (0 for a dry one), or why it was refused.

    `ledgers` are those of all nodes after the commit, `pools` all devices and who has them.
    """

    answers: list[int | StoreError]
    changes: list[Change]
    revision: int
    ledgers: Mapping[str, Ledger]
    pools: Mapping[PoolKey, Pool]


class Committer:
    def __init__(self, connection: apsw.Connection, books: Books, history: History) -> None:
        self.books = books
        self._connection = connection
        connection.set_busy_timeout(0)
        self._execute = connection.cursor().execute  # a cursor for each statement would cost more than the statement
        self._history = history
        self._ledgers = books.nodes()
        self._pools = books.pools()
        self._revision: int = connection.execute(statements.LAST_REVISION).get

    @property
    def revision(self) -> int:
        return self._revision

    @property
    def system_error(self) -> int:
        """The system's errno in the connection's latest I/O error."""
        return self._connection.system_errno

    def run(self, requests: Sequence[Request]) -> Batch:
        """All steps at once. On an SQLite error nothing has happened, in the file or in the books."""
        prepared = self.prepare(requests)
        try:
            self.sync()
        except BaseException:
            self.take_back(prepared)
            raise
        return self.settle(prepared)

    def begin_patiently(self) -> None:
        """Open the transaction when another program, which opened the file too, ends its own. It may take a while."""
        self._connection.set_busy_timeout(BUSY_MILLISECONDS)
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        finally:
            self._connection.set_busy_timeout(0)

    def prepare(self, requests: Sequence[Request], *, begun: bool = False) -> Prepared:
        """Write what is not refused into an open transaction. On any error nothing has happened.

        Raises BusyError at once where another program has the file's write lock: see `begin_patiently`.
        """
        started, mark = self._revision, self.books.mark()
        changes: list[Change] = []
        try:
            if not begun:
                self._execute("BEGIN IMMEDIATE")
            answers = [self._answer(request, changes) for request in requests]
            compacted = self._history.compact(self._connection, len(changes))
        except BaseException:
            self._undo(started, mark)
            raise
        return Prepared(answers, changes, compacted, started, mark)

    def sync(self) -> None:
        """Make the open transaction durable. The one step that may run in another thread, while all others wait."""
        self._execute("COMMIT")

    def take_back(self, prepared: Prepared) -> None:
        """After a failed `sync`: be as before `prepare`."""
        self._undo(prepared.started, prepared.mark)

    def settle(self, prepared: Prepared) -> Batch:
        """After `sync`: what the batch was, for those who wait."""
        answers, changes, compacted, _, _ = prepared
        self.books.keep()
        self._history.reached(self._revision, compacted)
        for change in changes:
            if change.key.resource in GUARDED:
                self._ledgers = self.books.nodes()
                self._pools = self.books.pools()
                break
        return Batch(answers, changes, self._revision, self._ledgers, self._pools)

    def _undo(self, revision: int, mark: int) -> None:
        self._revision = revision
        self.books.undo(mark)
        if self._connection.in_transaction:
            self._execute("ROLLBACK")

    def _answer(self, request: Request, changes: list[Change]) -> int | StoreError:
        write = request.write
        key = write.key
        if not write.expected and write.body is not None and not request.dry and key.resource not in GUARDED:
            return self._add(key, write.body, changes)
        current = self._execute(statements.CURRENT, key).fetchone()
        problem = _stale(write, current[0] if current else 0)
        if problem is not None:
            return problem
        mark = self.books.mark()
        revision = self._revision + 1
        if key.resource in GUARDED:
            after = None if write.body is None else write.object
            try:
                shortfall = self.books.apply(key, after, revision, write.confirmed)
            except InvalidQuantity as error:
                return Invalid(f'{key.resource} "{key.name}" has an amount that cannot be charged: {error}')
            if shortfall is not None:
                return Refused(shortfall)
        if request.dry:
            self.books.undo(mark)
            return 0
        self._revision = revision
        changes.append(self._store(write, revision, current))
        return revision

    def _add(self, key: Key, body: Body, changes: list[Change]) -> int | StoreError:
        """Most writes that no ledger guards: new objects, of which nothing has to be looked up before."""
        revision = self._revision + 1
        try:
            self._execute(statements.ADD, (*key, revision, revision))
        except apsw.ConstraintError:
            return _exists(key)
        self._revision = revision
        changes.append(Change(key, revision, self._append(key, revision, revision, 0, body), None))
        return revision

    def _append(self, key: Key, revision: int, created: int, previous: int, body: Body | None) -> bytes | None:
        """Write one change into the history. The body as it is there; None of a delete."""
        made = None if body is None else body.at(revision)
        gap = 0 if body is None else len(body.head)
        bound = (revision, *key, created, previous, gap, checksum_of(key, made), made)
        self._execute(statements.APPEND, bound)
        return made

    def _store(self, write: Write, revision: int, current: tuple[int, int, int, bytes] | None) -> Change:
        key = write.key
        previous, created, before_gap, before = current or (0, revision, 0, None)
        execute = self._execute
        body = self._append(key, revision, created, previous, write.body)
        if body is not None:
            execute(statements.PUT, (*key, revision, created))
            gone = None
        else:
            execute(statements.REMOVE, key)
            assert before is not None
            gone = at_revision(before, before_gap, previous, revision)
        if key.resource in GUARDED:
            departed = self.books.departed_at(revision)
            if departed is not None:
                execute(statements.DEPART, (revision, departed.node, *key, checksum_of(key, before), before))
            for settled in self.books.settled():
                execute(statements.SETTLE, (settled,))
        return Change(key, revision, body, before, gone)


def checksum_of(key: Key, body: bytes | None) -> int:
    """Of the key too, so that a body under a damaged key is noticed."""
    return crc32(body or b"", crc32("/".join(key).encode()))


def at_revision(body: bytes, gap: int, written: int, told: int) -> bytes:
    """The body with another resourceVersion in its gap."""
    return b"%s%d%s" % (body[:gap], told, body[gap + len(str(written)) :])


def _exists(key: Key) -> StoreError:
    return AlreadyExists(f'{key.resource} "{key.name}" already exists')


def _stale(write: Write, found: int) -> StoreError | None:
    if write.expected == found and (found or write.body is not None):
        return None
    resource, name = write.key.resource, write.key.name
    if not found:
        return NotFound(f'{resource} "{name}" not found')
    if not write.expected:
        return _exists(write.key)
    return Conflict(
        f'Operation cannot be fulfilled on {resource} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
