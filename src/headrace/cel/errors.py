"""What goes wrong with an expression: at compile time (with a place in the source) and while it is evaluated.

Messages begin with Kubernetes' words, so that a condition or an event reads the same as on a cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass

SNIPPET_CHARACTERS = 16_384
ISSUES_SHOWN = 100
WIDE_DOT, WIDE_CARET = "\uff0e", "\uff3e"


@dataclass(frozen=True, slots=True)
class Issue:
    """One complaint about the source: `offset` counts code points from its beginning."""

    offset: int
    message: str


class CompileError(Exception):
    """The expression is refused. `str()` is the whole text as Kubernetes prints it; `issues` has the places.

    Source of the layout: cel-go's error display (`ERROR: <input>:LINE:COLUMN: MESSAGE`, the line, a caret).
    """

    def __init__(self, detail: str, issues: Sequence[Issue] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.issues = tuple(issues)


class EvaluationError(Exception):
    """The expression failed on this input, in Kubernetes' words (`no such key: model`)."""


class CostLimitExceeded(EvaluationError):
    """The evaluation was stopped at the run-time cost limit."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


def compilation_failed(source: str, issues: Sequence[Issue]) -> CompileError:
    """The error for an expression that does not parse or check, each issue with its line and caret."""
    placed = sorted(((*position(source, issue.offset), issue.message) for issue in issues), key=lambda found: found[:2])
    shown = [display(source, line, column, message) for line, column, message in placed[:ISSUES_SHOWN]]
    if len(placed) > ISSUES_SHOWN:
        shown.append(f"{len(placed) - ISSUES_SHOWN} more errors were truncated")
    return CompileError("compilation failed: " + "\n".join(shown), issues)


def position(source: str, offset: int) -> tuple[int, int]:
    """Line (from 1) and column (from 0) of an offset; an issue without a place is at line -1."""
    if offset < 0:
        return -1, -1
    before = source[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1)


def display(source: str, line: int, column: int, message: str) -> str:
    """One issue with the line it is in and a caret below the place; wide characters get wide dots."""
    text = f"ERROR: <input>:{line}:{column + 1}: {message}"
    lines = source.split("\n")
    if not 1 <= line <= len(lines) or len(lines[line - 1].encode()) > SNIPPET_CHARACTERS:
        return text
    snippet = lines[line - 1].replace("\t", " ")
    dots = "".join(WIDE_DOT if ord(character) > 127 else "." for character in snippet[: max(column, 0)])
    caret = WIDE_CARET if len(snippet) > column >= 0 and ord(snippet[column]) > 127 else "^"
    return f"{text}\n | {snippet}\n | {dots}{caret}"
