"""The rules in our own definitions, which a cluster keeps, say what our own code says at home."""

from typing import Any

import pytest

from headrace.api.resting import finished
from headrace.objects.crd import judging, pruning, rules, structural
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.resizing import resize_policy
from tests.objects import policies

SCHEMAS = {
    each["spec"]["names"]["kind"]: each["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for each in policies.definitions()
}


def judged(spec: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Fields that the schema's rules name, and those that the code names."""
    obj, schema = policies.policy(spec), SCHEMAS["ResizePolicy"]
    pruning.default(obj, schema)
    by_rules, by_code = FieldErrors(), FieldErrors()
    judge = finished(judging.judge_of(schema))
    assert judge is not None
    finished(judging.judge(judge, obj, None, by_rules))
    resize_policy(obj["spec"], by_code)
    return [each.field for each in by_rules.causes], [each.field for each in by_code.causes]


@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_cluster_takes_the_definitions(kind: str) -> None:
    errors = FieldErrors()
    structural.check(SCHEMAS[kind], "schema", errors)
    finished(rules.check(SCHEMAS[kind], "schema", errors))
    assert not errors.causes


@pytest.mark.parametrize(("field", "spec"), policies.WRONG)
def test_what_is_wrong_is_refused_by_both(field: str, spec: dict[str, Any]) -> None:
    by_rules, by_code = judged(spec)
    assert field in by_rules
    assert by_code
    assert all(each.startswith(field) for each in by_code)


@pytest.mark.parametrize("spec", policies.RIGHT)
def test_what_is_right_is_taken_by_both(spec: dict[str, Any]) -> None:
    assert judged(spec) == ([], [])
