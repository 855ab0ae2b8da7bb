"""Operators: arithmetic that never wraps, comparison across numbers, membership, logic's helpers.

Source: cel-go's standard library. `&&`, `||`, `?:`, `==`, `!=` and indexing are evaluated by the evaluators themselves.
"""

import math
from collections.abc import Callable

from headrace.cel.declarations import Function, Overload, function, method, overload
from headrace.cel.errors import EvaluationError
from headrace.cel.libraries.times import add_duration, subtract_times
from headrace.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Accumulating,
    Concatenated,
    Duration,
    MapList,
    SetList,
    StringMap,
    Timestamp,
    Uint,
    Value,
    compare,
    contains_key,
    in_list,
    is_list,
    is_map,
    no_overload,
    size,
)


def _missing(name: str, value: Value) -> EvaluationError:
    """The operator is not for this value; a value with methods of its own says it more shortly."""
    return no_overload() if type(value) in (str, Duration, Timestamp) else EvaluationError(f"no such overload: {name}")


def integer(value: int) -> int | EvaluationError:
    return value if INT_MIN <= value <= INT_MAX else EvaluationError("integer overflow")


def unsigned(value: int) -> Uint | EvaluationError:
    return Uint(value) if 0 <= value <= UINT_MAX else EvaluationError("unsigned integer overflow")


def _duration(value: int) -> Duration | EvaluationError:
    return Duration(value) if INT_MIN <= value <= INT_MAX else EvaluationError("integer overflow")


def add(one: Value, other: Value) -> Value:
    kind, same = type(one), type(one) is type(other)
    if kind is int:
        return integer(one + other) if same else no_overload()
    if kind is str or kind is float or kind is bytes:
        return one + other if same else no_overload()
    if is_list(one):
        return _joined(one, other) if is_list(other) else no_overload()
    if kind is Uint:
        return unsigned(one.value + other.value) if same else no_overload()
    if kind is Duration:
        if type(other) is Timestamp:
            return add_duration(other, one)
        return _duration(one.nanoseconds + other.nanoseconds) if same else no_overload()
    if kind is Timestamp:
        return add_duration(one, other) if type(other) is Duration else no_overload()
    return _missing("_+_", one)


def _joined(one: list[Value], other: list[Value]) -> list[Value] | EvaluationError:
    if isinstance(one, SetList | MapList):
        return one.joined(other)
    if type(one) is Accumulating:
        one.extend(other)
        return one
    if not one or not other:
        return other or one
    return Concatenated([*one, *other])


def subtract(one: Value, other: Value) -> Value:
    kind, same = type(one), type(one) is type(other)
    if kind is int:
        return integer(one - other) if same else no_overload()
    if kind is float:
        return one - other if same else no_overload()
    if kind is Uint:
        return unsigned(one.value - other.value) if same else no_overload()
    if kind is Duration:
        return _duration(one.nanoseconds - other.nanoseconds) if same else no_overload()
    if kind is Timestamp:
        if type(other) is Duration:
            minus = _duration(-other.nanoseconds)
            return add_duration(one, minus) if isinstance(minus, Duration) else minus
        return subtract_times(one, other) if same else no_overload()
    return _missing("_-_", one)


def multiply(one: Value, other: Value) -> Value:
    kind, same = type(one), type(one) is type(other)
    if kind is int:
        return integer(one * other) if same else no_overload()
    if kind is float:
        return one * other if same else no_overload()
    if kind is Uint:
        return unsigned(one.value * other.value) if same else no_overload()
    return _missing("_*_", one)


def divide(one: Value, other: Value) -> Value:
    kind, same = type(one), type(one) is type(other)
    if kind is float:
        return _divide_doubles(one, other) if same else no_overload()
    if kind is not int and kind is not Uint:
        return _missing("_/_", one)
    if not same:
        return no_overload()
    if kind is Uint:
        return Uint(one.value // other.value) if other.value else EvaluationError("division by zero")
    if not other:
        return EvaluationError("division by zero")
    quotient = abs(one) // abs(other)
    return integer(quotient if (one < 0) == (other < 0) else -quotient)


def _divide_doubles(one: float, other: float) -> float:
    if other:
        return one / other
    if one == 0 or math.isnan(one):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1, other)


def modulo(one: Value, other: Value) -> Value:
    kind, same = type(one), type(one) is type(other)
    if kind is not int and kind is not Uint:
        return _missing("_%_", one)
    if not same:
        return no_overload()
    if kind is Uint:
        return Uint(one.value % other.value) if other.value else EvaluationError("modulus by zero")
    if not other:
        return EvaluationError("modulus by zero")
    if one == INT_MIN and other == -1:
        return EvaluationError("integer overflow")
    rest = abs(one) % abs(other)
    return -rest if one < 0 else rest


