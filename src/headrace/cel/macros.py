"""What `has`, `all`, `exists`, `map`, `filter`, `cel.bind` and their kin expand to while an expression is parsed.

Sources: cel-go's standard macros, its optional, bindings, two-variable comprehension and list extensions.
"""

from collections.abc import Callable
from dataclasses import replace

from headrace.cel.ast import (
    ACCUMULATOR,
    UNUSED,
    Call,
    Comprehension,
    Entry,
    Field,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Numbering,
    Select,
    Struct,
)
from headrace.cel.values import Value


class MacroError(Exception):
    """A macro was called with arguments it cannot take."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message


class Maker:
    """Makes the nodes of one expansion; they all point at the macro's own place in the source."""

    def __init__(self, numbers: Numbering, offset: int) -> None:
        self._numbers = numbers
        self._offset = offset

    def literal(self, value: Value) -> Node:
        return Literal(self._numbers.take(), self._offset, value)

    def ident(self, name: str) -> Node:
        return Ident(self._numbers.take(), self._offset, name)

    def accumulator(self) -> Node:
        return self.ident(ACCUMULATOR)

    def call(self, function: str, *arguments: Node) -> Node:
        return Call(self._numbers.take(), self._offset, function, None, list(arguments))

    def method(self, function: str, target: Node, *arguments: Node) -> Node:
        return Call(self._numbers.take(), self._offset, function, target, list(arguments))

    def list(self, *elements: Node) -> Node:
        return ListNode(self._numbers.take(), self._offset, list(elements))

    def map(self) -> Node:
        return MapNode(self._numbers.take(), self._offset, [])

    def presence(self, operand: Node, name: str) -> Node:
        return Select(self._numbers.take(), self._offset, operand, name, test=True)

    def fold(
        self, over: Node, variables: tuple[str, str], accumulator: str,
        initial: Node, condition: Node, step: Node, result: Node,
    ) -> Node:  # fmt: skip
        number = self._numbers.take()
        return Comprehension(number, self._offset, over, *variables, accumulator, initial, condition, step, result)

    def bind(self, name: str, value: Node, result: Node) -> Node:
        """A fold over nothing, whose accumulator is the name."""
        return self.fold(self.list(), (UNUSED, ""), name, value, self.literal(False), self.ident(name), result)

    def copy(self, node: Node) -> Node:
        """The same tree with numbers of its own."""
        number = self._numbers.take()
        match node:
            case Select():
                return replace(node, id=number, operand=self.copy(node.operand))
            case Call():
                target = None if node.target is None else self.copy(node.target)
                return replace(node, id=number, target=target, arguments=[self.copy(each) for each in node.arguments])
            case ListNode():
                return replace(node, id=number, elements=[self.copy(each) for each in node.elements])
            case MapNode():
                return replace(node, id=number, entries=[self._copy_entry(each) for each in node.entries])
            case Struct():
                return replace(node, id=number, fields=[self._copy_field(each) for each in node.fields])
            case Comprehension():
                return replace(
                    node, id=number, range=self.copy(node.range), initial=self.copy(node.initial),
                    condition=self.copy(node.condition), step=self.copy(node.step), result=self.copy(node.result),
                )  # fmt: skip
            case _:
                return replace(node, id=number)

    def _copy_entry(self, entry: Entry) -> Entry:
        return replace(entry, id=self._numbers.take(), key=self.copy(entry.key), value=self.copy(entry.value))

    def _copy_field(self, each: Field) -> Field:
        return replace(each, id=self._numbers.take(), value=self.copy(each.value))


Macro = Callable[[Maker, Node | None, list[Node]], Node | None]


def _has(make: Maker, _target: Node | None, arguments: list[Node]) -> Node:
    operand = arguments[0]
    if not isinstance(operand, Select):
        raise MacroError(operand.offset, "invalid argument to has() macro")
    return make.presence(operand.operand, operand.name)


def _variables(make: Maker, names: list[Node], complaint: str) -> tuple[str, str]:
    found = []
    for node in names:
        if not isinstance(node, Ident):
            raise MacroError(node.offset, complaint)
        found.append(node.name)
    if len(found) == 2 and found[0] == found[1]:
        raise MacroError(names[1].offset, f"duplicate variable name: {found[0]}")
    for name, node in zip(found, names, strict=True):
        if name in (ACCUMULATOR, "__result__"):
            raise MacroError(node.offset, "iteration variable overwrites accumulator variable")
    return found[0], found[1] if len(found) == 2 else ""


