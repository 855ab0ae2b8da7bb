"""Quantities are read, shown, compared and added as k8s.io/apimachinery does it."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api.quantity import INT64_MAX, NANO, Amount, InvalidQuantity, parse, parse_amount

READ = [
    # text, value in nano-units, canonical text, what Kubernetes gives as an int64
    ("0", 0, "0", 0),
    ("1", NANO, "1", 1),
    ("-1", -NANO, "-1", -1),
    ("+5", 5 * NANO, "5", 5),
    ("100m", 10**8, "100m", None),
    ("1000m", NANO, "1", None),
    ("1.5", 1_500_000_000, "1500m", None),
    ("1.0", NANO, "1", None),
    ("5.", 5 * NANO, "5", 5),
    (".5", 5 * 10**8, "500m", None),
    ("1n", 1, "1n", None),
    ("0.1n", 1, "1n", None),
    ("-0.1n", -1, "-1n", None),
    ("0.0000000001", 1, "1n", None),
    ("80Gi", 80 * 2**30 * NANO, "80Gi", 80 * 2**30),
    ("1.5Gi", 3 * 2**29 * NANO, "1536Mi", None),
    ("0.5Ki", 512 * NANO, "512", None),
    ("1024", 1024 * NANO, "1024", 1024),
    ("1024Ki", 2**20 * NANO, "1Mi", 2**20),
    ("1023Ki", 1023 * 1024 * NANO, "1023Ki", 1023 * 1024),
    ("2500M", 2500 * 10**6 * NANO, "2500M", 2_500_000_000),
    ("1k", 1000 * NANO, "1k", 1000),
    ("1500", 1500 * NANO, "1500", 1500),
    ("1E", 10**18 * NANO, "1E", 10**18),
    ("1E3", 1000 * NANO, "1e3", 1000),
    ("2e3", 2000 * NANO, "2e3", 2000),
    ("1e-3", 10**6, "1e-3", None),
    ("1e+3", 1000 * NANO, "1e3", 1000),
    ("9Ei", INT64_MAX * NANO, "9223372036854775807", None),
    ("-9Ei", -INT64_MAX * NANO, "-9223372036854775807", None),
    ("10000P", 10**19 * NANO, "10E", None),
    (".", 0, "0", 0),
    ("-", 0, "0", 0),
    ("m", 0, "0", None),
    ("007", 7 * NANO, "7", 7),
]


@pytest.mark.parametrize(("text", "nano", "canonical", "integer"), READ, ids=[f"reads {row[0]}" for row in READ])
def test_a_quantity_is_read_as_kubernetes_reads_it(text: str, nano: int, canonical: str, integer: int | None) -> None:
    assert parse(text).nano == nano
    assert str(parse(text)) == canonical
    assert parse_amount(text).as_int64() == integer


REFUSED = [
    ("", "must match the regular expression"),
    (" 1", "must match the regular expression"),
    ("1 ", "must match the regular expression"),
    ("1x", "must match the regular expression"),
    ("1..5", "must match the regular expression"),
    ("0x10", "must match the regular expression"),
    ("1e5m", "must match the regular expression"),
    ("\u0661", "must match the regular expression"),
    ("1e", "unable to parse quantity's suffix"),
    ("1Kii", "unable to parse quantity's suffix"),
    ("1ki", "unable to parse quantity's suffix"),
    ("1m5", "unable to parse quantity's suffix"),
    (".Ei", "unable to parse numeric part of quantity"),
    ("1e31", "exponent 31: must be from -30 to 30"),
    ("1" * 65, "quantity of 65 characters: must have at most 64"),
]


@pytest.mark.parametrize(("text", "words"), REFUSED, ids=[f"refuses {row[0]!r}" for row in REFUSED])
def test_what_is_no_quantity_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(InvalidQuantity, match=words):
        parse(text)


whole = st.integers(-(10**17), 10**17)
units = st.sampled_from(["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi"])
texts = st.builds(lambda number, unit: f"{number}{unit}", whole, units)


def value(amount: Amount) -> Fraction:
    return Fraction(amount.unscaled) * Fraction(10) ** amount.exponent


@given(texts)
def test_the_canonical_text_reads_back_as_the_same_number(text: str) -> None:
    assert parse(str(parse(text))).nano == parse(text).nano


@given(texts, texts)
def test_amounts_compare_as_numbers_do(one: str, other: str) -> None:
    left, right = parse_amount(one), parse_amount(other)
    assert left.compare(right) == (value(left) > value(right)) - (value(left) < value(right))
    assert left.compare(right) == -right.compare(left)


@given(texts, texts)
def test_sums_and_differences_are_exact(one: str, other: str) -> None:
    left, right = parse_amount(one), parse_amount(other)
    assert value(left.add(right)) == value(left) + value(right)
    assert value(left.subtract(right)) == value(left) - value(right)
    assert value(left.add(right)) == value(right.add(left))


@given(texts)
def test_whole_units_and_thousandths_round_up(text: str) -> None:
    quantity = parse(text)
    assert 0 <= quantity.value() * NANO - quantity.nano < NANO
    assert 0 <= quantity.milli() * 10**6 - quantity.nano < 10**6


@given(texts)
def test_the_amount_and_the_quantity_are_one_number(text: str) -> None:
    assert value(parse_amount(text)) == Fraction(parse(text).nano, NANO)


def test_the_smallest_int64_is_its_own_negative_as_in_kubernetes() -> None:
    smallest = Amount(-INT64_MAX - 1, 0, "DecimalExponent")
    assert parse_amount("0").subtract(smallest).unscaled == -INT64_MAX - 1


@pytest.mark.parametrize(
    ("one", "other", "text"),
    [("1Gi", "1Gi", "2Gi"), ("0", "1Gi", "1Gi"), ("1Gi", "0", "1Gi"), ("1k", "1Ki", "2024"), ("1", "1m", "1001m")],
)
def test_a_sum_keeps_the_first_format_unless_the_first_is_zero(one: str, other: str, text: str) -> None:
    total = parse_amount(one).add(parse_amount(other))
    shown = parse(f"{total.unscaled}e{total.exponent}")
    assert shown.nano == parse(text).nano
    assert total.format == (parse_amount(one) if parse_amount(one).unscaled else parse_amount(other)).format
