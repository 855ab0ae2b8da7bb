"""Rows written or read lately, by key, within a bound of bytes. It never says that a row is absent: the file does.

A read may see a commit before it is told here; an older change that is told later must not take its place.
"""

from headrace.store.rows import Change, Key, Row

RECENT_BYTES = 4 * 1024 * 1024
ROW_BYTES = 300
"""About what a row costs beside its body."""


class RecentRows:
    """First in, first out: a row that is written moves to the end, one that is only read does not."""

    def __init__(self, limit: int = RECENT_BYTES) -> None:
        self._limit = limit
        self._bytes = 0
        self._rows: dict[Key, Row] = {}
        self.get = self._rows.get

    def put(self, key: Key, row: Row) -> None:
        self.forget(key)
        self._add(key, row)

    def _add(self, key: Key, row: Row) -> None:
        self._rows[key] = row
        self._bytes += len(row.body) + ROW_BYTES
        while self._bytes > self._limit:
            self.forget(next(iter(self._rows)))

    def follow(self, change: Change) -> None:
        known = self._rows.get(change.key)
        if known is not None and known.revision >= change.revision:
            return
        if known is not None:
            self.forget(change.key)
        if change.body is not None:
            self._add(change.key, Row(*change.key, change.revision, change.body))

    def forget(self, key: Key) -> None:
        row = self._rows.pop(key, None)
        if row is not None:
            self._bytes -= len(row.body) + ROW_BYTES
