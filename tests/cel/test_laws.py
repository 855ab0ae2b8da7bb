"""Laws that hold for any expression on any device."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cel.device import PreparedDevice, Selector, compile_selector, prepare_device
from headrace.cel.errors import CompileError, EvaluationError
from tests.cel.generator import Generator

seeds = st.integers(0, 2**32)


def prepared(device: dict[str, Any]) -> PreparedDevice:
    return prepare_device(
        device["driver"], device["attributes"], device["capacity"], device.get("allowMultipleAllocations")
    )


def compiled(expression: str) -> Selector | None:
    try:
        return compile_selector(expression)
    except CompileError:
        return None


def outcome(selector: Selector, device: PreparedDevice) -> str:
    try:
        return str(selector.matches(device))
    except EvaluationError as error:
        return str(error)


@given(seed=seeds)
@settings(max_examples=300, deadline=None)
def test_both_evaluators_give_one_answer(seed: int) -> None:
    generator = Generator(seed)
    device, selector = prepared(generator.device()), compiled(generator.expression())
    if selector is not None:
        assert outcome(selector, device) == str(selector.matches_with_cost(device)[0])


@given(seed=seeds)
@settings(max_examples=200, deadline=None)
def test_evaluating_changes_nothing_about_a_device(seed: int) -> None:
    generator = Generator(seed)
    device = prepared(generator.device())
    whole = compile_selector("device.attributes == device.attributes && device.capacity == device.capacity")
    before = (whole.project(device), repr(device.capacity))
    for _ in range(3):
        selector = compiled(generator.expression())
        if selector is not None:
            first = outcome(selector, device)
            assert outcome(selector, device) == first
    assert (whole.project(device), repr(device.capacity)) == before


@given(seed=seeds)
@settings(max_examples=200, deadline=None)
def test_devices_that_agree_in_what_is_read_get_one_answer(seed: int) -> None:
    generator = Generator(seed)
    selector = compiled(generator.expression())
    if selector is None or selector.reads is None:
        return
    answers: dict[object, str] = {}
    for _ in range(6):
        device = prepared(generator.device())
        found = outcome(selector, device)
        assert answers.setdefault(selector.project(device), found) == found


@given(seed=seeds)
@settings(max_examples=200, deadline=None)
def test_what_is_not_read_makes_no_difference(seed: int) -> None:
    generator = Generator(seed)
    selector, raw = compiled(generator.expression()), generator.device()
    if selector is None or selector.reads is None:
        return
    read = {column[2] for column in selector.reads if len(column) == 3}
    whole_domains = any(len(column) == 2 for column in selector.reads)
    kept = {
        name: value
        for name, value in raw["attributes"].items()
        if whole_domains or name.rpartition("/")[2] in read or "version" in value or "versions" in value
    }
    assert outcome(selector, prepared(raw)) == outcome(selector, prepared({**raw, "attributes": kept}))


@given(one=seeds, other=seeds)
@settings(max_examples=150, deadline=None)
def test_and_and_or_do_not_care_for_order_but_in_which_error_is_shown(one: int, other: int) -> None:
    left, right = Generator(one), Generator(other)
    device = prepared(left.device())
    first, second = left.expression(), right.expression()
    for operator in ("&&", "||"):
        there = compiled(f"({first}) {operator} ({second})")
        back = compiled(f"({second}) {operator} ({first})")
        if there is None or back is None:
            assert (there is None) == (back is None)
            continue
        answers = {outcome(each, device) for each in (there, back)}
        assert len(answers) == 1 or not answers & {"True", "False"} or any("internal error" in each for each in answers)


@given(text=st.text(alphabet=st.sampled_from("abxy\"'\\.,:?!&|()[]{}<>=+-*/% \n\t0123456789eéu`_"), max_size=40))
@settings(max_examples=500, deadline=None)
def test_any_text_is_compiled_or_refused_with_a_place(text: str) -> None:
    for environment in ("new", "stored"):
        told = _refusal(text, environment)
        assert not told or told.startswith(("compilation failed: ERROR: <input>:", "must evaluate", "program "))


def _refusal(text: str, environment: str) -> str:
    try:
        compile_selector(text, environment)  # type: ignore[arg-type]
    except CompileError as error:
        return error.detail
    return ""


@given(seed=seeds)
@settings(max_examples=200, deadline=None)
def test_what_admission_takes_the_scheduler_can_evaluate(seed: int) -> None:
    expression = Generator(seed).expression()
    try:
        compile_selector(expression, "new")
    except CompileError:
        return
    compile_selector(expression, "stored")
