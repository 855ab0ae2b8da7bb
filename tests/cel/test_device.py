"""Selectors beside their answers: limits of admission, what they read, the reference's oddities, answers as lines."""

import pytest

from headrace.cel.answers import answer
from headrace.cel.device import compile_selector, prepare_device
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.resource import validate_selectors
from tests.cel.vectors import devices

GPU = "gpu.example.com"


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        pytest.param('device.driver == "x"', None, id="takes a plain selector"),
        pytest.param("true" + " " * 10 * 1024, "FieldValueTooLong", id="refuses more than ten KiB"),
        pytest.param("device.foo", "FieldValueInvalid", id="refuses what does not compile"),
        pytest.param(
            '["a","b"].join(",") == "a,b"',
            "FieldValueForbidden",
            id="refuses even a join of constants, as the reference",
        ),
        pytest.param(
            f'device.attributes["{GPU}"].zones.includes("a")',
            "FieldValueInvalid",
            id="refuses a function of a later version",
        ),
        pytest.param(
            '["a"].map(x, device.driver).join("").matches(device.driver)',
            "FieldValueForbidden",
            id="refuses what may cost too much",
        ),
    ],
)
def test_admission(expression: str, cause: str | None) -> None:
    errors = FieldErrors()
    validate_selectors([{"cel": {"expression": expression}}], "spec.selectors", errors)
    assert [each.reason for each in errors.causes] == ([cause] if cause else [])


@pytest.mark.parametrize(
    ("expression", "reads"),
    [
        pytest.param("device.driver == 'x'", {("driver",)}, id="the driver"),
        pytest.param("device.allowMultipleAllocations", {("allowMultipleAllocations",)}, id="a flag"),
        pytest.param(
            f'device.attributes["{GPU}"].model == "A" && device.capacity["{GPU}"].memory.isInteger()',
            {("attributes", GPU, "model"), ("capacity", GPU, "memory")},
            id="an attribute and a capacity",
        ),
        pytest.param(
            f'cel.bind(dra, device.attributes["{GPU}"], dra.a == dra.b)',
            {("attributes", GPU, "a"), ("attributes", GPU, "b")},
            id="a domain that is bound",
        ),
        pytest.param(
            f'cel.bind(all, device.attributes, cel.bind(dra, all["{GPU}"], dra.a == 1 || size(dra) > 1))',
            {("attributes", GPU, "a"), ("attributes", GPU)},
            id="a domain that is bound twice, and all of it",
        ),
        pytest.param(
            f'"model" in device.attributes["{GPU}"]', {("attributes", GPU, "model")}, id="whether a domain has a name"
        ),
        pytest.param(f'device.attributes["{GPU}"].exists(n, n == "a")', {("attributes", GPU)}, id="names of a domain"),
        pytest.param(
            f'has(device.attributes["{GPU}"].model)', {("attributes", GPU, "model")}, id="whether one is there"
        ),
        pytest.param("device.attributes.all(d, d != '')", None, id="all domains: the whole device"),
        pytest.param("device.attributes[device.driver].model == 'A'", None, id="a computed domain: the whole device"),
        pytest.param("true", set(), id="nothing"),
    ],
)
def test_what_a_selector_reads(expression: str, reads: set[tuple[str, ...]] | None) -> None:
    assert compile_selector(expression).reads == (None if reads is None else frozenset(reads))


def test_comparing_with_a_fraction_makes_a_quantity_no_integer_for_the_rest_of_one_evaluation() -> None:
    device = prepare_device(GPU, {}, {"memory": {"value": "80Gi"}})
    memory = f'device.capacity["{GPU}"].memory'
    assert compile_selector(f"{memory}.isInteger()").matches(device)
    assert not compile_selector(f'{memory}.isGreaterThan(quantity("1.5Gi")) && {memory}.isInteger()').matches(device)
    assert compile_selector(f'{memory}.isGreaterThan(quantity("1.5Gi"))').matches(device)
    assert compile_selector(f"{memory}.isInteger()").matches(device)


def test_a_bound_empty_list_grows_in_place_as_in_the_reference() -> None:
    device = prepare_device(GPU, {}, {})
    assert compile_selector("cel.bind(l, [], size(l + [1]) + size(l)) == 2").matches(device)
    assert compile_selector("cel.bind(l, [0], size(l + [1]) + size(l)) == 3").matches(device)


def test_what_makes_the_reference_panic_is_not_absorbed() -> None:
    device = prepare_device(GPU, {"v": {"version": "1.0.0"}}, {})
    missing = f'device.attributes["{GPU}"].missing == 1'
    panics = f'device.attributes["{GPU}"].v in ["1.0.0"]'
    assert compile_selector(f"{missing} || true").matches(device)
    with pytest.raises(Exception, match="internal error: runtime error: hash of unhashable type"):
        compile_selector(f"{panics} || true").matches(device)


def test_an_input_that_a_variable_hides_is_reached_with_a_dot_at_no_cost() -> None:
    device = prepare_device(GPU, {"model": {"string": "A100"}}, {})
    selector = compile_selector(f'cel.bind(device, 1, .device.attributes["{GPU}"].model == "A100" && device == 1)')
    assert selector.matches_with_cost(device) == (True, 4)
    assert selector.max_cost == 17
    assert selector.matches(device)


def test_addresses_can_be_keys_and_are_found_and_listed_again() -> None:
    device = prepare_device(GPU, {}, {})
    text = 'cidr("10.0.0.0/8").masked() in {cidr("10.0.0.0/8"): 1}.map(key, key) && ip("::1") in {ip("::1"): 2}'
    assert compile_selector(text).matches(device)


def test_an_answer_has_every_field() -> None:
    found = answer({"id": "a", "expr": "device.driver.startsWith('é')"}, devices())
    assert set(found) >= {"id", "compile_new", "compile_stored", "output_type", "max_cost", "results", "actual_cost"}
    assert found["results"] == dict.fromkeys(devices(), False)
    refused = answer({"id": "b", "expr": "1 +"}, devices())
    assert (refused["compile_new"], refused["compile_stored"], refused["results"]) == (False, False, None)
