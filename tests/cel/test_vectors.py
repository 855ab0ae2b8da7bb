"""Every stored expression gets the reference's answer: verdicts, type, worst case, results and cost on each device."""

from typing import Any

import pytest

from headrace.cel.answers import answer
from headrace.cel.device import compile_selector
from headrace.cel.errors import EvaluationError
from tests.cel.vectors import FIELDS, devices, expressions

# These stop early in a walk over a map. Go walks maps in random order, so what the reference spent was luck.
ORDER_DEPENDENT = frozenset({"macro-138", "macro-140", "cost-266", "fuzz-054"})
DEVICES = devices()
EXPRESSIONS = expressions()


@pytest.mark.parametrize("row", EXPRESSIONS, ids=lambda row: row["id"])
def test_an_expression_is_judged_as_the_reference_judges_it(row: dict[str, Any]) -> None:
    found = answer(row, DEVICES)
    compared = [name for name in FIELDS if name != "actual_cost" or row["id"] not in ORDER_DEPENDENT]
    assert {name: found[name] for name in compared} == {name: row.get(name) for name in compared}


def test_only_a_walk_over_a_map_makes_a_cost_depend_on_luck() -> None:
    rows = {row["id"]: row["expr"] for row in EXPRESSIONS}
    assert all(".exists(" in rows[name] or ".all(" in rows[name] for name in ORDER_DEPENDENT)


@pytest.mark.parametrize("row", [row for row in EXPRESSIONS if row.get("errors")], ids=lambda row: row["id"])
def test_a_run_time_error_has_the_references_words(row: dict[str, Any]) -> None:
    selector = compile_selector(row["expr"])
    for name, words in row["errors"].items():
        with pytest.raises(EvaluationError) as raised:
            selector.matches(DEVICES[name])
        assert str(raised.value) == words
