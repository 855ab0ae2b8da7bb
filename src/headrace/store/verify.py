"""What is checked when a file is opened, and the fold of the books from what it holds. A damaged file is not served."""

import apsw
import orjson

from headrace.ledger.books import GUARDED, Books
from headrace.store import statements
from headrace.store.committer import checksum_of
from headrace.store.faults import Corrupt
from headrace.store.rows import Key

REMEDY = "stop, keep a copy of the file, and restore a backup"


def folded(connection: apsw.Connection, file: str) -> Books:
    """Raises Corrupt with the first damage found."""
    verdict = connection.execute("PRAGMA quick_check(1)").get
    if verdict != "ok":
        raise Corrupt(f"{file} is damaged ({verdict}): {REMEDY}")
    books = Books()
    for resource, namespace, name, revision, created, *stored in connection.execute(statements.EVERY_OBJECT):
        key = Key(resource, namespace, name)
        if stored[:4] != [*key, created] or stored[5] is None or stored[4] != checksum_of(key, stored[5]):
            where = f"{resource} {namespace}/{name} at revision {revision}"
            raise Corrupt(f"{file} is damaged: {where} fails its checksum; {REMEDY}")
        if resource in GUARDED:
            books.enter(key, orjson.loads(stored[5]))
    return books
