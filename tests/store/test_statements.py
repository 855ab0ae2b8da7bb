"""The query plan of every statement that runs for a request: searches by key, never a scan of a table."""

import apsw
import pytest

from headrace.store import statements
from headrace.store.schema import upgrade

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


@pytest.mark.parametrize("name", statements.HOT)
def test_a_hot_statement_searches(connection, name):
    statement, bindings = statements.HOT[name]
    bound = SPAN if bindings is None else (1,) * bindings
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", bound)]
    scans = [line for line in plan if line.startswith("SCAN") and not line.startswith(("SCAN k", "SCAN CONSTANT"))]
    assert not scans, plan


@pytest.mark.parametrize("name", ["page", "page of a namespace", "replay"])
def test_a_page_comes_in_order_without_sorting(connection, name):
    statement, bindings = statements.HOT[name]
    bound = SPAN if bindings is None else (1,) * bindings
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", bound)]
    assert not [line for line in plan if "TEMP B-TREE" in line], plan
