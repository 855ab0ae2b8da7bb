"""What a file holds, looked at beside the server: whole or not, and its books folded anew."""

import shutil
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import msgspec
import orjson

from headrace.ledger.books import GUARDED, Books
from headrace.ledger.document import LEDGER_PATH, BooksDocument, document
from headrace.store import statements
from tests.trust.servers import Caller

TRIES = 50


def read_only(path: Path) -> Any:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(5_000)
    return closing(connection)


def integrity(path: Path, scratch: Path) -> str:
    """SQLite's verdict on a copy: the look must not be what repairs the file."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    for each in (path, path.with_name(path.name + "-wal")):
        if each.exists():
            shutil.copy(each, scratch / each.name)
    if not (scratch / path.name).exists():
        return "ok"
    with closing(apsw.Connection(str(scratch / path.name))) as connection:
        return str(connection.execute("PRAGMA integrity_check").get)


def folded(path: Path) -> BooksDocument:
    """The books of what the file holds now: of one snapshot, unconfirmed deletions included."""
    with read_only(path) as connection:
        connection.execute("BEGIN")
        revision = connection.execute(statements.LAST_REVISION).get
        objects = [
            ((row[0], row[1], row[2]), orjson.loads(row[-1]))
            for row in connection.execute(statements.EVERY_OBJECT)
            if row[0] in GUARDED
        ]
        departed = [(row[0], row[2], orjson.loads(row[-1])) for row in connection.execute(statements.EVERY_DEPARTED)]
    books = Books.fold(objects, departed)
    return document(revision, 0.0, books.nodes(), books.pools().values())


def books_differ(path: Path, caller: Caller) -> str:
    """Compares what the running server tells with the file's fold, once both are of one revision. Empty if alike."""
    for _ in range(TRIES):
        expected = folded(path)
        code, answer = caller.call("GET", LEDGER_PATH)
        assert code == 200, answer
        served = msgspec.convert(answer, BooksDocument)
        if served.revision == expected.revision:
            return "" if served.nodes == expected.nodes else f"served {served.nodes}, fold gives {expected.nodes}"
        time.sleep(0.02)
    raise AssertionError("the server writes all the time, though nobody asks it to")
