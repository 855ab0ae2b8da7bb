"""Kubernetes' semantic version library. Numbers are uint64; build metadata takes no part in comparing."""

import re

from headrace.cel.declarations import Function, function, method, overload
from headrace.cel.errors import EvaluationError
from headrace.cel.libraries.formatting import quoted
from headrace.cel.values import UINT_MAX, Semver, Value

_WORD = re.compile(r"[0-9A-Za-z-]+")
_NUMBER = re.compile(r"[0-9]*")


def read_semver(text: str) -> Semver | EvaluationError:
    """MAJOR.MINOR.PATCH with an optional pre-release and build; an error in the reference's words otherwise."""
    if not text:
        return EvaluationError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        return EvaluationError("No Major.Minor.Patch elements found")
    rest, plus, build_text = parts[2].partition("+")
    patch, minus, pre_text = rest.partition("-")
    core: list[int] = []
    for name, digits in (("major", parts[0]), ("minor", parts[1]), ("patch", patch)):
        number = _number(name, digits)
        if isinstance(number, EvaluationError):
            return number
        core.append(number)
    pre: list[tuple[int, int | str]] = []
    for word in pre_text.split(".") if minus else ():
        part = _pre_release(word)
        if isinstance(part, EvaluationError):
            return part
        pre.append(part)
    build = tuple(build_text.split(".")) if plus else ()
    for word in build:
        if not word:
            return EvaluationError("Build meta data is empty")
        if not _WORD.fullmatch(word):
            return EvaluationError(f"Invalid character(s) found in build meta data {quoted(word)}")
    return Semver((core[0], core[1], core[2]), tuple(pre), build)


def _number(name: str, digits: str) -> int | EvaluationError:
    if not _NUMBER.fullmatch(digits):
        return EvaluationError(f"Invalid character(s) found in {name} number {quoted(digits)}")
    if len(digits) > 1 and digits[0] == "0":
        return EvaluationError(f"{name.capitalize()} number must not contain leading zeroes {quoted(digits)}")
    return _uint64(digits)


def _uint64(digits: str) -> int | EvaluationError:
    if not digits:
        return EvaluationError('strconv.ParseUint: parsing "": invalid syntax')
    if len(digits) > 20 or int(digits) > UINT_MAX:
        return EvaluationError(f'strconv.ParseUint: parsing "{digits}": value out of range')
    return int(digits)


def _pre_release(word: str) -> tuple[int, int | str] | EvaluationError:
    if not word:
        return EvaluationError("Prerelease is empty")
    if _NUMBER.fullmatch(word):
        if len(word) > 1 and word[0] == "0":
            return EvaluationError(f"Numeric PreRelease version must not contain leading zeroes {quoted(word)}")
        number = _uint64(word)
        return number if isinstance(number, EvaluationError) else (0, number)
    if not _WORD.fullmatch(word):
        return EvaluationError(f"Invalid character(s) found in prerelease {quoted(word)}")
    return (1, word)


def _normalized(text: str) -> Semver | EvaluationError:
    """`v1.2` and `01.2.3` too."""
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped[:1] in tuple("0123456789") else f"0{stripped}"
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        return EvaluationError("short version cannot contain PreRelease/Build meta data")
    return read_semver(".".join(parts + ["0"] * (3 - len(parts))))


def _read(text: str, normalize: bool = False) -> Value:
    return _normalized(text) if normalize else read_semver(text)


def _is_semver(text: str, normalize: bool = False) -> bool:
    return isinstance(_read(text, normalize), Semver)


def _compare(one: Semver, other: Semver) -> int:
    return (one.order() > other.order()) - (one.order() < other.order())


def _signed(number: int) -> int:
    """A uint64 as Go's int64."""
    return number - 2**64 if number >= 2**63 else number


FUNCTIONS: tuple[Function, ...] = (
    function(
        "semver",
        overload("string_to_semver", "string -> semver", _read),
        overload("string_bool_to_semver", "string, bool -> semver", _read),
    ),
    function(
        "isSemver",
        overload("is_semver_string", "string -> bool", _is_semver),
        overload("is_semver_string_bool", "string, bool -> bool", _is_semver),
    ),
    function(
        "isGreaterThan",
        method("semver_is_greater_than", "semver, semver -> bool", lambda one, other: _compare(one, other) > 0),
    ),
    function(
        "isLessThan",
        method("semver_is_less_than", "semver, semver -> bool", lambda one, other: _compare(one, other) < 0),
    ),
    function("compareTo", method("semver_compare_to", "semver, semver -> int", _compare)),
    function("major", method("semver_major", "semver -> int", lambda version: _signed(version.core[0]))),
    function("minor", method("semver_minor", "semver -> int", lambda version: _signed(version.core[1]))),
    function("patch", method("semver_patch", "semver -> int", lambda version: _signed(version.core[2]))),
)
