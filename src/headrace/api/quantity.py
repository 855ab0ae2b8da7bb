"""Kubernetes quantities (`100m`, `1.5Gi`, `2e3`), exact: a whole number of nano-units and the format it was written in.

Source: k8s.io/apimachinery/pkg/api/resource. Reading rounds away from zero at 1n; the canonical text keeps the format
where no precision would be lost. `Amount` is the same number as Kubernetes holds it, which CEL lets an expression see.
"""

import re
from dataclasses import dataclass, field
from typing import Literal

from headrace.api.limits import QUANTITY_CHARACTERS, QUANTITY_EXPONENT

Format = Literal["DecimalSI", "BinarySI", "DecimalExponent"]

NANO = 10**9
INT64_MAX = 2**63 - 1
LARGEST = INT64_MAX * NANO
INT64_DIGITS = 18

_TEXT = re.compile(r"([+-]?)(0*)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)", re.ASCII)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_NAMES = {exponent: name for name, exponent in _DECIMAL.items()}
_BINARY_NAMES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

WORDS = (
    "quantities must match the regular expression "
    "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)  # Kubernetes' own words for what is not a quantity


class InvalidQuantity(ValueError):
    """The text is no quantity; the message says what would be right."""


@dataclass(frozen=True, slots=True)
class Amount:
    """`unscaled` times ten to the power `exponent`.

    `decimal` tells Kubernetes' two representations apart: false is an int64 with a scale, true a number of any size.
    An int64 with a negative scale is no integer to Kubernetes, even where its value is one (`1000m`).
    """

    unscaled: int
    exponent: int
    format: Format
    decimal: bool = False

    def as_int64(self) -> int | None:
        """The value where Kubernetes can give it as an int64 without a conversion, else None."""
        if self.decimal or self.exponent < 0:
            return None
        value = self.unscaled * 10**self.exponent
        return value if -INT64_MAX - 1 <= value <= INT64_MAX else None

    def as_float(self) -> float:
        """The nearest float that Kubernetes finds: one rounding for the digits, one for the scale."""
        return float(self.unscaled) * (10.0**self.exponent if self.exponent >= 0 else float(f"1e{self.exponent}"))

    def compare(self, other: "Amount") -> int:
        """-1, 0 or 1."""
        low = min(self.exponent, other.exponent)
        mine, others = self._at(low), other._at(low)
        return (mine > others) - (mine < others)

    def add(self, other: "Amount") -> "Amount":
        """The sum; it keeps this format unless this is zero, and int64 as long as it fits."""
        form = self.format if self.unscaled else other.format
        if not self.decimal and not other.decimal:
            if not other.unscaled:
                return Amount(self.unscaled, self.exponent, form)
            if not self.unscaled:
                return Amount(other.unscaled, other.exponent, form)
        low = min(self.exponent, other.exponent)
        scaled = (self._at(low), other._at(low))
        total = sum(scaled)
        fits = all(-INT64_MAX - 1 <= value <= INT64_MAX for value in (*scaled, total))
        return Amount(total, low, form, self.decimal or other.decimal or not fits)

    def subtract(self, other: "Amount") -> "Amount":
        """The difference. As in Kubernetes the smallest int64 is its own negative as long as both are int64."""
        total = self.add(other.negated())
        if other.unscaled == -INT64_MAX - 1 and not self.decimal and not other.decimal:
            wrapped = self.add(other)
            return total if wrapped.decimal else wrapped
        return total

    def negated(self) -> "Amount":
        return Amount(-self.unscaled, self.exponent, self.format, self.decimal)

    def _at(self, exponent: int) -> int:
        return self.unscaled * int(10 ** (self.exponent - exponent))


@dataclass(frozen=True, slots=True)
class Quantity:
    """`nano` is the value times 10**9. Two quantities of one value compare equal through `nano`, whatever the format.

    `source` is what it was read from; nothing where it was computed.
    """

    nano: int
    format: Format = "DecimalSI"
    source: str = field(default="", compare=False)

    def value(self) -> int:
        """Whole units, rounded up."""
        return -(-self.nano // NANO)

    def milli(self) -> int:
        """Thousandths, rounded up."""
        return -(-self.nano // 10**6)

    def __str__(self) -> str:
        return canonical(self)

    def text(self) -> str:
        """What Kubernetes writes: the text it was read from where it takes that for canonical, rightly or not."""
        return kept_text(self.source) or canonical(self)


def parse(text: str) -> Quantity:
    """Read a quantity; raises InvalidQuantity."""
    if len(text) > QUANTITY_CHARACTERS:
        raise InvalidQuantity(f"quantity of {len(text)} characters: must have at most {QUANTITY_CHARACTERS}")
    amount = parse_amount(text)
    if abs(amount.exponent) > QUANTITY_EXPONENT + QUANTITY_CHARACTERS:
        raise InvalidQuantity(f"quantity {text}: its exponent must be from -{QUANTITY_EXPONENT} to {QUANTITY_EXPONENT}")
    shift = amount.exponent + 9
    nano = amount.unscaled * 10**shift if shift >= 0 else 0
    return Quantity(nano, amount.format, text)


def parse_amount(text: str, exponent_limit: int = QUANTITY_EXPONENT) -> Amount:
    """Read a quantity as Kubernetes represents it; raises InvalidQuantity."""
    match = _TEXT.fullmatch(text)
    if match is None or not text:
        raise InvalidQuantity(WORDS)
    sign, zeros, whole, decimals, suffix = match.groups()
    has_digit = bool(zeros or whole or decimals)
    whole, decimals = whole or "0", decimals or ""
    power, binary, form = _unit(suffix, exponent_limit)
    digits = int(whole + decimals)
    amount = _short(digits, len(whole), len(decimals), power, binary, form)
    if amount is None:
        if not has_digit:
            raise InvalidQuantity("unable to parse numeric part of quantity")
        amount = _long(digits, len(decimals), power, binary, form)
    return amount.negated() if sign == "-" else amount


def kept_text(text: str) -> str:
    """The text where Kubernetes keeps it beside the number (`1.500`, `+5`, `3Ki`), else nothing."""
    match = _TEXT.fullmatch(text)
    if match is None or not text:
        return ""
    _, _, whole, decimals, suffix = match.groups()
    whole, decimals = whole or "0", decimals or ""
    power, binary, form = _unit(suffix, QUANTITY_EXPONENT)
    digits = whole + decimals
    if _short(int(digits), len(whole), len(decimals), power, binary, form) is None:
        return ""
    if binary:
        return text if int(digits) & 7 else ""
    is_kept = (power - len(decimals)) % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    return text if is_kept or text == "0" else ""


def _unit(suffix: str, exponent_limit: int) -> tuple[int, int, Format]:
    """Decimal power, binary power and format of a suffix."""
    if suffix in _BINARY:
        return 0, _BINARY[suffix], "BinarySI"
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], 0, "DecimalSI"
    if exponent := _EXPONENT.fullmatch(suffix):
        power = int(exponent[1])
        if abs(power) > exponent_limit:
            raise InvalidQuantity(f"exponent {power}: must be from -{exponent_limit} to {exponent_limit}")
        return power, 0, "DecimalExponent"
    raise InvalidQuantity("unable to parse quantity's suffix")


def _short(digits: int, whole: int, decimals: int, power: int, binary: int, form: Format) -> Amount | None:
    """Kubernetes' short path, which keeps an int64 and a scale; None where it does not take it."""
    if binary:
        if decimals or 15 - whole - binary * 3 // 10 - 1 < 0:
            return None
        value = digits << binary
        return Amount(value, 0, form) if value <= INT64_MAX else None
    if INT64_DIGITS - whole - decimals < 0 or power - decimals < -9:
        return None
    return Amount(digits, power - decimals, form)


def _long(digits: int, decimals: int, power: int, binary: int, form: Format) -> Amount:
    """Kubernetes' long path: any size, rounded up at 1n; binary amounts are capped at the largest int64."""
    unscaled, exponent = digits << binary, power - decimals
    if unscaled:
        shift = exponent + 9
        unscaled = unscaled * 10**shift if shift >= 0 else -(-unscaled // 10**-shift)
        exponent = -9
    if form == "BinarySI" and unscaled > LARGEST:
        unscaled, exponent = INT64_MAX, 0
    if form == "BinarySI" and 0 < unscaled < 10**-exponent:
        form = "DecimalSI"
    return Amount(unscaled, exponent, form, decimal=True)


def canonical(quantity: Quantity) -> str:
    """The one text Kubernetes prints for this value and format."""
    nano = quantity.nano
    if nano == 0:
        return "0"
    form = quantity.format
    if form == "BinarySI" and (-1024 * NANO < nano < 1024 * NANO or nano % NANO):
        form = "DecimalSI"
    if form == "BinarySI":
        amount, step = nano // NANO, 0
        while amount % 1024 == 0 and step < len(_BINARY_NAMES) - 1:
            amount, step = amount // 1024, step + 1
        return f"{amount}{_BINARY_NAMES[step]}"
    amount, power = nano, -9
    while amount % 1000 == 0 and not (form == "DecimalSI" and power == 18):
        amount, power = amount // 1000, power + 3
    if form == "DecimalSI":
        return f"{amount}{_DECIMAL_NAMES[power]}"
    return f"{amount}e{power}" if power else str(amount)
