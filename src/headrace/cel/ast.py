"""The expression tree. Every node has a number of its own and the offset in the source that messages point at.

The parser builds it, macros expand in it, the checker replaces names by what they mean; nothing evaluates it directly.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.cel.values import Value

ACCUMULATOR = "@result"
UNUSED = "#unused"


@dataclass(slots=True, eq=False)
class Node:
    id: int
    offset: int


@dataclass(slots=True, eq=False)
class Literal(Node):
    value: Value


@dataclass(slots=True, eq=False)
class Ident(Node):
    name: str


@dataclass(slots=True, eq=False)
class Select(Node):
    """`operand.name`; with `test` it is has(operand.name)."""

    operand: Node
    name: str
    test: bool = False


@dataclass(slots=True, eq=False)
class Call(Node):
    """A function, operator or method: `target` is None for the first two."""

    function: str
    target: Node | None
    arguments: list[Node]

    def operands(self) -> list[Node]:
        return self.arguments if self.target is None else [self.target, *self.arguments]


@dataclass(slots=True, eq=False)
class ListNode(Node):
    elements: list[Node]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Entry:
    id: int
    offset: int
    key: Node
    value: Node
    optional: bool


@dataclass(slots=True, eq=False)
class MapNode(Node):
    entries: list[Entry]


@dataclass(slots=True, eq=False)
class Field:
    id: int
    offset: int
    name: str
    value: Node
    optional: bool


@dataclass(slots=True, eq=False)
class Struct(Node):
    name: str
    fields: list[Field]


@dataclass(slots=True, eq=False)
class Comprehension(Node):
    """A fold: what every macro over a list or map, and cel.bind, becomes. `variable2` is "" for one variable."""

    range: Node
    variable: str
    variable2: str
    accumulator: str
    initial: Node
    condition: Node
    step: Node
    result: Node

    def is_bind(self) -> bool:
        """Whether this only names a value (cel.bind, optMap): it folds over nothing."""
        return (
            isinstance(self.range, ListNode)
            and not self.range.elements
            and isinstance(self.condition, Literal)
            and self.condition.value is False
            and self.accumulator != "__result__"
        )


@dataclass(slots=True, eq=False)
class Invalid(Node):
    """What stands where the source could not be understood; an issue was reported."""


@dataclass(slots=True)
class Numbering:
    """Gives out node numbers."""

    next: int = field(default=1)

    def take(self) -> int:
        number = self.next
        self.next += 1
        return number


def children(node: Node) -> list[Node]:
    match node:
        case Select(operand=operand):
            return [operand]
        case Call():
            return node.operands()
        case ListNode(elements=elements):
            return elements
        case MapNode(entries=entries):
            return [child for entry in entries for child in (entry.key, entry.value)]
        case Struct(fields=fields):
            return [each.value for each in fields]
        case Comprehension():
            return [node.range, node.initial, node.condition, node.step, node.result]
        case _:
            return []


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, parents first."""
    yield node
    for child in children(node):
        yield from walk(child)


def qualified_name(node: Node) -> str | None:
    """`a.b.c` written as names only, else None."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.test:
        prefix = qualified_name(node.operand)
        return None if prefix is None else f"{prefix}.{node.name}"
    return None
