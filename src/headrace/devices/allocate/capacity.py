"""Consumable capacity: what a request takes of a device's capacity, by its request policy, and whether that fits.

Amounts are whole nano-units. Source: KEP-5075; rounding as in Kubernetes 1.37, in milli-units where all of the range
is exact in them, else in whole units rounded up.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.api.quantity import NANO, Quantity, kept_text, parse, parse_amount

MILLI = 10**6
LARGEST = 2**63 - 1

NOT_REPRESENTABLE = "capacity request cannot be represented in the device's range arithmetic"
NEGATIVE = "capacity value is negative"


class CapacityError(ValueError):
    """A request that no device could be asked for: it ends the allocation instead of skipping the device."""


@dataclass(frozen=True, slots=True)
class Range:
    minimum: Quantity | None
    maximum: Quantity | None
    step: Quantity | None


@dataclass(frozen=True, slots=True)
class Policy:
    default: Quantity | None
    values: tuple[Quantity, ...] | None
    range: Range | None


@dataclass(frozen=True, slots=True)
class Capacity:
    value: Quantity
    policy: Policy | None


def _quantity(value: Any) -> Quantity | None:
    return None if value is None else parse(str(value))


def read(capacity: Mapping[str, Any]) -> Capacity:
    """A DeviceCapacity of resource.k8s.io/v1; raises InvalidQuantity."""
    policy = capacity.get("requestPolicy")
    value = parse(str(capacity.get("value", "0")))
    if policy is None:
        return Capacity(value, None)
    bounds, values = policy.get("validRange"), policy.get("validValues")
    return Capacity(
        value,
        Policy(
            _quantity(policy.get("default")),
            None if values is None else tuple(parse(str(each)) for each in values),
            None
            if bounds is None
            else Range(_quantity(bounds.get("min")), _quantity(bounds.get("max")), _quantity(bounds.get("step"))),
        ),
    )


def consumed(
    requests: Mapping[str, Quantity], capacities: Mapping[str, Capacity], *, fractional: bool
) -> dict[str, Quantity] | None:
    """What one device of the request takes of each capacity; None when the device cannot serve it at any fill.

    Raises CapacityError for an amount that the arithmetic cannot hold; that comes before any mere mismatch.
    """
    if any(name not in capacities for name in requests):
        return None
    amounts: dict[str, Quantity] = {}
    for name in sorted(capacities):
        try:
            amount = _rounded(requests.get(name), capacities[name], fractional=fractional)
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from None
        if amount.nano < 0:
            raise CapacityError(f'capacity "{name}": {NEGATIVE}')
        amounts[name] = amount
    for name, amount in amounts.items():
        if _violates(amount, capacities[name].policy, fractional=fractional):
            return None
        if amount.nano > capacities[name].value.nano:
            return None
    return amounts


def _rounded(request: Quantity | None, capacity: Capacity, *, fractional: bool) -> Quantity:
    policy = capacity.policy
    if request is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    if policy is None:
        return request
    if policy.range is not None and policy.range.minimum is not None:
        return _rounded_to_step(request, policy.range.minimum, policy.range, fractional=fractional)
    if policy.values is not None:
        return next((value for value in policy.values if request.nano <= value.nano), request)
    return request


def _rounded_to_step(request: Quantity, minimum: Quantity, bounds: Range, *, fractional: bool) -> Quantity:
    if request.nano < minimum.nano:
        return minimum
    step = bounds.step
    if step is None:
        return request
    if fractional and _in_milli(bounds):
        if not _is_milli(request):
            raise _not_representable("request {} is not a representable milli value", request)
        low, width = minimum.nano // MILLI, step.nano // MILLI
        steps = _steps(_int64(request.nano // MILLI - low), width)
        if steps > _divided(_int64(LARGEST - low), width):
            raise _not_representable("rounding request {} up to the next step passes the milli-value range", request)
        return Quantity(_int64(low + width * steps) * MILLI, step.format)
    if request.nano > LARGEST * NANO:
        raise _not_representable("request {} exceeds MaxInt64", request)
    low, width = minimum.value(), step.value()
    if width == 0:
        return request
    steps = _steps(_int64(request.value() - low), width)
    if low >= 0 and steps > _divided(LARGEST - low, width):
        raise _not_representable("rounding request {} up to the next step passes MaxInt64", request)
    return Quantity(_int64(low + width * steps) * NANO, step.format)


def _not_representable(words: str, request: Quantity) -> CapacityError:
    return CapacityError(f"{NOT_REPRESENTABLE}: {words.format(request.text())}")


def _int64(value: int) -> int:
    """As Go's int64 holds it: sums with a negative minimum may wrap."""
    return (value + LARGEST + 1) % (2 * LARGEST + 2) - LARGEST - 1


def _divided(value: int, by: int) -> int:
    """Go's division, towards zero."""
    found = abs(value) // abs(by)
    return found if (value < 0) == (by < 0) else -found


def _steps(way: int, width: int) -> int:
    return _divided(way, width) + (1 if way % width else 0)


def _violates(amount: Quantity, policy: Policy | None, *, fractional: bool) -> bool:
    if policy is None or _is_written_like(amount, policy.default):
        return False
    if policy.range is not None:
        return _violates_range(amount, policy.range, fractional=fractional)
    return bool(policy.values) and all(amount.nano != value.nano for value in policy.values or ())


def _is_written_like(amount: Quantity, default: Quantity | None) -> bool:
    """Kubernetes compares the representations here, not the values: `1k` is not `1000`."""
    if default is None or amount != default:
        return False
    held = _representation(amount)
    return held is not None and held == _representation(default)


def _representation(amount: Quantity) -> tuple[int, int, str] | None:
    """Number, exponent and text as Kubernetes holds them; None for one of any size, which never equals another."""
    if not amount.source:
        whole, rest = divmod(amount.nano, NANO)
        return (amount.nano // MILLI, -3, "") if rest else (whole, 0, "")
    read = parse_amount(amount.source)
    return None if read.decimal else (read.unscaled, read.exponent, kept_text(amount.source))


def _violates_range(amount: Quantity, bounds: Range, *, fractional: bool) -> bool:
    if bounds.maximum is not None and amount.nano > bounds.maximum.nano:
        return True
    if bounds.step is None:
        return False
    minimum = bounds.minimum or Quantity(0)
    if fractional and _in_milli(bounds):
        return not _is_milli(amount) or (amount.nano - minimum.nano) % bounds.step.nano != 0
    width = bounds.step.value()
    return width != 0 and (amount.value() - minimum.value()) % width != 0


def _is_milli(quantity: Quantity) -> bool:
    return quantity.nano % MILLI == 0 and abs(quantity.nano // MILLI) <= LARGEST


def _in_milli(bounds: Range) -> bool:
    present = (bounds.minimum, bounds.maximum, bounds.step)
    if not all(_is_milli(quantity) for quantity in present if quantity is not None):
        return False
    return bounds.step is None or bounds.step.nano >= MILLI
