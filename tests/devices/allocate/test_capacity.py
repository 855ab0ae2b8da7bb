"""What a request takes of a capacity by its policy: rounding, refusal, and the errors that end an allocation."""

import pytest

from headrace.api.quantity import parse
from headrace.devices.allocate.capacity import CapacityError, consumed, read

RANGE = {"default": "1", "validRange": {"min": "1", "max": "8", "step": "2"}}
FRACTIONS = {"default": "200m", "validRange": {"min": "200m", "max": "1", "step": "100m"}}
VALUES = {"default": "1", "validValues": ["1", "2", "4"]}


@pytest.mark.parametrize(
    ("value", "policy", "request_", "taken"),
    [
        pytest.param("8", None, None, "8", id="without a request and a policy all of it is taken"),
        pytest.param("8", None, "3", "3", id="without a policy as much as was asked"),
        pytest.param("8", None, "9", None, id="more than there is does not fit"),
        pytest.param("8", RANGE, None, "1", id="without a request the default is taken"),
        pytest.param("8", RANGE, "0", "1", id="below the minimum the minimum is taken"),
        pytest.param("8", RANGE, "2", "3", id="rounded up to the next step from the minimum"),
        pytest.param("8", RANGE, "7", "7", id="on a step as it is"),
        pytest.param("16", RANGE, "8", None, id="above the maximum after rounding is refused"),
        pytest.param("1", FRACTIONS, "250m", "300m", id="fractions are rounded in thousandths"),
        pytest.param("8", VALUES, "3", "4", id="rounded up to the next valid value"),
        pytest.param("8", VALUES, "5", None, id="above all valid values is refused"),
        pytest.param("4Gi", {"default": "1Gi", "validRange": {"min": "1Gi", "step": "512Mi"}}, "1100Mi", "1536Mi",
                     id="the result is written as the step is"),
    ],
)  # fmt: skip
def test_what_is_taken(value: str, policy: object, request_: str | None, taken: str | None) -> None:
    capacity = read({"value": value} if policy is None else {"value": value, "requestPolicy": policy})
    found = consumed({} if request_ is None else {"c": parse(request_)}, {"c": capacity}, fractional=True)
    assert (None if found is None else str(found["c"])) == taken


def test_a_capacity_that_the_device_does_not_have_is_no_error() -> None:
    assert consumed({"other": parse("1")}, {"c": read({"value": "1"})}, fractional=True) is None


@pytest.mark.parametrize(
    ("policy", "request_", "words"),
    [
        pytest.param(
            {"default": "0", "validRange": {"min": "0", "step": "3"}}, "9223372036854775808", "is not a representable",
            id="beyond the range of thousandths"),
        pytest.param({"default": "-1"}, None, "capacity value is negative", id="a negative default"),
    ],
)  # fmt: skip
def test_what_no_device_could_be_asked_for_is_an_error(policy: object, request_: str | None, words: str) -> None:
    capacity = read({"value": "9223372036854775807", "requestPolicy": policy})
    with pytest.raises(CapacityError, match=words) as error:
        consumed({} if request_ is None else {"c": parse(request_)}, {"c": capacity}, fractional=True)
    assert str(error.value).startswith('capacity "c": ')


KEPT = [
    ("1.500", "1.500"),
    ("1500m", "1500m"),
    ("1.50", "1500m"),
    ("+5", "+5"),
    ("5.0", "5"),
    ("12E12", "12E12"),
    ("3Ki", "3Ki"),
    ("1024Ki", "1Mi"),
    ("1000", "1k"),
    ("0.250", "250m"),
    ("9Ei", "9223372036854775807"),
]


@pytest.mark.parametrize(("text", "told"), KEPT, ids=[row[0] for row in KEPT])
def test_what_is_consumed_is_told_as_kubernetes_tells_it(text: str, told: str) -> None:
    amounts = consumed({"memory": parse(text)}, {"memory": read({"value": "10E"})}, fractional=True)
    assert amounts is not None
    assert amounts["memory"].text() == told


def test_a_default_is_allowed_only_as_it_is_written() -> None:
    capacity = {"memory": read({"value": "5k", "requestPolicy": {"default": "1k", "validValues": ["2"]}})}
    assert consumed({"memory": parse("1k")}, capacity, fractional=True) is not None
    assert consumed({"memory": parse("1000")}, capacity, fractional=True) is None


def test_rounding_from_a_negative_minimum_wraps_as_in_kubernetes() -> None:
    policy = {"default": "2", "validRange": {"min": "-1000m", "step": "1"}}
    with pytest.raises(CapacityError, match="rounding request 1k up to the next step passes the milli-value range"):
        consumed(
            {"memory": parse("1000")}, {"memory": read({"value": "8Ei", "requestPolicy": policy})}, fractional=True
        )
