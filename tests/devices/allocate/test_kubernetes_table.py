"""Kubernetes' own table of allocator tests, through `headrace simulate allocate`: results, order and errors are equal.

The recording is made by `python -m tests.devices.allocate.tables.record`. Two cases of the table are more than JSON can
hold: an empty list of versions is an attribute without a value, and amounts from a thousand E on have an exponent.
"""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli.simulate import simulate
from tests.devices.allocate.tables.cases import fresh_cases, recorded_cases
from tests.devices.allocate.test_vectors import comparable

CEL_ENDS = ("CEL runtime error", "CEL compile error", " failed")


def expected(case: dict[str, Any]) -> dict[str, Any]:
    """As an answer of ours: without CEL's own words, which come last."""
    found = dict(case["expect"])
    for end in CEL_ENDS:
        head, colon, _ = found.get("error", "").partition(f"{end}: ")
        if colon:
            found["error"] = head + end
    return {"name": case["name"], **found}


def answers(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = "".join(json.dumps({key: value for key, value in case.items() if key != "expect"}) + "\n" for case in cases)
    ran = CliRunner().invoke(simulate, ["allocate", "--cases", "-"], input=lines)
    assert ran.exit_code == 0, ran.output
    return [json.loads(line) for line in ran.stdout.splitlines()]


def differences(cases: list[dict[str, Any]]) -> list[str]:
    wrong = []
    for case, found in zip(cases, answers(cases), strict=True):
        found.pop("errorKind", None)
        if comparable(found) != comparable(expected(case)):
            wrong.append(f"{case['name']}\n  Kubernetes {expected(case)}\n  headrace   {found}")
    return wrong


@pytest.mark.parametrize("allocator", ["incubating", "experimental"])
def test_the_table_is_answered_as_kubernetes_expects(allocator: str) -> None:
    cases = [case for case in recorded_cases() if case["name"].startswith(allocator)]
    assert len(cases) > 200
    wrong = differences(cases)
    assert not wrong, f"{len(wrong)} of {len(cases)} differ\n" + "\n".join(wrong[:5])


@pytest.mark.slow_reference
def test_the_recorded_table_is_kubernetes_own() -> None:
    cases = fresh_cases()
    assert comparable(cases) == comparable(recorded_cases())
    assert not differences(cases)
