"""Selectors that are written out as Python source answer as the evaluator that counts does, errors included."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cel.checker import check
from headrace.cel.counting import evaluate
from headrace.cel.device import (
    COST_LIMIT,
    OFTEN,
    Code,
    PreparedDevice,
    Selector,
    compile_selector,
    environment_of,
    prepare_device,
)
from headrace.cel.errors import CompileError, EvaluationError
from headrace.cel.generated import generate
from headrace.cel.parser import parse
from headrace.cel.plan import Plan, plan
from headrace.cel.values import Fatal, QuantityValue
from tests.cel.generator import Generator
from tests.cel.vectors import devices, expressions

GPU = 'device.attributes["gpu.example.com"]'
WRITTEN_OUT = (
    'device.driver == "gpu.example.com"',
    f'{GPU}.model == "A100"',
    f'{GPU}.model == "A100" && {GPU}.numaNode < 2 && has({GPU}.mig) && !{GPU}.mig',
    f'{GPU}.missing == 1 || {GPU}.model == "A100"',
    f'{GPU}.model || {GPU}.model == "A100"',
    f"{GPU}.?mig.orValue(false) == false",
    f'{GPU}.?model.orValue({GPU}.missing) == "A100"',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0',
    'device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("bad"))',
    f'{GPU}.driverVersion.isGreaterThan(semver("540.0.0"))',
    f'{GPU}.firmware.isLessThan(semver("1.2.3"))',
    f'{GPU}.model.isLessThan(semver("1.2.3"))',
    f'{GPU}.model.matches("^A1[0-9]+")',
    f'{GPU}.serial.matches("42")',
    f'{GPU}.model in ["A100", "H100"]',
    f'{GPU}.driverVersion in ["A100", "H100"]',
    f'cel.bind(gpu, {GPU}, gpu.model == "A100" && gpu.numaNode == 0)',
    f'cel.bind(gpu, {GPU}.missing, device.driver == "x" || gpu == 1)',
    f'cel.bind(one, 1, {GPU}.numaNode == one)',
    'device.attributes.exists(domain, domain == "gpu.example.com")',
    f'{GPU}.exists(name, name == "model" && {GPU}[name] == "A100")',
    f'{GPU}.all(name, {GPU}[name] != "zz")',
    f'{GPU}.all(a, {GPU}.exists(b, {GPU}[a] == {GPU}[b]))',
    f'{GPU}.all(name, {GPU}.missing == name) || device.driver == "x"',
    f'["A100", "H100"].exists(model, {GPU}.model == model)',
    f'[0, 1].exists(number, 1 > number && number == {GPU}.numaNode)',
    f'{GPU}.exists(name, {GPU}[name])',
    f'{GPU}.driverVersion == "550.54.15"',
    f'{GPU}.driverVersion != "550.54.15"',
    f'"550.54.15" == {GPU}.driverVersion',
    f"{GPU}.mig == {GPU}.model",
    "device.allowMultipleAllocations || !device.allowMultipleAllocations",
    " && ".join(f"{GPU}.numaNode >= {at}" for at in range(40)),
    f'"model" in {GPU} && "gpu.example.com" in device.attributes',
    f'{GPU}.zones.exists(zone, zone == "b")',
    f"{GPU}.ports.all(port, port < 4)",
    f"{GPU}.ports.exists_one(port, port > 2)",
    f'{GPU}.map(name, name).size() > 0',
    f'{GPU}.filter(name, name.startsWith("m")).map(name, {GPU}[name]) == [dyn("A100"), dyn(false)]',
    f'{GPU}.map(name, name != "mig", {GPU}[name] + 1).size() == 1',
    f"{GPU}.ports.filter(port, 2 / port > 0 || port).exists(port, port == 1)",
    f'{GPU}.zones.transformList(at, zone, zone) == ["a", "b", "c"]',
    f'{GPU}.zones.all(at, zone, at < 2 && zone < "c")',
    f"{GPU}.model.all(letter, letter == 1)",
    f"[1, 2, 3].map(x, x * 2) == [dyn(2), dyn(4), {GPU}.numaNode]",
    f'[dyn(device.driver), {GPU}.model].exists(text, text == "A100")',
    f'(has({GPU}.mig) ? {GPU}.mig : {GPU}.missing) || device.driver == "x"',
    f'(has({GPU}.?mig.x) ? {GPU}.mig : has({GPU}.mig)) == true',
    f'{GPU}[?"missing"].hasValue() || {GPU}.?model.hasValue()',
    f'{GPU}.?model.optMap(model, model == "A100").orValue(false)',
    'device.attributes[device.driver].model == "A100"',
    'device.?driver.orValue("") != "" && device.attributes[?"x"].?model.orValue("d") == "d"',
    f'{GPU}.uuid.split("-")[1] == "0123" && {GPU}.zones[0] == "a"',
    f'{GPU}.model.replace("A", {GPU}.missing).substring(1, 2) == "1"',
    f'cel.bind(text, {GPU}.model + "x", text + text == "A100xA100x" || text.size() > {GPU}.missing)',
    f'cel.bind(texts, [], {GPU}.zones.exists(zone, (texts + [zone]).size() > 1))',
    f'{GPU}.model.find("[0-9]+") == "100" && {GPU}.model.matches("[0-9]+$")',
    f'{{"a": {GPU}.numaNode}}.all(key, value, value == 0)',
)  # fmt: skip
BEYOND_THE_ESTIMATE = (
    'device.capacity["gpu.example.com"].memory != device.capacity["gpu.example.com"].cores',
    f"type({GPU}.model) == string",
    f'{GPU}.serial.charAt(1) + "x" != {GPU}.missing',
)


def planned(expression: str) -> Plan | None:
    names = environment_of("stored")
    try:
        return plan(check(expression, parse(expression, names.macros), names), names)
    except CompileError:
        return None


def said(value: Any) -> str:
    if isinstance(value, EvaluationError):
        return f"error {value}"
    shown = value.amount if isinstance(value, QuantityValue) else value
    return f"{type(value).__name__} {shown}"


def run(code: Callable[[Any], Any], device: PreparedDevice) -> Any:
    try:
        return code(device.root)
    except Fatal as error:
        return error


def assert_alike(expression: str, prepared: list[PreparedDevice]) -> bool:
    """Whether there is source for the expression."""
    try:
        selector = compile_selector(expression)
    except CompileError:
        return False
    root = planned(expression)
    if root is None or selector._code is None:
        return False
    code = generate(root)
    for device in prepared:
        if code is not None and device.error is None:
            value, books = evaluate(root, [device.root], COST_LIMIT)
            assert said(run(code, device)) == said(value), expression
            assert books.cost <= COST_LIMIT
    return code is not None


@pytest.mark.parametrize("expression", WRITTEN_OUT)
def test_usual_selectors_are_written_out_and_say_the_same(expression: str) -> None:
    assert assert_alike(expression, list(devices().values()))


@pytest.mark.parametrize("expression", BEYOND_THE_ESTIMATE)
def test_a_size_that_the_estimate_does_not_know_keeps_nothing_from_being_written_out(expression: str) -> None:
    assert compile_selector(expression).max_cost > COST_LIMIT
    assert assert_alike(expression, list(devices().values()))


GROWING = (
    f'type({GPU}.model.replace("", {GPU}.model)) == string',
    "type(cel.bind(a, device.driver, cel.bind(b, a + a, b + b))) == string",
    f"{GPU}.map(name, type(name)).size() > 0 && type(1) == int",
)


@pytest.mark.parametrize("expression", GROWING)
def test_what_may_grow_is_counted_where_the_estimate_knows_no_bound(expression: str) -> None:
    selector = compile_selector(expression)
    assert selector.max_cost > COST_LIMIT
    assert selector._code is None


def test_the_stored_expressions_say_the_same() -> None:
    prepared = list(devices().values())
    written = [assert_alike(each["expr"], prepared) for each in expressions()]
    assert sum(written) > len(written) / 2


@given(seed=st.integers(0, 2**32))
@settings(max_examples=500, deadline=None)
def test_any_selector_says_the_same(seed: int) -> None:
    generator = Generator(seed)
    prepared = []
    for _ in range(3):
        device = generator.device()
        prepared.append(
            prepare_device(
                device["driver"], device["attributes"], device["capacity"], device.get("allowMultipleAllocations")
            )
        )
    assert_alike(generator.expression(), prepared)


def test_what_is_asked_often_is_written_out_and_answers_as_before() -> None:
    for expression in WRITTEN_OUT:
        selector = compile_selector(expression)
        for device in devices().values():
            first = answered(selector, device)
            assert all(answered(selector, device) == first for _ in range(OFTEN))
        assert isinstance(selector._code, Code)
        assert selector._code.run.__name__ == "select"


def answered(selector: Selector, device: PreparedDevice) -> str:
    try:
        return str(selector.matches(device))
    except EvaluationError as error:
        return f"error {error}"
