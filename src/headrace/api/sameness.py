"""JSON values as keys of sets and maps: equal keys are equal values. So looking for one among many takes one step."""

from collections.abc import Hashable
from typing import Any


def as_key(value: Any) -> Hashable:
    if isinstance(value, dict):
        return frozenset((name, as_key(each)) for name, each in value.items())
    if isinstance(value, list):
        return tuple([as_key(each) for each in value])
    found: Hashable = value
    return found
