"""Large objects and schemas are judged in time that grows as they do: the judge runs where all others wait for it."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from headrace.api.resting import finished
from headrace.objects.crd import judging, rules, values
from headrace.objects.validation.errors import FieldErrors

RULES = "x-kubernetes-validations"
SECONDS = 4.0  # of CPU; each of these takes 0.2 at most, and took 8 to 40 when it grew with the square


def objects(**given: Any) -> dict[str, Any]:
    return {"type": "object", **given}


def listed(kind: str, items: dict[str, Any], **given: Any) -> dict[str, Any]:
    return {"type": "array", "maxItems": 60_000, "x-kubernetes-list-type": kind, "items": items, **given}


def holding(inner: dict[str, Any]) -> dict[str, Any]:
    return objects(properties={"spec": inner})


NAMED = objects(
    required=["name"],
    properties={
        "name": {"type": "string", "maxLength": 8},
        "size": {"type": "integer", RULES: [{"rule": "self >= 0"}]},
    },
)
BY_NAME = listed("map", NAMED, **{"x-kubernetes-list-map-keys": ["name"]})
WORDS = listed("set", {"type": "string", "maxLength": 8}, **{RULES: [{"rule": "self == oldSelf"}]})
PARTS = listed("map", {**NAMED, "properties": {"name": {"type": "string", "maxLength": 8}}}, **{
    "x-kubernetes-list-map-keys": ["name"], RULES: [{"rule": "self == oldSelf"}],
})  # fmt: skip


def causes(schema: dict[str, Any], obj: Any, old: Any) -> list[tuple[str, str]]:
    errors = FieldErrors()
    values.compiled(schema)(obj, errors)
    judge = finished(judging.judge_of(schema))
    assert judge is not None
    finished(judging.judge(judge, obj, old, errors))
    return [(cause.field, cause.reason) for cause in errors.causes]


def cpu_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


@pytest.mark.parametrize(
    ("schema", "before"),
    [
        pytest.param(BY_NAME, [{"name": f"n{i}", "size": i} for i in range(15_000)], id="a rule in each item of a map"),
        pytest.param(WORDS, [f"w{i}" for i in range(60_000)], id="a rule that compares sets"),
        pytest.param(PARTS, [{"name": f"n{i}"} for i in range(20_000)], id="a rule that compares lists of maps"),
    ],
)
def test_a_long_list_in_another_order(schema: dict[str, Any], before: list[Any]) -> None:
    old, new = {"spec": before}, {"spec": before[::-1]}
    assert cpu_seconds(lambda: causes(holding(schema), new, old)) < SECONDS
    assert causes(holding(schema), new, old) == []


def test_many_rules_on_an_object_with_many_fields() -> None:
    names = [f"p{i}" for i in range(3_000)]
    wide = objects(
        properties={name: {"type": "string", "maxLength": 5} for name in names},
        **{RULES: [{"rule": f'!has(self.{name}) || self.{name} != "zz"'} for name in names[:1_000]]},
    )
    errors = FieldErrors()
    assert cpu_seconds(lambda: finished(rules.check(holding(wide), "schema", errors))) < SECONDS
    assert errors.causes == []
    assert cpu_seconds(lambda: finished(judging.judge_of(holding(wide)))) < SECONDS


def test_what_was_wrong_before_is_let_pass_wherever_its_item_stands_now() -> None:
    old = {"spec": [{"name": "a", "size": -1}, {"name": "b", "size": 1}, {"name": "c", "size": -3}]}
    new = {"spec": [{"name": "c", "size": -3}, {"name": "a", "size": -2}, {"name": "d", "size": -4}]}
    assert causes(holding(BY_NAME), new, old) == [
        ("spec[1].size", "FieldValueInvalid"),
        ("spec[2].size", "FieldValueInvalid"),
    ]


def test_items_of_a_set_and_keys_of_a_map_are_told_apart_by_value() -> None:
    lists = listed("set", {"type": "array", "items": {"type": "integer"}, RULES: [{"rule": "true"}]})
    assert causes(holding(lists), {"spec": [[1, 2], [2, 1], [1, 2], []]}, None) == [("spec[2]", "FieldValueDuplicate")]
    twice = {"spec": [{"name": "a"}, {"name": "b", "size": 1}, {"name": "a", "size": 2}]}
    assert causes(holding(BY_NAME), twice, None) == [("spec[2]", "FieldValueDuplicate")]
