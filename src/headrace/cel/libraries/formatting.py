"""`"...".format([...])`: cel-go's string formatting, version 1, with its English numbers.

The same reader of clauses serves run time and the check of constant format strings (`clauses`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.cel.errors import EvaluationError
from headrace.cel.libraries.conversions import string_to_double, to_string
from headrace.cel.values import Duration, Timestamp, TypeValue, Uint, Value, is_list, is_map, key_value, type_name

DEFAULT_PRECISION = 6
MOST_PRECISION = 1_000_000
_SUPERSCRIPT = str.maketrans("0123456789+-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻")
_STRINGS = frozenset({int, Uint, float, bool, str, Timestamp, bytes, Duration, TypeValue})
_ESCAPES = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"',
}  # fmt: skip

WRONG = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
    "timestamps, was given {}",
    "d": "decimal clause can only be used on integers, was given {}",
    "f": "fixed-point clause can only be used on doubles, was given {}",
    "e": "scientific clause can only be used on doubles, was given {}",
    "b": "only integers and bools can be formatted as binary, was given {}",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "o": "octal clause can only be used on integers, was given {}",
}


class FormatProblem(Exception):
    """The format string or one of its arguments is wrong; the message is cel-go's."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One `%...` of a format string; `verb` is "" for text that stands for itself."""

    text: str
    verb: str = ""
    precision: int | None = None


def clauses(text: str, count: int) -> Iterator[Clause]:
    """The pieces of a format string for `count` arguments, in order; raises FormatProblem where one cannot be read."""
    at, used = 0, 0
    while at < len(text):
        if text[at] != "%":
            end = text.find("%", at)
            end = len(text) if end < 0 else end
            yield Clause(text[at:end])
            at = end
        elif text[at + 1 : at + 2] == "%":
            yield Clause("%")
            at += 2
        else:
            if used >= count:
                raise FormatProblem(f"index {used} out of range")
            if at + 1 >= len(text):
                raise FormatProblem("unexpected end of string")
            clause, at = _clause(text, at + 1)
            yield clause
            used += 1


def _clause(text: str, at: int) -> tuple[Clause, int]:
    precision = None
    if text[at] == ".":
        end = at + 1
        while end < len(text) and text[end] in "0123456789":
            end += 1
        problem = "could not parse formatting clause: error while parsing precision: "
        if end >= len(text):
            raise FormatProblem(f"{problem}could not find end of precision specifier")
        digits = text[at + 1 : end]
        if not digits:
            raise FormatProblem(
                f'{problem}error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
            )
        precision, at = int(digits), end
    verb = text[at]
    if verb not in "sdfebxXo":
        raise FormatProblem(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
    return Clause("", verb, precision), at + 1


def format_text(text: str, arguments: list[Value]) -> str | EvaluationError:
    parts: list[str] = []
    used = 0
    try:
        for clause in clauses(text, len(arguments)):
            if not clause.verb:
                parts.append(clause.text)
                continue
            parts.append(_formatted(clause, arguments[used]))
            used += 1
    except FormatProblem as problem:
        return EvaluationError(str(problem))
    return "".join(parts)


def _formatted(clause: Clause, value: Value) -> str:
    try:
        match clause.verb:
            case "s":
                return _string(value)
            case "d":
                return _decimal(value)
            case "f" | "e":
                return _floating(
                    clause.verb, DEFAULT_PRECISION if clause.precision is None else clause.precision, value
                )
            case "b":
                return _based("b", value)
            case "o":
                return _based("o", value)
            case _:
                return _hexadecimal(clause.verb, value)
    except FormatProblem as problem:
        raise FormatProblem(f"error during formatting: {problem}") from None


def _wrong(verb: str, value: Value) -> FormatProblem:
    return FormatProblem(WRONG[verb].format(type_name(value)))


def _string(value: Value) -> str:
    if is_list(value):
        return _list(value)
    if is_map(value):
        return _map(value)
    if value is None:
        return "null"
    if type(value) not in _STRINGS:
        raise _wrong("s", value)
    text = to_string(value)
    if isinstance(text, EvaluationError):
        raise FormatProblem(f'could not convert argument "{text}" to string')
    return str(text)


def _decimal(value: Value) -> str:
    return str(_whole("d", value))


def _whole(verb: str, value: Value) -> int:
    """The number of an int or uint."""
    if type(value) is not int and type(value) is not Uint:
        raise _wrong(verb, value)
    return int(value.value) if isinstance(value, Uint) else int(value)


def _nested(value: Value) -> str:
    """An element of a list or map, quoted as its literal would be."""
    kind = type(value)
    if kind is str:
        return quoted(value)
    if kind is bytes:
        return f"b{quoted(_string(value))}"
    if kind is Timestamp:
        return f"timestamp({quoted(_string(value))})"
    if kind is Duration:
        return f"duration({quoted(_string(value))})"
    if kind is float:
        text = _go_fixed(value)
        return text if math.isfinite(value) else f'"{text}"'
    if kind in (int, Uint, bool, TypeValue) or value is None or is_list(value) or is_map(value):
        return _string(value)
    raise FormatProblem(f"no formatting function for {type_name(value)}")


def _go_fixed(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.{DEFAULT_PRECISION}f}"


def _list(elements: list[Value]) -> str:
    return f"[{', '.join(map(_nested, elements))}]"


def _map(mapping: dict[object, Value]) -> str:
    pairs = []
    for key, value in mapping.items():
        original = key_value(key)
        if type(original) not in (str, bool, int, Uint):
            raise FormatProblem(f"no formatting function for map key of type {type_name(original)}")
        pairs.append((_nested(original), _nested(value)))
    return "{" + ", ".join(f"{key}:{value}" for key, value in sorted(pairs, key=lambda pair: pair[0].encode())) + "}"


def quoted(text: str) -> str:
    """Go's %q."""
    parts = []
    for character in text:
        if character in _ESCAPES:
            parts.append(_ESCAPES[character])
        elif character.isprintable():
            parts.append(character)
        else:
            code = ord(character)
            parts.append(f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return '"' + "".join(parts) + '"'


def _floating(verb: str, precision: int, value: Value) -> str:
    if type(value) is str and value in ("NaN", "Infinity", "-Infinity"):
        value = string_to_double(value)
    if type(value) is not float:
        raise _wrong(verb, value)
    if precision > MOST_PRECISION:
        raise FormatProblem(f"precision {precision} exceeds maximum allowed precision {MOST_PRECISION}")
    if math.isnan(value):
        text = "NaN"
    elif math.isinf(value):
        text = "∞" if value > 0 else "-∞"
    else:
        text = f"{value:,.{precision}f}" if verb == "f" else _scientific(value)
    return text if verb == "f" else text.rjust(precision)


def _scientific(value: float) -> str:
    """Always six decimals: the reference takes a clause's precision for a width."""
    mantissa, exponent = f"{value:.{DEFAULT_PRECISION}e}".split("e")
    power = f"{'-' if exponent[0] == '-' else ''}{exponent[1:]}".translate(_SUPERSCRIPT)
    return f"{mantissa}×10{power}"  # noqa: RUF001


def _based(verb: str, value: Value) -> str:
    if type(value) is bool and verb == "b":
        return "1" if value else "0"
    return format(_whole(verb, value), verb)


def _hexadecimal(verb: str, value: Value) -> str:
    if type(value) is str or type(value) is bytes:
        raw = value.encode() if isinstance(value, str) else bytes(value)
        text = raw.hex()
        return text.upper() if verb == "X" else text
    return format(_whole("x", value), verb)
