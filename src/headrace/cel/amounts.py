"""Sizes and costs as ranges of saturating uint64 numbers, the arithmetic of cel-go's estimates."""

import math
from dataclasses import dataclass

LIMIT = 2**64 - 1
TRAVERSAL = 0.1
PATTERN = 0.25
LIST_BASE, MAP_BASE, OBJECT_BASE = 10, 30, 40


def plus(one: int, other: int) -> int:
    return min(one + other, LIMIT)


def times(one: int, other: int) -> int:
    return min(one * other, LIMIT)


def scaled(number: int, factor: float) -> int:
    """Rounded up, in floating point as the reference does it."""
    value = float(number)
    if value > 0 and factor > 0 and value > LIMIT / factor:
        return LIMIT
    raised = math.ceil(value * factor)
    return min(raised, LIMIT)


@dataclass(frozen=True, slots=True)
class Range:
    low: int
    high: int

    def __add__(self, other: "Range") -> "Range":
        return Range(plus(self.low, other.low), plus(self.high, other.high))

    def __mul__(self, other: "Range") -> "Range":
        return Range(times(self.low, other.low), times(self.high, other.high))

    def scaled(self, factor: float) -> "Range":
        return Range(scaled(self.low, factor), scaled(self.high, factor))

    def __or__(self, other: "Range") -> "Range":
        return Range(min(self.low, other.low), max(self.high, other.high))


def exactly(number: int) -> Range:
    return Range(number, number)


NOTHING = exactly(0)
ONE = exactly(1)
UNKNOWN = Range(0, LIMIT)
EMPTY_UNION = Range(LIMIT, 0)
