"""Kubernetes' named formats (`format.uuid().validate(x)`): none for a valid string, else what is wrong with it."""

import re
from collections.abc import Callable
from datetime import date

from headrace.cel.declarations import Function, function, method, overload
from headrace.cel.libraries.urls import request_uri_problem
from headrace.cel.values import NONE, Format, Optional, Value

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_UUID = "[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
_BASE64 = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_UUID_PATTERN_SIZE, _DATETIME_PATTERN_SIZE = 70, 71


def _regex_problem(message: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _full(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text, re.ASCII) is not None


def _label(text: str) -> list[str]:
    problems = [_too_long(63)] if len(text.encode()) > 63 else []
    if not _full(_LABEL, text):
        problems.append(
            "must not contain dots"
            if _full(_SUBDOMAIN, text)
            else _regex_problem(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
                "and end with an alphanumeric character",
                _LABEL,
                "my-name",
                "123-abc",
            )
        )
    return problems


def _subdomain(text: str) -> list[str]:
    problems = [_too_long(253)] if len(text.encode()) > 253 else []
    if not _full(_SUBDOMAIN, text):
        message = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character"
        )
        problems.append(_regex_problem(message, _SUBDOMAIN, "example.com"))
    return problems


def _label_1035(text: str) -> list[str]:
    problems = [_too_long(63)] if len(text.encode()) > 63 else []
    if not _full(_LABEL_1035, text):
        message = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end with an alphanumeric character"
        )
        problems.append(_regex_problem(message, _LABEL_1035, "my-name", "abc-123"))
    return problems


_NAME_WORDS = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)


def _qualified_name(text: str) -> list[str]:
    problem = _regex_problem(_NAME_WORDS, _NAME, "MyName", "my.name", "123-abc")
    if text.count("/") > 1:
        return [
            f"a valid label key {problem} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    prefix, slash, name = text.rpartition("/")
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        problems += [f"prefix part {each}" for each in _subdomain(prefix)]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        problems.append(f"name part {_too_long(63)}")
    if not _full(_NAME, name):
        problems.append(f"name part {problem}")
    return problems


def _label_value(text: str) -> list[str]:
    problems = [_too_long(63)] if len(text.encode()) > 63 else []
    if not _full(f"({_NAME})?", text):
        message = f"a valid label must be an empty string or {_NAME_WORDS.removeprefix('must ')}"
        problems.append(_regex_problem(message, f"({_NAME})?", "MyValue", "my_value", "12345"))
    return problems


def _as_prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """A name that more will be put behind may end in a dash."""
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _is_uuid(text: str) -> bool:
    return _full(f"(?i:{_UUID})", text)


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text) or text.startswith("0000"):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    parts = text.lower().split("t")
    if len(parts) < 2 or not _is_date(parts[0]):
        return False
    clock = _CLOCK.fullmatch(parts[1])
    return clock is not None and clock[1] <= "23" and clock[2] <= "59" and clock[3] <= "59"


def _when(holds: Callable[[str], bool], problem: str) -> Callable[[str], list[str]]:
    return lambda text: [] if holds(text) else [problem]


def _uri(text: str) -> list[str]:
    problem = request_uri_problem(text)
    return [] if problem is None else [problem]


# Key in an expression: (name, size of regular expression that validating is charged for, check).
_FORMATS: dict[str, tuple[str, int, Callable[[str], list[str]]]] = {
    "dns1123Label": ("DNS1123Label", 30, _label),
    "dns1123Subdomain": ("DNS1123Subdomain", 60, _subdomain),
    "dns1035Label": ("DNS1035Label", 30, _label_1035),
    "qualifiedName": ("QualifiedName", 60, _qualified_name),
    "dns1123LabelPrefix": ("DNS1123LabelPrefix", 30, _as_prefix(_label)),
    "dns1123SubdomainPrefix": ("DNS1123SubdomainPrefix", 60, _as_prefix(_subdomain)),
    "dns1035LabelPrefix": ("DNS1035LabelPrefix", 30, _as_prefix(_label_1035)),
    "labelValue": ("LabelValue", 40, _label_value),
    "uri": ("URI", 1103, _uri),
    "uuid": ("uuid", _UUID_PATTERN_SIZE, _when(_is_uuid, "does not match the UUID format")),
    "byte": ("byte", 84, _when(lambda text: _full(_BASE64, text), "invalid base64")),
    "date": ("date", _DATETIME_PATTERN_SIZE, _when(_is_date, "invalid date")),
    "datetime": ("datetime", _DATETIME_PATTERN_SIZE, _when(_is_datetime, "invalid datetime")),
}
_VALUES = {key: Format(name, size, key) for key, (name, size, _) in _FORMATS.items()}


def _named(name: str) -> Optional:
    found = _VALUES.get(name)
    return NONE if found is None else Optional(found)


def _validate(wanted: Format, text: str) -> Value:
    problems = _FORMATS[wanted.key][2](text)
    return Optional(list(problems)) if problems else NONE


def _constant(key: str) -> Function:
    return function(f"format.{key}", overload(f"format.{key}", " -> format", lambda: _VALUES[key]))


FUNCTIONS: tuple[Function, ...] = (
    function("validate", method("format-validate", "format, string -> optional(list(string))", _validate)),
    function("format.named", overload("format-named", "string -> optional(format)", _named)),
    *map(_constant, _FORMATS),
)
