"""Checks of a well-typed expression that come afterwards: literals that cannot be right, mixed lists, formats."""

from collections.abc import Iterator

from headrace.cel.ast import Call, ListNode, Literal, MapNode, Node, children
from headrace.cel.checker import Checked
from headrace.cel.errors import EvaluationError, Issue
from headrace.cel.libraries import regexes
from headrace.cel.libraries.formatting import WRONG, FormatProblem, clauses
from headrace.cel.libraries.times import from_seconds, read_duration, read_timestamp
from headrace.cel.types import Type, equivalent, is_optional, shown
from headrace.cel.values import Duration, Timestamp

_STRINGS = frozenset(
    {"list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null"}
)
_FITTING: dict[str, frozenset[str]] = {
    "s": _STRINGS,
    "d": frozenset({"int", "uint"}),
    "f": frozenset({"double", "string"}),
    "e": frozenset({"double", "string"}),
    "b": frozenset({"int", "uint", "bool"}),
    "x": frozenset({"int", "uint", "string", "bytes"}),
    "X": frozenset({"int", "uint", "string", "bytes"}),
    "o": frozenset({"int", "uint"}),
}


def validate(checked: Checked) -> list[Issue]:
    found: list[Issue] = []
    for node, formatted in _walk(checked.root, False):
        match node:
            case Call():
                found += _literal_argument(node)
                if node.function == "format" and node.target is not None:
                    found += _format(checked, node)
            case ListNode() if not formatted:
                found += _list(checked, node)
            case MapNode() if not formatted:
                found += _map(checked, node)
    return found


def _walk(node: Node, formatted: bool) -> Iterator[tuple[Node, bool]]:
    """Every node, and whether it is anywhere below a call of format()."""
    yield node, formatted
    inside = formatted or (isinstance(node, Call) and node.function == "format")
    for child in children(node):
        yield from _walk(child, inside)


def _literal_argument(node: Call) -> list[Issue]:
    if node.function not in ("duration", "timestamp", "matches") or not node.arguments:
        return []
    argument = node.arguments[0]
    if not isinstance(argument, Literal) or type(argument.value) not in (str, int):
        return []
    if type(argument.value) is int:
        valid = node.function != "timestamp" or isinstance(from_seconds(argument.value), Timestamp)
    elif node.function == "matches":
        valid = not isinstance(regexes.compiled(argument.value), EvaluationError)
    elif node.function == "duration":
        valid = isinstance(read_duration(argument.value), Duration)
    else:
        valid = isinstance(read_timestamp(argument.value), Timestamp)
    return [] if valid else [Issue(argument.offset, f"invalid {node.function} argument")]


def _content(kind: Type, optional: bool) -> Type:
    return kind.parameters[0] if optional and is_optional(kind) else kind


def _mixed(node: Node, expected: Type, actual: Type) -> Issue:
    return Issue(node.offset, f"expected type '{shown(expected)}' but found '{shown(actual)}'")


def _list(checked: Checked, node: ListNode) -> list[Issue]:
    first: Type | None = None
    for index, element in enumerate(node.elements):
        kind = _content(checked.type(element), index in node.optional)
        if first is None:
            first = kind
        elif not equivalent(first, kind):
            return [_mixed(element, first, kind)]
    return []


def _map(checked: Checked, node: MapNode) -> list[Issue]:
    found: list[Issue] = []
    first: tuple[Type, Type] | None = None
    for entry in node.entries:
        kinds = checked.type(entry.key), _content(checked.type(entry.value), entry.optional)
        first = first or kinds
        for side, expected, actual in zip((entry.key, entry.value), first, kinds, strict=True):
            if not equivalent(expected, actual):
                found.append(_mixed(side, expected, actual))
    return found


def _format(checked: Checked, node: Call) -> list[Issue]:
    """A constant format string is held against the types of its arguments."""
    overloads = checked.overloads.get(node.id, ())
    if (overloads and "string_format" not in overloads) or len(node.arguments) != 1:
        return []
    text, arguments = node.target, node.arguments[0]
    if not isinstance(text, Literal) or type(text.value) is not str or not isinstance(arguments, ListNode):
        return []
    used = 0
    try:
        for clause in clauses(text.value, len(arguments.elements)):
            if not clause.verb:
                continue
            argument = arguments.elements[used]
            wrong = _misfit(checked, argument, clause.verb)
            if wrong is not None:
                words = WRONG[clause.verb.lower()].format(checked.type(wrong).name)
                return [Issue(wrong.offset, f"error during formatting: {words}")]
            used += 1
    except FormatProblem as problem:
        return [Issue(node.offset, str(problem))]
    if len(arguments.elements) > used:
        message = f"too many arguments supplied to string.format (expected {used}, got {len(arguments.elements)})"
        return [Issue(node.offset, message)]
    return []


def _misfit(checked: Checked, node: Node, verb: str) -> Node | None:
    """The argument, or the part of it, that the clause cannot show."""
    kind = checked.type(node).kind
    if kind != "dyn" and kind not in _FITTING[verb]:
        return node
    if verb != "s":
        return None
    parts: list[Node] = []
    if isinstance(node, ListNode):
        parts = node.elements
    elif isinstance(node, MapNode):
        parts = [each for entry in node.entries for each in (entry.key, entry.value)]
    return next((wrong for part in parts if (wrong := _misfit(checked, part, verb)) is not None), None)
