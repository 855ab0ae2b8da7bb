"""What is checked when a file is opened, and the fold of the books from what it holds. A damaged file is not served."""

from collections.abc import Iterator

import apsw
import orjson

from headrace.api.objects import Object
from headrace.ledger.books import GUARDED, Books
from headrace.store import statements
from headrace.store.committer import checksum_of
from headrace.store.faults import REMEDY, Corrupt
from headrace.store.rows import Key


def folded(connection: apsw.Connection, file: str) -> Books:
    """Raises Corrupt with the first damage found."""
    verdict = connection.execute("PRAGMA quick_check(1)").get
    if verdict != "ok":
        raise damaged(file, str(verdict))
    return Books.fold(_guarded_objects(connection, file), _departed(connection, file))


def _guarded_objects(connection: apsw.Connection, file: str) -> Iterator[tuple[Key, Object]]:
    """Checks all objects, hands out those that the books read."""
    for resource, namespace, name, revision, created, *stored in connection.execute(statements.EVERY_OBJECT):
        key = Key(resource, namespace, name)
        *logged, checksum, body = stored
        if logged != [*key, created] or body is None or checksum != checksum_of(key, body):
            raise damaged(file, f"{resource} {namespace}/{name} at revision {revision} fails its checksum")
        if resource in GUARDED:
            yield key, orjson.loads(body)


def _departed(connection: apsw.Connection, file: str) -> Iterator[tuple[int, str, Object]]:
    for revision, _, resource, namespace, name, checksum, body in connection.execute(statements.EVERY_DEPARTED):
        if checksum != checksum_of(Key(resource, namespace, name), body):
            raise damaged(file, f"{resource} {namespace}/{name}, deleted at revision {revision}, fails its checksum")
        yield revision, resource, orjson.loads(body)


def damaged(file: str, what: str) -> Corrupt:
    return Corrupt(f"{file} is damaged: {what}. {REMEDY}")
