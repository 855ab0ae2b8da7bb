"""Functions on strings: cel-go's own and its strings extension, version 2. Positions count code points."""

import re

from headrace.cel.declarations import Function, function, method, overload
from headrace.cel.errors import EvaluationError
from headrace.cel.libraries.formatting import format_text
from headrace.cel.values import Value, is_list, no_overload

_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"  # noqa: E501
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_QUOTES = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def contains(text: Value, part: Value) -> Value:
    return part in text if type(text) is str and type(part) is str else no_overload()


def starts_with(text: Value, part: Value) -> Value:
    return text.startswith(part) if type(text) is str and type(part) is str else no_overload()


def ends_with(text: Value, part: Value) -> Value:
    return text.endswith(part) if type(text) is str and type(part) is str else no_overload()


def _char_at(text: str, index: int) -> Value:
    return text[index : index + 1] if 0 <= index <= len(text) else _out_of_range(index)


def _index_of(text: str, part: str, start: int = 0) -> Value:
    if start < 0:
        return _out_of_range(start)
    if not part:
        return min(start, len(text))
    return text.find(part, start)


def _last_index_of(text: str, part: str) -> Value:
    if not part:
        return len(text)
    if len(text.encode()) < len(part.encode()):
        return -1
    return _last_index_from(text, part, len(text) - 1)


def _last_index_from(text: str, part: str, start: int) -> Value:
    if start < 0:
        return _out_of_range(start)
    if not part:
        return min(start, len(text))
    return -1 if start >= len(text) else text.rfind(part, 0, start + len(part))


def _replace(text: str, old: str, new: str, count: int = -1) -> Value:
    return text.replace(old, new, count)


def _split(text: str, separator: str, count: int = -1) -> Value:
    if count == 0:
        return []
    if separator:
        return text.split(separator, count - 1 if count > 0 else -1)
    characters = list(text)
    if 0 < count < len(characters):
        return [*characters[: count - 1], "".join(characters[count - 1 :])]
    return characters


def _substring(text: str, start: int) -> Value:
    return text[start:] if 0 <= start <= len(text) else _out_of_range(start)


def _substring_range(text: str, start: int, end: int) -> Value:
    if start > end:
        return EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            return _out_of_range(index)
    return text[start:end]


def _join(parts: list[Value], separator: str = "") -> Value:
    for part in parts:
        if type(part) is not str:
            return EvaluationError(f"join: invalid input: {part}")
    return separator.join(parts)


def _quote(text: str) -> Value:
    return '"' + re.sub(r'[\a\b\f\n\r\t\v\\"]', lambda match: _QUOTES[match[0]], text) + '"'


def _format(text: str, arguments: Value) -> Value:
    return format_text(text, arguments) if is_list(arguments) else no_overload()


FUNCTIONS: tuple[Function, ...] = (
    function("contains", method("contains_string", "string, string -> bool", contains), unguarded=True),
    function("endsWith", method("ends_with_string", "string, string -> bool", ends_with), unguarded=True),
    function("startsWith", method("starts_with_string", "string, string -> bool", starts_with), unguarded=True),
    function("charAt", method("string_char_at_int", "string, int -> string", _char_at)),
    function(
        "indexOf",
        method("string_index_of_string", "string, string -> int", _index_of),
        method("string_index_of_string_int", "string, string, int -> int", _index_of),
    ),
    function(
        "lastIndexOf",
        method("string_last_index_of_string", "string, string -> int", _last_index_of),
        method("string_last_index_of_string_int", "string, string, int -> int", _last_index_from),
    ),
    function("lowerAscii", method("string_lower_ascii", "string -> string", lambda text: text.translate(_LOWER))),
    function(
        "replace",
        method("string_replace_string_string", "string, string, string -> string", _replace),
        method("string_replace_string_string_int", "string, string, string, int -> string", _replace),
    ),
    function(
        "split",
        method("string_split_string", "string, string -> list(string)", _split),
        method("string_split_string_int", "string, string, int -> list(string)", _split),
    ),
    function(
        "substring",
        method("string_substring_int", "string, int -> string", _substring),
        method("string_substring_int_int", "string, int, int -> string", _substring_range),
    ),
    function("trim", method("string_trim", "string -> string", lambda text: text.strip(_SPACE))),
    function("upperAscii", method("string_upper_ascii", "string -> string", lambda text: text.translate(_UPPER))),
    function("format", method("string_format", "string, list(dyn) -> string", _format, one_by_one=True)),
    function("strings.quote", overload("strings_quote", "string -> string", _quote)),
    function(
        "join",
        method("list_join", "list(string) -> string", _join),
        method("list_join_string", "list(string), string -> string", _join),
    ),
)
