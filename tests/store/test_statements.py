"""The query plan of every statement that runs for a request: searches by key, never a scan of a table."""

import apsw
import pytest

from headrace.store import statements
from headrace.store.schema import upgrade

HOT = {
    "get": (statements.GET, 3),
    "current": (statements.CURRENT, 3),
    "page": (statements.PAGE, None),
    "page of a namespace": (statements.PAGE_OF_NAMESPACE, None),
    "page at a revision": (statements.PAGE_AT, None),
    "page of a namespace at a revision": (statements.PAGE_AT_OF_NAMESPACE, None),
    "count": (statements.COUNT, None),
    "count of a namespace": (statements.COUNT_OF_NAMESPACE, None),
    "count at a revision": (statements.COUNT_AT, None),
    "last revision": (statements.LAST_REVISION, 0),
    "replay": (statements.REPLAY, 4),
    "put": (statements.PUT, 5),
    "remove": (statements.REMOVE, 3),
    "settle": (statements.SETTLE, 1),
    "superseded": (statements.SUPERSEDED, None),
    "deletions": (statements.DELETIONS, None),
}

SPAN = {
    "resource": "pods",
    "namespace": "a",
    "after_namespace": "",
    "after_name": "",
    "limit": 10,
    "at": 5,
    "compacted": 1,
    "floor": 2,
}


@pytest.fixture
def connection():
    found = apsw.Connection(":memory:")
    upgrade(found)
    yield found
    found.close()


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_searches(connection, name):
    statement, bindings = HOT[name]
    bound = SPAN if bindings is None else (1,) * bindings
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", bound)]
    scans = [
        line
        for line in plan
        if line.startswith("SCAN") and not line.startswith(("SCAN k", "SCAN CONSTANT", "SCAN (subquery"))
    ]
    assert not scans, plan


@pytest.mark.parametrize("name", ["page", "page of a namespace", "replay"])
def test_a_page_comes_in_order_without_sorting(connection, name):
    statement, bindings = HOT[name]
    bound = SPAN if bindings is None else (1,) * bindings
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", bound)]
    assert not [line for line in plan if "TEMP B-TREE" in line], plan
