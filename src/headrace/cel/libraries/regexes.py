"""Regular expressions, by RE2 itself: what Go's regexp takes and finds, in linear time."""

from functools import lru_cache
from typing import Any

import re2

from headrace.cel.declarations import Function, function, method, overload
from headrace.cel.errors import EvaluationError
from headrace.cel.values import Value

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_nl = False


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> Any:
    """The compiled pattern, or an EvaluationError in place of one."""
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        return EvaluationError(f"error parsing regexp: {_words(error.args[0])}")


# What RE2 and Go's regexp call differently.
_GO_WORDS = {
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}


def _words(told: bytes | str) -> str:
    """RE2's complaint as Go words it."""
    text = told.decode(errors="replace") if isinstance(told, bytes) else str(told)
    problem, _, part = text.partition(": ")
    return f"{_GO_WORDS.get(problem, problem)}: `{part}`"


def matches(text: Value, pattern: Value) -> Value:
    if type(text) is not str:
        return EvaluationError("no such overload: matches")
    if type(pattern) is not str:
        return EvaluationError("no such overload")
    program = compiled(pattern)
    return EvaluationError(str(program)) if isinstance(program, EvaluationError) else program.search(text) is not None


def _find(text: str, pattern: str) -> Value:
    program = compiled(pattern)
    if isinstance(program, EvaluationError):
        return EvaluationError(f"Illegal regex: {program}")
    found = program.search(text)
    return found.group() if found else ""


def _find_all(text: str, pattern: str, count: int = -1) -> Value:
    program = compiled(pattern)
    if isinstance(program, EvaluationError):
        return EvaluationError(f"Illegal regex: {program}")
    found: list[str] = []
    if count == 0:
        return found
    last_end = -1
    for match in program.finditer(text):
        if match.start() == match.end() == last_end:
            continue
        last_end = match.end()
        found.append(match.group())
        if len(found) == count:
            break
    return found


# Functions whose second argument, if constant, must be a valid pattern when the expression is compiled.
NAMES = frozenset({"matches", "find", "findAll"})

FUNCTIONS: tuple[Function, ...] = (
    function(
        "matches",
        overload("matches", "string, string -> bool"),
        method("matches_string", "string, string -> bool"),
        operation=matches,
    ),
    function("find", method("string_find_string", "string, string -> string", _find)),
    function(
        "findAll",
        method("string_find_all_string", "string, string -> list(string)", _find_all),
        method("string_find_all_string_int", "string, string, int -> list(string)", _find_all),
    ),
)