def _quantifier(kind: str, count: int) -> Macro:
    def expand(make: Maker, target: Node | None, arguments: list[Node]) -> Node:
        assert target is not None
        names = _variables(make, arguments[:count], "argument must be a simple name")
        predicate = arguments[count]
        if kind == "all":
            condition = make.call("@not_strictly_false", make.accumulator())
            step = make.call("_&&_", make.accumulator(), predicate)
            return make.fold(target, names, ACCUMULATOR, make.literal(True), condition, step, make.accumulator())
        if kind == "exists":
            condition = make.call("@not_strictly_false", make.call("!_", make.accumulator()))
            step = make.call("_||_", make.accumulator(), predicate)
            return make.fold(target, names, ACCUMULATOR, make.literal(False), condition, step, make.accumulator())
        one_more = make.call("_+_", make.accumulator(), make.literal(1))
        step = make.call("_?_:_", predicate, one_more, make.accumulator())
        result = make.call("_==_", make.accumulator(), make.literal(1))
        return make.fold(target, names, ACCUMULATOR, make.literal(0), make.literal(True), step, result)

    return expand


def _collect(make: Maker, target: Node, names: tuple[str, str], into: Node, step: Node, keep: Node | None) -> Node:
    if keep is not None:
        step = make.call("_?_:_", keep, step, make.accumulator())
    return make.fold(target, names, ACCUMULATOR, into, make.literal(True), step, make.accumulator())


def _map(make: Maker, target: Node | None, arguments: list[Node]) -> Node:
    assert target is not None
    names = _variables(make, arguments[:1], "argument is not an identifier")
    step = make.call("_+_", make.accumulator(), make.list(arguments[-1]))
    return _collect(make, target, names, make.list(), step, arguments[1] if len(arguments) == 3 else None)


def _filter(make: Maker, target: Node | None, arguments: list[Node]) -> Node:
    assert target is not None
    names = _variables(make, arguments[:1], "argument is not an identifier")
    step = make.call("_+_", make.accumulator(), make.list(arguments[0]))
    return _collect(make, target, names, make.list(), step, arguments[1])


def _transform_list(make: Maker, target: Node | None, arguments: list[Node]) -> Node:
    assert target is not None
    names = _variables(make, arguments[:2], "argument must be a simple name")
    step = make.call("_+_", make.accumulator(), make.list(arguments[-1]))
    return _collect(make, target, names, make.list(), step, arguments[2] if len(arguments) == 4 else None)


def _transform_map(make: Maker, target: Node | None, arguments: list[Node]) -> Node:
    assert target is not None
    names = _variables(make, arguments[:2], "argument must be a simple name")
    step = make.call("cel.@mapInsert", make.accumulator(), make.ident(names[0]), arguments[-1])
    return _collect(make, target, names, make.map(), step, arguments[2] if len(arguments) == 4 else None)


def _transform_map_entry(make: Maker, target: Node | None, arguments: list[Node]) -> Node:
    assert target is not None
    names = _variables(make, arguments[:2], "argument must be a simple name")
    step = make.call("cel.@mapInsert", make.accumulator(), arguments[-1])
    return _collect(make, target, names, make.map(), step, arguments[2] if len(arguments) == 4 else None)


def _optional_map(flat: bool) -> Macro:
    word = "optFlatMap" if flat else "optMap"

    def expand(make: Maker, target: Node | None, arguments: list[Node]) -> Node:
        assert target is not None
        name = arguments[0]
        if not isinstance(name, Ident):
            raise MacroError(name.offset, f"{word}() variable name must be a simple identifier")
        value = make.bind(name.name, make.method("value", make.copy(target)), arguments[1])
        present = value if flat else make.call("optional.of", value)
        return make.call("_?_:_", make.method("hasValue", target), present, make.call("optional.none"))

    return expand


def _bind(make: Maker, target: Node | None, arguments: list[Node]) -> Node | None:
    if not (isinstance(target, Ident) and target.name == "cel"):
        return None
    name = arguments[0]
    if not isinstance(name, Ident):
        raise MacroError(name.offset, "cel.bind() variable names must be simple identifiers")
    return make.bind(name.name, arguments[1], arguments[2])


def _sort_by(make: Maker, target: Node | None, arguments: list[Node]) -> Node:
    assert target is not None
    if not isinstance(target, ListNode | Select | Ident | Comprehension | Call):
        message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise MacroError(target.offset, message)
    keys = _map(make, make.ident("@__sortBy_input__"), arguments)
    sort = make.method("@sortByAssociatedKeys", make.ident("@__sortBy_input__"), keys)
    return make.bind("@__sortBy_input__", target, sort)


# By name, number of arguments, and whether it is called on something.
MACROS: dict[tuple[str, int, bool], Macro] = {
    ("has", 1, False): _has,
    ("all", 2, True): _quantifier("all", 1),
    ("exists", 2, True): _quantifier("exists", 1),
    ("exists_one", 2, True): _quantifier("one", 1),
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("optMap", 2, True): _optional_map(flat=False),
    ("optFlatMap", 2, True): _optional_map(flat=True),
    ("all", 3, True): _quantifier("all", 2),
    ("exists", 3, True): _quantifier("exists", 2),
    ("existsOne", 3, True): _quantifier("one", 2),
    ("exists_one", 3, True): _quantifier("one", 2),
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
    ("sortBy", 2, True): _sort_by,
    ("bind", 3, True): _bind,
}