def negate(value: Value) -> Value:
    kind = type(value)
    if kind is int:
        return integer(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return _duration(-value.nanoseconds)
    return no_overload() if kind is bool else _missing("-_", value)


def invert(value: Value) -> Value:
    return not value if type(value) is bool else no_overload()


_COMPARABLE = frozenset({bool, int, Uint, float, str, bytes, Timestamp, Duration})


def _comparison(name: str, holds: Callable[[int], bool]) -> Callable[[Value, Value], Value]:
    def operation(one: Value, other: Value) -> Value:
        if type(one) not in _COMPARABLE:
            return _missing(name, one)
        found = compare(one, other)
        return found if isinstance(found, EvaluationError) else holds(found)

    return operation


less = _comparison("_<_", lambda order: order < 0)
less_equal = _comparison("_<=_", lambda order: order <= 0)
greater = _comparison("_>_", lambda order: order > 0)
greater_equal = _comparison("_>=_", lambda order: order >= 0)


def is_in(value: Value, aggregate: Value) -> Value:
    if type(aggregate) is StringMap:
        return type(value) is str and value in aggregate
    if is_list(aggregate):
        return in_list(value, aggregate)
    return contains_key(aggregate, value) if is_map(aggregate) else no_overload()


def not_strictly_false(value: Value) -> bool:
    return value if type(value) is bool else True


def _size(value: Value) -> Value:
    if type(value) is not str and type(value) is not bytes and not is_list(value) and not is_map(value):
        return _missing("size", value)
    return size(value)


def _order(name: str) -> list[Overload]:
    """bool; every pair of numbers; string, bytes, timestamp, duration: in the reference's order."""
    numbers = {
        "int": ("int64", ("int", "double", "uint")),
        "uint": ("uint64", ("uint", "double", "int")),
        "double": ("double", ("double", "int", "uint")),
    }
    names = {"int": "int64", "uint": "uint64", "double": "double"}
    found = [overload(f"{name}_bool", "bool, bool -> bool")]
    for one, (spelled, others) in numbers.items():
        for other in others:
            suffix = spelled if other == one else f"{spelled}_{names[other]}"
            found.append(overload(f"{name}_{suffix}", f"{one}, {other} -> bool"))
    found += [
        overload(f"{name}_{one}", f"{one}, {one} -> bool") for one in ("string", "bytes", "timestamp", "duration")
    ]
    return found


FUNCTIONS: tuple[Function, ...] = (
    function("_?_:_", overload("conditional", "bool, A, A -> A")),
    function("_&&_", overload("logical_and", "bool, bool -> bool")),
    function("_||_", overload("logical_or", "bool, bool -> bool")),
    function("!_", overload("logical_not", "bool -> bool"), operation=invert),
    function("@not_strictly_false", overload("not_strictly_false", "bool -> bool", not_strictly_false), unguarded=True),
    function("_==_", overload("equals", "A, A -> bool")),
    function("_!=_", overload("not_equals", "A, A -> bool")),
    function(
        "_+_",
        overload("add_bytes", "bytes, bytes -> bytes"),
        overload("add_double", "double, double -> double"),
        overload("add_duration_duration", "duration, duration -> duration"),
        overload("add_duration_timestamp", "duration, timestamp -> timestamp"),
        overload("add_timestamp_duration", "timestamp, duration -> timestamp"),
        overload("add_int64", "int, int -> int"),
        overload("add_list", "list(A), list(A) -> list(A)"),
        overload("add_string", "string, string -> string"),
        overload("add_uint64", "uint, uint -> uint"),
        operation=add,
    ),
    function(
        "_/_",
        overload("divide_double", "double, double -> double"),
        overload("divide_int64", "int, int -> int"),
        overload("divide_uint64", "uint, uint -> uint"),
        operation=divide,
    ),
    function(
        "_%_",
        overload("modulo_int64", "int, int -> int"),
        overload("modulo_uint64", "uint, uint -> uint"),
        operation=modulo,
    ),
    function(
        "_*_",
        overload("multiply_double", "double, double -> double"),
        overload("multiply_int64", "int, int -> int"),
        overload("multiply_uint64", "uint, uint -> uint"),
        operation=multiply,
    ),
    function(
        "-_", overload("negate_double", "double -> double"), overload("negate_int64", "int -> int"), operation=negate
    ),
    function(
        "_-_",
        overload("subtract_double", "double, double -> double"),
        overload("subtract_duration_duration", "duration, duration -> duration"),
        overload("subtract_int64", "int, int -> int"),
        overload("subtract_timestamp_duration", "timestamp, duration -> timestamp"),
        overload("subtract_timestamp_timestamp", "timestamp, timestamp -> duration"),
        overload("subtract_uint64", "uint, uint -> uint"),
        operation=subtract,
    ),
    function("_<_", *_order("less"), operation=less),
    function("_<=_", *_order("less_equals"), operation=less_equal),
    function("_>_", *_order("greater"), operation=greater),
    function("_>=_", *_order("greater_equals"), operation=greater_equal),
    function("_[_]", overload("index_list", "list(A), int -> A"), overload("index_map", "map(A, B), A -> B")),
    function(
        "@in", overload("in_list", "A, list(A) -> bool"), overload("in_map", "A, map(A, B) -> bool"), operation=is_in
    ),
    function(
        "size",
        overload("size_bytes", "bytes -> int"),
        method("bytes_size", "bytes -> int"),
        overload("size_list", "list(A) -> int"),
        method("list_size", "list(A) -> int"),
        overload("size_map", "map(A, B) -> int"),
        method("map_size", "map(A, B) -> int"),
        overload("size_string", "string -> int"),
        method("string_size", "string -> int"),
        operation=_size,
    ),
)
