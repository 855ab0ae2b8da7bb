"""Kubernetes quantities (`100m`, `1.5Gi`, `2e3`), exact: a whole number of nano-units and the format it was written in.

Source: k8s.io/apimachinery/pkg/api/resource. Reading rounds away from zero at 1n; the canonical text keeps the format
where no precision would be lost.
"""

import re
from dataclasses import dataclass
from typing import Literal

from headrace.api.limits import QUANTITY_CHARACTERS, QUANTITY_EXPONENT

Format = Literal["DecimalSI", "BinarySI", "DecimalExponent"]

NANO = 10**9
LARGEST = (2**63 - 1) * NANO
INT64_DIGITS = 18

_TEXT = re.compile(r"([+-]?)([0-9]*)(\.[0-9]*)?([a-zA-Z]*)([+-]?[0-9]*)", re.ASCII)
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
class Quantity:
    """`nano` is the value times 10**9. Two quantities of one value compare equal through `nano`, whatever the format.

    `exact_int64` is true where Kubernetes keeps the value as an int64 with a scale (it decides `isInteger` in CEL).
    """

    nano: int
    format: Format = "DecimalSI"
    exact_int64: bool = True

    def value(self) -> int:
        """Whole units, rounded up."""
        return -(-self.nano // NANO)

    def milli(self) -> int:
        """Thousandths, rounded up."""
        return -(-self.nano // 10**6)

    def __str__(self) -> str:
        return canonical(self)


def parse(text: str) -> Quantity:
    """Read a quantity; raises InvalidQuantity."""
    if not text:
        raise InvalidQuantity(WORDS)
    if len(text) > QUANTITY_CHARACTERS:
        raise InvalidQuantity(f"quantity of {len(text)} characters: must have at most {QUANTITY_CHARACTERS}")
    match = _TEXT.fullmatch(text)
    if match is None:
        raise InvalidQuantity(WORDS)
    sign, whole, fraction, unit, exponent_digits = match.groups()
    digits, decimals = whole.lstrip("0"), (fraction or ".")[1:]
    if not whole and not decimals:
        raise InvalidQuantity(WORDS)
    power, binary, form = _unit(unit, exponent_digits)
    mantissa = int(digits + decimals or "0")
    if binary:
        numerator, denominator = mantissa * 2**binary * NANO, 10 ** len(decimals)
    else:
        shift = power + 9 - len(decimals)
        numerator, denominator = (mantissa * 10**shift, 1) if shift >= 0 else (mantissa, 10**-shift)
    nano = -(-numerator // denominator)
    small = _fits_int64(len(digits), len(decimals), mantissa, power, binary)
    if not small:
        nano = min(nano, LARGEST)
        if form == "BinarySI" and 0 < nano < NANO:
            form = "DecimalSI"
    return Quantity(-nano if sign == "-" else nano, form, small)


def _unit(unit: str, exponent_digits: str) -> tuple[int, int, Format]:
    """Decimal power, binary power and format of a suffix."""
    if unit in ("e", "E") and exponent_digits:
        if exponent_digits in ("+", "-"):
            raise InvalidQuantity("unable to parse quantity's suffix")
        power = int(exponent_digits) if len(exponent_digits) < 8 else QUANTITY_EXPONENT + 1
        if abs(power) > QUANTITY_EXPONENT:
            raise InvalidQuantity(
                f"exponent {exponent_digits}: must be from -{QUANTITY_EXPONENT} to {QUANTITY_EXPONENT}"
            )
        return power, 0, "DecimalExponent"
    if exponent_digits:
        raise InvalidQuantity("unable to parse quantity's suffix")
    if unit in _BINARY:
        return 0, _BINARY[unit], "BinarySI"
    if unit in _DECIMAL:
        return _DECIMAL[unit], 0, "DecimalSI"
    raise InvalidQuantity("unable to parse quantity's suffix")


def _fits_int64(whole: int, decimals: int, mantissa: int, power: int, binary: int) -> bool:
    """Whether Kubernetes' reader takes its short path, which keeps an int64 and a scale and does not cap the value."""
    if binary:
        return decimals == 0 and 15 - max(whole, 1) - int(binary * 3 / 10) - 1 >= 0 and mantissa << binary < 2**63
    return INT64_DIGITS - max(whole, 1) - decimals >= 0 and power - decimals >= -9


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
