"""What an expression's author is shown: Kubernetes' words, the line, a caret below the place."""

import pytest

from headrace.cel.device import compile_selector, prepare_device, with_hint
from headrace.cel.errors import CompileError, CostLimitExceeded, EvaluationError

ATTRIBUTE = 'device.attributes["gpu.example.com"].model'

REFUSED = [
    pytest.param(
        "unknown == 1",
        "compilation failed: ERROR: <input>:1:1: undeclared reference to 'unknown' (in container '')\n"
        " | unknown == 1\n"
        " | ^",
        id="a name that is not declared",
    ),
    pytest.param(
        "device.foo",
        "compilation failed: ERROR: <input>:1:7: undefined field 'foo'\n | device.foo\n | ......^",
        id="a field that a device does not have",
    ),
    pytest.param(
        "device.driver == 1",
        "compilation failed: ERROR: <input>:1:15: found no matching overload for '_==_' applied to '(string, int)'\n"
        " | device.driver == 1\n"
        " | ..............^",
        id="an operator between types that have none",
    ),
    pytest.param(
        '"a".matches("[")',
        'compilation failed: ERROR: <input>:1:13: invalid matches argument\n | "a".matches("[")\n | ............^',
        id="a pattern that is none",
    ),
    pytest.param(
        'true &&\n  [1, "a"].size() == 2',
        "compilation failed: ERROR: <input>:2:7: expected type 'int' but found 'string'\n"
        ' |   [1, "a"].size() == 2\n'
        " | ......^",
        id="a mixed list, on the line it is on",
    ),
    pytest.param(
        '"é" + 1 == ""',
        "compilation failed: ERROR: <input>:1:5: found no matching overload for '_+_' applied to '(string, int)'\n"
        ' | "é" + 1 == ""\n'
        " | .\uff0e..^",
        id="a caret below a line with wide characters",
    ),
    pytest.param(
        "has(device)",
        "compilation failed: ERROR: <input>:1:5: invalid argument to has() macro\n | has(device)\n | ....^",
        id="a macro on what it cannot take",
    ),
    pytest.param(
        "x + y",
        "compilation failed: ERROR: <input>:1:1: undeclared reference to 'x' (in container '')\n"
        " | x + y\n"
        " | ^\n"
        "ERROR: <input>:1:5: undeclared reference to 'y' (in container '')\n"
        " | x + y\n"
        " | ....^",
        id="several mistakes, each with its place",
    ),
    pytest.param("1", "must evaluate to bool or the unknown type, not int", id="a result that is no bool"),
    pytest.param(
        "device.attributes",
        "must evaluate to bool or the unknown type, not map(string, map(string, dyn))",
        id="a result that is a map",
    ),
    pytest.param(
        'int("x") == 1',
        "program instantiation failed: type conversion error from 'string' to 'int'",
        id="a constant that cannot be converted",
    ),
]


@pytest.mark.parametrize(("expression", "words"), REFUSED)
def test_a_refusal_has_the_references_words_and_a_caret(expression: str, words: str) -> None:
    with pytest.raises(CompileError) as raised:
        compile_selector(expression)
    assert str(raised.value) == words


SYNTAX = [
    pytest.param("", 0, id="nothing at all"),
    pytest.param("1 +", 3, id="an operand missing at the end"),
    pytest.param('device.attributes["a"', 21, id="a bracket that is not closed"),
    pytest.param("true true", 5, id="two expressions"),
    pytest.param("a ? b", 5, id="half a conditional"),
    pytest.param("'abc", 0, id="a string without an end"),
    pytest.param("device.`a`", 7, id="a quoted field name"),
    pytest.param("if == 1", 0, id="a reserved word"),
    pytest.param("9223372036854775808 > 0", 0, id="an int that is too large"),
]


@pytest.mark.parametrize(("expression", "offset"), SYNTAX)
def test_a_syntax_error_says_where(expression: str, offset: int) -> None:
    with pytest.raises(CompileError) as raised:
        compile_selector(expression)
    assert str(raised.value).startswith(f"compilation failed: ERROR: <input>:1:{offset + 1}: ")
    assert raised.value.issues[0].offset == offset


@pytest.mark.parametrize(
    "expression",
    ["(" * 300 + "true" + ")" * 300, "!" * 3 + "(" * 5000, "1" + "+1" * 400 + " > 0", "[" * 400 + "]" * 400],
    ids=["brackets", "open brackets", "a long sum", "lists"],
)
def test_nesting_has_a_limit_and_never_breaks_the_compiler(expression: str) -> None:
    with pytest.raises(CompileError, match=r"recursion limit exceeded|Syntax error"):
        compile_selector(expression)


def test_an_unreadable_attribute_fails_every_evaluation_on_its_device() -> None:
    device = prepare_device("gpu.example.com", {"v": {"version": "1"}}, {})
    with pytest.raises(
        EvaluationError, match=r"attribute v: parse semantic version: No Major\.Minor\.Patch elements found"
    ):
        compile_selector("true").matches(device)


def test_a_missing_key_gets_a_hint_where_people_see_it() -> None:
    device = prepare_device("gpu.example.com", {}, {})
    with pytest.raises(EvaluationError) as raised:
        compile_selector(f'{ATTRIBUTE} == "x"').matches(device)
    assert str(raised.value) == "no such key: model"
    assert with_hint(str(raised.value)).startswith("no such key: model. consider using CEL optional chaining")
    assert with_hint("division by zero") == "division by zero"


def test_an_evaluation_stops_at_the_cost_limit() -> None:
    numbers = "[0,1,2,3,4,5,6,7,8,9]"
    expression = "true"
    for name in "abcdef":
        expression = f"{numbers}.all({name}, {expression})"
    selector = compile_selector(expression)
    assert selector.max_cost > 1_000_000
    device = prepare_device("gpu.example.com", {}, {})
    result, cost = selector.matches_with_cost(device)
    assert isinstance(result, CostLimitExceeded)
    assert cost is not None
    assert 1_000_000 < cost < 1_000_100
    with pytest.raises(EvaluationError, match="operation cancelled: actual cost limit exceeded"):
        selector.matches(device)
