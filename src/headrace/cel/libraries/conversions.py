"""Type conversions and what Go prints for a number. A conversion that fails is a value's error, not an exception."""

import math
import re

from headrace.cel.declarations import Function, function, overload
from headrace.cel.errors import EvaluationError
from headrace.cel.libraries.operators import integer, unsigned
from headrace.cel.libraries.times import (
    duration_text,
    from_seconds,
    plain_decimal,
    read_duration,
    read_timestamp,
    timestamp_text,
)
from headrace.cel.values import INT_MAX, INT_MIN, SECOND, UINT_MAX, Duration, TypeValue, Uint, Value, type_name

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DOUBLE = re.compile(r"[+-]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_HEX_DOUBLE = re.compile(r"[+-]?0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?[0-9]+", re.ASCII)
_SPECIAL = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def _failed(kind: str, wanted: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{kind}' to '{wanted}'")


def shortest(value: float) -> str:
    """Go's %g: the shortest digits, an exponent from 1e+06 up and below 1e-04."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    exponent = _exponent(value)
    if -4 <= exponent < 6:
        return plain_decimal(value)
    digits = plain_decimal(abs(value)).replace(".", "").strip("0")
    mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
    return f"{'-' if value < 0 else ''}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _exponent(value: float) -> int:
    """The decimal exponent of the shortest digits."""
    text = plain_decimal(abs(value))
    whole, _, fraction = text.partition(".")
    return len(whole) - 1 if whole != "0" else -(len(fraction) - len(fraction.lstrip("0")) + 1)


def to_string(value: Value) -> Value:
    kind = type(value)
    if kind is str:
        return value
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return str(value)
    if kind is Uint:
        return str(value.value)
    if kind is float:
        return shortest(value)
    if kind is bytes:
        try:
            return value.decode()
        except UnicodeDecodeError:
            return EvaluationError("invalid UTF-8 in bytes, cannot convert to string")
    if kind is Duration:
        return duration_text(value)
    return value.name if kind is TypeValue else timestamp_text(value)


def _double_to_int(value: float) -> Value:
    in_range = math.isfinite(value) and -(2.0**63) < value < 2.0**63
    return int(value) if in_range else EvaluationError("integer overflow")


def _double_to_uint(value: float) -> Value:
    in_range = math.isfinite(value) and 0 <= value < 2.0**64
    return Uint(int(value)) if in_range else EvaluationError("unsigned integer overflow")


def _string_to_int(text: str) -> Value:
    value = int(text) if _INTEGER.fullmatch(text) else None
    return value if value is not None and INT_MIN <= value <= INT_MAX else _failed("string", "int")


def _string_to_uint(text: str) -> Value:
    value = int(text) if _INTEGER.fullmatch(text) and text[0] not in "+-" else None
    return Uint(value) if value is not None and value <= UINT_MAX else _failed("string", "uint")


def string_to_double(text: str) -> Value:
    sign = -1.0 if text.startswith("-") else 1.0
    special = _SPECIAL.get(text[text[:1] in ("+", "-") :].lower())
    if special is not None and not (math.isnan(special) and text[0] in "+-"):
        return sign * special
    value = math.inf
    if _DOUBLE.fullmatch(text) and "__" not in text and not re.search(r"_(?![0-9])|(?<![0-9])_", text):
        value = float(text.replace("_", ""))
    elif _HEX_DOUBLE.fullmatch(text):
        value = float.fromhex(text)
    return _failed("string", "double") if math.isinf(value) else value


def _string_to_bool(text: str) -> Value:
    return _BOOLEANS.get(text, _failed("string", "bool"))


def _string_to_duration(text: str) -> Value:
    return read_duration(text) or _failed("string", "google.protobuf.Duration")


def _string_to_timestamp(text: str) -> Value:
    return read_timestamp(text) or _failed("string", "google.protobuf.Timestamp")


def _same(value: Value) -> Value:
    return value


def type_of(value: Value) -> TypeValue:
    return TypeValue(type_name(value))


# Conversions whose argument is a constant are done when the expression is compiled.
NAMES = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"})

FUNCTIONS: tuple[Function, ...] = (
    function("type", overload("type", "A -> type(A)"), operation=type_of),
    function("dyn", overload("to_dyn", "A -> dyn"), operation=_same),
    function(
        "bool",
        overload("bool_to_bool", "bool -> bool", _same),
        overload("string_to_bool", "string -> bool", _string_to_bool),
    ),
    function(
        "bytes",
        overload("bytes_to_bytes", "bytes -> bytes", _same),
        overload("string_to_bytes", "string -> bytes", lambda text: text.encode()),
    ),
    function(
        "double",
        overload("double_to_double", "double -> double", _same),
        overload("int64_to_double", "int -> double", float),
        overload("string_to_double", "string -> double", string_to_double),
        overload("uint64_to_double", "uint -> double", lambda number: float(number.value)),
    ),
    function(
        "duration",
        overload("duration_to_duration", "duration -> duration", _same),
        overload("string_to_duration", "string -> duration", _string_to_duration),
    ),
    function(
        "int",
        overload("int64_to_int64", "int -> int", _same),
        overload("double_to_int64", "double -> int", _double_to_int),
        overload("duration_to_int64", "duration -> int", lambda duration: duration.nanoseconds),
        overload("string_to_int64", "string -> int", _string_to_int),
        overload("timestamp_to_int64", "timestamp -> int", lambda timestamp: timestamp.nanoseconds // SECOND),
        overload("uint64_to_int64", "uint -> int", lambda number: integer(number.value)),
    ),
    function(
        "string",
        overload("string_to_string", "string -> string", _same),
        overload("bool_to_string", "bool -> string", to_string),
        overload("bytes_to_string", "bytes -> string", to_string),
        overload("double_to_string", "double -> string", to_string),
        overload("duration_to_string", "duration -> string", to_string),
        overload("int64_to_string", "int -> string", to_string),
        overload("timestamp_to_string", "timestamp -> string", to_string),
        overload("uint64_to_string", "uint -> string", to_string),
    ),
    function(
        "timestamp",
        overload("timestamp_to_timestamp", "timestamp -> timestamp", _same),
        overload("int64_to_timestamp", "int -> timestamp", from_seconds),
        overload("string_to_timestamp", "string -> timestamp", _string_to_timestamp),
    ),
    function(
        "uint",
        overload("uint64_to_uint64", "uint -> uint", _same),
        overload("double_to_uint64", "double -> uint", _double_to_uint),
        overload("int64_to_uint64", "int -> uint", unsigned),
        overload("string_to_uint64", "string -> uint", _string_to_uint),
    ),
)
