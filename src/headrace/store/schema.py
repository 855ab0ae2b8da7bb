"""The file's layout as numbered steps. Each is idempotent and commits alone, so a kill between any two is harmless."""

from pathlib import Path

import apsw

from headrace.store import statements
from headrace.store.protocol import StoreError

APPLICATION = 0x68647263  # "hdrc": tells our files from other SQLite files
_HEADER = 100
_MAGIC = b"SQLite format 3\0"

STEPS: tuple[tuple[str, ...], ...] = (
    (
        f"PRAGMA application_id = {APPLICATION}",
        statements.CREATE_CHANGES,
        statements.CREATE_CHANGES_BY_RESOURCE,
        statements.CREATE_OBJECTS,
        statements.CREATE_DEPARTED,
        statements.CREATE_DEPARTED_BY_NODE,
        statements.CREATE_COMPACTED,
        statements.FILL_COMPACTED,
    ),
)


class Unreadable(StoreError):
    """The file is not one that this release can open. It was left untouched."""


class Newer(Unreadable):
    """A later release has written it, and can read it."""


class Foreign(Unreadable):
    """Another program's."""


def refuse_foreign(path: Path) -> None:
    """Raise Unreadable for another program's file and for one of a newer release, before anything is written to it.

    Only while holding the file's lock: closing a file drops all POSIX locks this process has on it, SQLite's too.
    """
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("rb") as file:
        header = file.read(_HEADER)
    if len(header) < _HEADER or not header.startswith(_MAGIC):
        raise Unreadable(f"{path} is not a database of headrace, or its beginning is damaged: restore a backup")
    if Path(f"{path}-wal").exists():
        _refuse_header(path, *_through_log(path))  # a crash may have left the newest header in the log
    else:
        _refuse_header(path, int.from_bytes(header[60:64]), int.from_bytes(header[68:72]))


def keep_private(path: Path) -> None:
    """The file holds Secrets: nobody but its owner reads it, nor its log, which takes the file's mode."""
    path.touch(mode=0o600)


def _refuse_header(path: Path, version: int, application: int) -> None:
    if version == 0 and application == 0:
        return  # created, but killed before the first step was committed
    if application != APPLICATION:
        raise Foreign(f"{path} belongs to another program: name another file")
    if version > len(STEPS):
        raise Newer(
            f"{path} has schema version {version}, this release knows up to {len(STEPS)}: "
            "upgrade headrace to the release that wrote it, or a newer one. The file was not changed"
        )


def _through_log(path: Path) -> tuple[int, int]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.pragma("user_version"), connection.pragma("application_id")
    finally:
        connection.close()


def upgrade(connection: apsw.Connection) -> None:
    """Carry out the steps that the file has not seen."""
    done = connection.pragma("user_version")
    for number, step in enumerate(STEPS[done:], done + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in step:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
