"""Reads on a connection of their own, each on one snapshot. In WAL a snapshot holds only what is already durable.

What was written or read lately is answered from memory: after each commit SQLite would read its pages anew.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apsw

from headrace.store import statements
from headrace.store.committer import at_revision, checksum_of
from headrace.store.faults import REMEDY, Corrupt, failed_read
from headrace.store.protocol import Gone
from headrace.store.recent import RecentRows
from headrace.store.rows import Change, Key, Page, Row

REPLAY_BATCH = 200
REPLAY_BYTES = 4 * 1024 * 1024  # or the one row that is larger: a slow reader keeps them while it writes them out
_row = tuple.__new__  # twice as fast as Row's own


class Reader:
    """Used from one thread only, the one that reads."""

    def __init__(self, connection: apsw.Connection, file: str) -> None:
        self._connection = connection
        self._file = file
        self._recent = RecentRows()
        self._told = self._seen = 0

    def committed(self, changes: Sequence[Change], revision: int) -> None:
        """Learn of a commit, in order; before its writers are answered."""
        self._told = revision
        for change in changes:
            self._recent.follow(change)

    def get(self, key: Key) -> Row | None:
        # Once the file has shown a commit that memory is not told of yet, memory would go back in time.
        row = self._recent.get(key) if self._seen <= self._told else None
        if row is not None:
            return row
        try:
            found = self._connection.execute(statements.GET, key).fetchone()
            if not found:
                self._saw(self._connection.execute(statements.LAST_REVISION).get)
                return None
        except apsw.Error as error:
            raise failed_read(error, self._file) from error
        row = Row(*key, *found)
        self._saw(row.revision)
        self._recent.put(key, row)
        return row

    def _saw(self, revision: int) -> None:
        self._seen = max(self._seen, revision)

    def page(self, resource: str, namespace: str, after: Key | None, limit: int, at: int, counted: bool) -> Page:
        span = {
            "resource": resource,
            "namespace": namespace,
            "after_namespace": after.namespace if after else "",
            "after_name": after.name if after else "",
            "limit": limit + 1 if limit else -1,
            "at": at,
        }
        with self._snapshot():
            last: int = self._connection.execute(statements.LAST_REVISION).get
            self._saw(last)
            if at and at < self._compacted():
                raise gone(at, self._compacted())
            past = 0 < at < last
            found: list[Any] = self._connection.execute(_PAGES[past, bool(namespace)], span).fetchall()
            rows = [_row(Row, row) for row in (found[:limit] if limit else found)]
            more = len(found) > len(rows)
            remaining = 0
            if more and counted:
                span |= {"after_namespace": rows[-1].key.namespace, "after_name": rows[-1].key.name}
                remaining = self._connection.execute(_COUNTS[past, bool(namespace)], span).get
        return Page(rows, at if past else last, more, remaining)

    def replay(self, resource: str, namespace: str, since: int, until: int) -> tuple[list[Change], int]:
        """Some changes after `since`, and the revision up to which they are complete (at most `until`)."""
        with self._snapshot():
            if since < self._compacted():
                raise gone(since, self._compacted())
            bounds = (resource, since, until, REPLAY_BATCH)
            found: list[Any] = []
            size = 0
            for row in self._connection.execute(statements.REPLAY, bounds):
                found.append(row)
                size += len(row[3] or b"") + len(row[7] or b"")
                if size > REPLAY_BYTES:
                    break
        is_cut = len(found) == REPLAY_BATCH or size > REPLAY_BYTES
        reached = found[-1][0] if is_cut else until
        return [self._change(resource, row) for row in found if namespace in ("", row[1])], reached

    def _change(self, resource: str, row: Any) -> Change:
        revision, namespace, name, body, checksum, previous, gap, before = row
        key = Key(resource, namespace, name)
        if checksum_of(key, body) != checksum:
            where = f"{resource} {namespace}/{name} at revision {revision}"
            raise Corrupt(f"{self._file} is damaged: {where} fails its checksum. {REMEDY}")
        told = None if body is not None else at_revision(before, gap, previous, revision)
        return Change(key, revision, body, before, told)

    def _compacted(self) -> int:
        return int(self._connection.execute(statements.COMPACTED_REVISION).get)

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        try:
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.execute("COMMIT")
        except apsw.Error as error:
            raise failed_read(error, self._file) from error


def gone(revision: int, compacted: int) -> Gone:
    return Gone(f"The resourceVersion {revision} is too old: history starts at {compacted}")


_PAGES = {
    (False, False): statements.PAGE,
    (False, True): statements.PAGE_OF_NAMESPACE,
    (True, False): statements.PAGE_AT,
    (True, True): statements.PAGE_AT_OF_NAMESPACE,
}
_COUNTS = {
    (False, False): statements.COUNT,
    (False, True): statements.COUNT_OF_NAMESPACE,
    (True, False): statements.COUNT_AT,
    (True, True): statements.COUNT_AT_OF_NAMESPACE,
}
