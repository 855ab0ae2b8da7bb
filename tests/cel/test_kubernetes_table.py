"""Kubernetes' own tables of expressions: verdicts, types, costs, results and words of errors are equal.

The recording is made by `python -m tests.devices.allocate.tables.record`.
"""

from typing import Any

import pytest

from headrace.cel.answers import answer, prepare_devices
from headrace.cel.derived import compile_derived_attribute
from headrace.cel.device import compile_selector
from headrace.cel.errors import CompileError, EvaluationError
from tests.cel.tables.expressions import fresh_expressions, recorded_expressions

LINES = recorded_expressions()


@pytest.mark.parametrize("line", [each for each in LINES if "derived" not in each], ids=lambda line: line["id"])
def test_a_selector_is_judged_as_kubernetes_expects(line: dict[str, Any]) -> None:
    found = answer(line, {})
    verdicts = ("compile_new", "compile_new_list_attrs", "compile_stored")
    assert {name: found[name] for name in verdicts} == {name: line[name] for name in verdicts}
    if line["compile_stored"]:
        assert (found["output_type"], found["max_cost"]) == (line["output_type"], line["max_cost"])
        device = prepare_devices({"it": line["device"]})["it"]
        result, cost = compile_selector(line["expr"]).matches_with_cost(device)
        error = str(result) if isinstance(result, EvaluationError) else ""
        assert (error, "error" if error else result, cost) == (
            line.get("error", ""), line["result"], line.get("actual_cost"),
        )  # fmt: skip
    elif "Syntax error" not in line["error_stored"]:  # those have words of our own
        with pytest.raises(CompileError) as refused:
            compile_selector(line["expr"])
        assert refused.value.detail == line["error_stored"]


@pytest.mark.parametrize("line", [each for each in LINES if "derived" in each], ids=lambda line: line["id"])
def test_a_derived_attribute_is_judged_as_kubernetes_expects(line: dict[str, Any]) -> None:
    device = prepare_devices({"it": line["device"]})["it"]
    if not line["compile_stored"]:
        with pytest.raises(CompileError) as refused:
            compile_derived_attribute(line["expr"])
        assert refused.value.detail == line["error_stored"]
        return
    attribute = compile_derived_attribute(line["expr"])
    if "error" not in line:
        assert attribute.evaluate(device) == line["attribute"]
        return
    with pytest.raises(EvaluationError) as failed:
        attribute.evaluate(device)
    assert str(failed.value) == line["error"]


NATIVE = (
    ("dyn(type(1))", {"string": "int"}),
    ("dyn(optional.of(1))", {"int": 1}),
    ('[dyn("a"), dyn(type(1))]', {"strings": ["a", "int"]}),
    ("[dyn(optional.of(1))]", {"ints": [1]}),
    ("dyn([1] + [2])", {"ints": [1, 2]}),
)


@pytest.mark.parametrize(("expression", "attribute"), NATIVE, ids=[row[0] for row in NATIVE])
def test_a_derived_attribute_is_what_its_value_holds(expression: str, attribute: dict[str, Any]) -> None:
    device = prepare_devices({"it": {"driver": "x"}})["it"]
    assert compile_derived_attribute(expression).evaluate(device) == attribute


@pytest.mark.slow_reference
def test_the_recorded_table_is_kubernetes_own() -> None:
    assert fresh_expressions() == LINES
