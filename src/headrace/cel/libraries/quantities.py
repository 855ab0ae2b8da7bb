"""Kubernetes' quantity library, quirks kept: comparing may change how a quantity is held, and so `isInteger`."""

from headrace.api.quantity import Amount, InvalidQuantity, parse_amount
from headrace.cel.declarations import Function, function, method, overload
from headrace.cel.errors import EvaluationError
from headrace.cel.values import QuantityValue, Value

EXPONENT_LIMIT = 1_000


def read_quantity(text: str, shared: bool = False) -> Value:
    """A quantity, or the error in Kubernetes' words."""
    try:
        return QuantityValue(parse_amount(text, EXPONENT_LIMIT), shared=shared)
    except InvalidQuantity as error:
        return EvaluationError(str(error))


def _is_quantity(text: str) -> bool:
    return isinstance(read_quantity(text), QuantityValue)


def _compare(one: QuantityValue, other: QuantityValue) -> int:
    if other.amount.decimal and not one.amount.decimal and not one.shared:
        one.amount = Amount(one.amount.unscaled, one.amount.exponent, one.amount.format, decimal=True)
    return one.amount.compare(other.amount)


def _as_integer(quantity: QuantityValue) -> Value:
    value = quantity.amount.as_int64()
    return EvaluationError("cannot convert value to integer") if value is None else value


def _sign(quantity: QuantityValue) -> int:
    return (quantity.amount.unscaled > 0) - (quantity.amount.unscaled < 0)


def _whole(value: int) -> Amount:
    return Amount(value, 0, "DecimalExponent")


def _add(one: QuantityValue, amount: Amount) -> QuantityValue:
    return QuantityValue(one.amount.add(amount), derived=True)


def _subtract(one: QuantityValue, amount: Amount) -> QuantityValue:
    return QuantityValue(one.amount.subtract(amount), derived=True)


FUNCTIONS: tuple[Function, ...] = (
    function("quantity", overload("string_to_quantity", "string -> quantity", read_quantity)),
    function("isQuantity", overload("is_quantity_string", "string -> bool", _is_quantity)),
    function("sign", overload("quantity_sign", "quantity -> int", _sign)),
    function(
        "isGreaterThan",
        method("quantity_is_greater_than", "quantity, quantity -> bool", lambda one, other: _compare(one, other) > 0),
    ),
    function(
        "isLessThan",
        method("quantity_is_less_than", "quantity, quantity -> bool", lambda one, other: _compare(one, other) < 0),
    ),
    function("compareTo", method("quantity_compare_to", "quantity, quantity -> int", _compare)),
    function(
        "asApproximateFloat",
        method("quantity_get_float", "quantity -> double", lambda quantity: quantity.amount.as_float()),
    ),
    function("asInteger", method("quantity_get_int", "quantity -> int", _as_integer)),
    function(
        "isInteger",
        method("quantity_is_integer", "quantity -> bool", lambda quantity: quantity.amount.as_int64() is not None),
    ),
    function(
        "add",
        method("quantity_add", "quantity, quantity -> quantity", lambda one, other: _add(one, other.amount)),
        method("quantity_add_int", "quantity, int -> quantity", lambda one, number: _add(one, _whole(number))),
    ),
    function(
        "sub",
        method("quantity_sub", "quantity, quantity -> quantity", lambda one, other: _subtract(one, other.amount)),
        method("quantity_sub_int", "quantity, int -> quantity", lambda one, number: _subtract(one, _whole(number))),
    ),
)
