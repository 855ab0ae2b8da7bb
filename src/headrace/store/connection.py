"""How every connection to the file is set up. Durable before acknowledged: WAL with a sync at each commit."""

import apsw

from headrace.store.protocol import StoreError

OLDEST_SQLITE = (3, 51, 3)  # older ones can lose commits when the log is reset while another connection reads
BUSY_MILLISECONDS = 2_000
CHECKPOINT_PAGES = 1_000


def refuse_old_sqlite() -> None:
    if tuple(map(int, apsw.sqlite_lib_version().split("."))) < OLDEST_SQLITE:
        raise StoreError(
            f"SQLite {apsw.sqlite_lib_version()} can lose committed data: headrace needs "
            f"{'.'.join(map(str, OLDEST_SQLITE))} or newer (pip install --upgrade apsw)"
        )


def writer(path: str, vfs: str | None = None) -> apsw.Connection:
    """The one connection that writes. Its owner runs `Checkpoints` after commits when they are due."""
    connection = apsw.Connection(path, vfs=vfs)
    connection.set_busy_timeout(BUSY_MILLISECONDS)
    _keep_plans(connection)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.pragma("cache_size", -16_000)
    return connection


def reader(path: str, vfs: str | None = None) -> apsw.Connection:
    connection = apsw.Connection(path, vfs=vfs)
    connection.set_busy_timeout(BUSY_MILLISECONDS)
    _keep_plans(connection)
    connection.pragma("query_only", True)
    return connection


def _keep_plans(connection: apsw.Connection) -> None:
    """One plan a statement, whatever is bound to it; otherwise SQLite parses and plans each join again at each run."""
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


class Checkpoints:
    """Moves the log into the file once it is long, so that it can start again from its beginning.

    Not left to SQLite, which hides a failed checkpoint; a failed sync here must stop the writer like any other.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._pages = 0
        connection.set_wal_hook(self._grown)

    @property
    def due(self) -> bool:
        return self._pages >= CHECKPOINT_PAGES

    def run(self) -> None:
        self._pages = 0
        self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _grown(self, _connection: apsw.Connection, _database: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK
