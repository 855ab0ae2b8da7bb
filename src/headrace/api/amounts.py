"""Amounts of resources in whole numbers: cpu in millicores, memory and storage in bytes, everything else in pieces.

A resource of which there is nothing is left out, so equal amounts are equal mappings.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from headrace.api.quantity import NANO, Quantity, parse

Amounts = Mapping[str, int]

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
LIMITS = "limits."
"""Prefix of a limit among requests, as in ResourceQuota: `limits.cpu`."""

_BYTES = ("memory", "ephemeral-storage", "storage")
_NOTHING: Amounts = {}


def plus(amounts: Amounts, more: Amounts) -> Amounts:
    return _combined(amounts, more, 1) if more else amounts


def minus(amounts: Amounts, less: Amounts) -> Amounts:
    """Component by component; what goes below nothing is negative."""
    return _combined(amounts, less, -1) if less else amounts


def larger(one: Amounts, other: Amounts) -> Amounts:
    """The larger of each resource; a resource that only one has counts."""
    if not other or one == other:
        return one
    found = dict(one)
    for name, amount in other.items():
        if amount > found.get(name, 0):
            found[name] = amount
    return found


def total(amounts: Iterable[Amounts]) -> Amounts:
    found: dict[str, int] = {}
    for each in amounts:
        for name, amount in each.items():
            found[name] = found.get(name, 0) + amount
    return {name: amount for name, amount in found.items() if amount}


def _combined(amounts: Amounts, others: Amounts, sign: int) -> Amounts:
    found = dict(amounts)
    for name, amount in others.items():
        result = found.get(name, 0) + sign * amount
        if result:
            found[name] = result
        else:
            found.pop(name, None)
    return found


def read(quantities: Mapping[str, Any] | None) -> Amounts:
    """A ResourceList (`{"cpu": "500m", "memory": "1Gi"}`) in whole numbers, rounded up; raises InvalidQuantity."""
    if not quantities:
        return _NOTHING
    return {name: found for name, text in quantities.items() if (found := amount(name, str(text)))}


@lru_cache(maxsize=16_384)
def amount(resource: str, text: str) -> int:
    """One quantity; raises InvalidQuantity."""
    quantity = parse(text)
    return quantity.milli() if resource.removeprefix(LIMITS) == CPU else quantity.value()


def written(resource: str, amount: int) -> str:
    """The canonical quantity people read: 1500 of cpu is `1500m`, 2**30 of memory is `1Gi`."""
    resource = resource.removeprefix(LIMITS)
    if resource == CPU:
        return str(Quantity(amount * (NANO // 1000)))
    in_bytes = resource in _BYTES or resource.startswith("hugepages-")
    return str(Quantity(amount * NANO, "BinarySI" if in_bytes else "DecimalSI"))


def quantities(amounts: Amounts) -> dict[str, str]:
    """The ResourceList from which `read` reads them."""
    return {name: written(name, amounts[name]) for name in sorted(amounts)}
