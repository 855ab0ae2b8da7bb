"""The type checker: gives every node a type and every call its overloads, or says what does not fit.

Source: cel-go's checker. It rewrites the tree where a dotted name turns out to be one name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.cel import types
from headrace.cel.ast import (
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    Struct,
    qualified_name,
)
from headrace.cel.declarations import Function, Overload
from headrace.cel.environment import Environment
from headrace.cel.errors import Issue, compilation_failed
from headrace.cel.types import Type, is_dyn, is_dyn_or_error, is_optional, shown
from headrace.cel.unify import Substitution, assignable, most_general, substitute
from headrace.cel.values import Uint

_LITERALS: dict[type, Type] = {
    bool: types.BOOL, int: types.INT, Uint: types.UINT, float: types.DOUBLE, str: types.STRING, bytes: types.BYTES,
    type(None): types.NULL,
}  # fmt: skip


@dataclass(slots=True, eq=False)
class Checked:
    """A tree that fits its environment: types and overload ids by node number.

    `globals` are the identifiers that name a variable of the environment or a type, not a variable of the expression.
    """

    root: Node
    types: dict[int, Type]
    overloads: dict[int, tuple[str, ...]]
    globals: dict[int, str] = field(default_factory=dict)

    def type(self, node: Node) -> Type:
        return self.types[node.id]


def check(source: str, root: Node, environment: Environment) -> Checked:
    """Raises CompileError with all that does not fit."""
    checker = _Checker(environment)
    checked_root = checker.check(root)
    if checker.issues:
        raise compilation_failed(source, checker.issues)
    known = checker.known
    found = {number: substitute(known, kind, to_dyn=True) for number, kind in checker.types.items()}
    return Checked(checked_root, found, checker.overloads, checker.globals)


class _Checker:
    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._scopes: list[dict[str, Type]] = []
        self._fresh = 0
        self.issues: list[Issue] = []
        self.known: Substitution = {}
        self.types: dict[int, Type] = {}
        self.overloads: dict[int, tuple[str, ...]] = {}
        self.globals: dict[int, str] = {}

    def check(self, node: Node) -> Node:
        """Types the node and everything below it; what it returns takes the node's place."""
        match node:
            case Literal(value=value):
                self.types[node.id] = _LITERALS[type(value)]
            case Ident():
                self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                self._call(node)
            case ListNode():
                self._list(node)
            case MapNode():
                self._map(node)
            case Struct():
                self._struct(node)
            case Comprehension():
                self._comprehension(node)
            case _:
                self.types[node.id] = types.ERROR
        return node

    def _issue(self, node: Node, message: str) -> None:
        self.issues.append(Issue(node.offset, message))

    def _undeclared(self, node: Node, name: str) -> None:
        self.types[node.id] = types.ERROR
        self._issue(node, f"undeclared reference to '{name}' (in container '')")

    def _local(self, name: str) -> Type | None:
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), None)

    def _variable(self) -> Type:
        self._fresh += 1
        return types.parameter(f"_var{self._fresh - 1}")

    def _fit(self, given: Type, wanted: Type) -> bool:
        found = assignable(self.known, (given,), (wanted,))
        if found is not None:
            self.known = found
        return found is not None

    def _mismatch(self, node: Node, expected: Type, actual: Type) -> None:
        self._issue(node, f"expected type '{shown(expected)}' but found '{shown(actual)}'")

    def _ident(self, node: Ident) -> None:
        local = None if node.name.startswith(".") else self._local(node.name)
        if local is not None:
            self.types[node.id] = local
            return
        name = node.name.removeprefix(".")
        found = self._environment.named(name)
        if found is None:
            self._undeclared(node, node.name)
            return
        self.types[node.id] = found[0]
        self.globals[node.id] = name

    def _select(self, node: Select) -> Node:
        name = None if node.test else qualified_name(node)
        if name is not None:
            first = name.split(".", 2)[1 if name.startswith(".") else 0]
            found = self._environment.named(name.removeprefix("."))
            if found is not None and (name.startswith(".") or self._local(first) is None):
                self.types[node.id] = found[0]
                self.globals[node.id] = name.removeprefix(".")
                return Ident(node.id, node.offset, name)
        node.operand = self.check(node.operand)
        kind = self._field(node, node.operand, node.name, optional=False)
        self.types[node.id] = types.BOOL if node.test else substitute(self.known, kind)
        return node

    def _field(self, node: Node, operand: Node, name: str, optional: bool) -> Type:
        """The type of `operand.name`, optional where the operand is."""
        target = substitute(self.known, self.types[operand.id])
        was_optional = is_optional(target)
        if was_optional:
            target = target.parameters[0]
        result = types.DYN
        if target.kind == "map":
            result = target.parameters[1]
        elif target.kind == "struct":
            result = self._object_field(node, target, name)
        elif target.kind == "parameter":
            self._fit(types.DYN, target)
        elif not is_dyn_or_error(target):
            self._issue(node, f"type '{shown(target)}' does not support field selection")
        return types.optional_of(result) if was_optional or optional else result

    def _object_field(self, node: Node, target: Type, name: str) -> Type:
        fields = self._environment.objects.get(target.name)
        if fields is None:
            self._issue(node, f"unexpected failed resolution of '{target.name}'")
        elif name not in fields:
            self._issue(node, f"undefined field '{name}'")
        else:
            return fields[name]
        return types.ERROR

    def _call(self, node: Call) -> None:
        if node.function == "_?._":
            node.arguments[0] = self.check(node.arguments[0])
            field = node.arguments[1]
            assert isinstance(field, Literal)
            self.types[field.id] = types.STRING
            kind = self._field(node, node.arguments[0], field.value, optional=True)
            self.types[node.id] = substitute(self.known, kind)
            self.overloads[node.id] = ("select_optional_field",)
            return
        node.arguments = [self.check(each) for each in node.arguments]
        functions = self._environment.functions
        if node.target is not None:
            prefix = qualified_name(node.target)
            namespaced = "" if prefix is None else f"{prefix}.{node.function}".removeprefix(".")
            if namespaced in functions:
                node.function, node.target = namespaced, None
            else:
                node.target = self.check(node.target)
        found = functions.get(node.function.removeprefix("."))
        if found is None:
            self._undeclared(node, node.function)
            return
        node.function = found.name
        self.types[node.id] = self._resolve(node, found) or types.ERROR

    def _resolve(self, node: Call, function: Function) -> Type | None:
        """The result type of a call; notes every overload that fits, the first of which decides."""
        given = tuple(self.types[each.id] for each in node.operands())
        if function.name in ("_&&_", "_||_"):
            return self._logic(node, function, given)
        fitting: list[str] = []
        result: Type | None = None
        for overload in function.overloads.values():
            if overload.member != (node.target is not None):
                continue
            wanted, returned = self._instance(overload)
            attempt = assignable(self.known, given, wanted)
            if attempt is None:
                continue
            self.known = attempt
            fitting.append(overload.id)
            kind = substitute(self.known, returned)
            if result is None:
                result = kind
            elif not is_dyn(result) and kind != result:
                result = types.DYN
        if result is None:
            self._no_overload(node, function.name, given)
            return None
        self.overloads[node.id] = tuple(fitting)
        return result

    def _logic(self, node: Call, function: Function, given: tuple[Type, ...]) -> Type | None:
        wrong = False
        for argument, kind in zip(node.arguments, given, strict=True):
            if not self._fit(kind, types.BOOL):
                self._mismatch(argument, types.BOOL, kind)
                wrong = True
        self.overloads[node.id] = tuple(function.overloads)
        return None if wrong else types.BOOL

    def _no_overload(self, node: Call, name: str, given: tuple[Type, ...]) -> None:
        words = [shown(substitute(self.known, kind, to_dyn=True)) for kind in given]
        receiver = f"{words.pop(0)}." if node.target is not None else ""
        signature = f"{receiver}({', '.join(words)})"
        self._issue(node, f"found no matching overload for '{name}' applied to '{signature}'")

    def _instance(self, overload: Overload) -> tuple[tuple[Type, ...], Type]:
        """The overload's types with fresh type parameters."""
        if not overload.parameters:
            return overload.arguments, overload.result
        fresh: Mapping[Type, Type] = {types.parameter(name): self._variable() for name in overload.parameters}
        renamed = tuple(substitute(dict(fresh), kind) for kind in (*overload.arguments, overload.result))
        return renamed[:-1], renamed[-1]

    def _unwrapped(self, node: Node, optional: bool) -> Type:
        """The type of an entry, that of its content where it is marked optional."""
        kind = self.types[node.id]
        if not optional:
            return kind
        if is_optional(kind):
            return kind.parameters[0]
        if not is_dyn(kind):
            self._mismatch(node, types.optional_of(kind), kind)
        return kind

    def _join(self, previous: Type | None, current: Type) -> Type:
        """The type of two entries of one literal; that they are mixed is found later (`headrace.cel.validators`)."""
        if previous is None:
            return current
        return most_general(previous, current) if self._fit(previous, current) else types.DYN

    def _list(self, node: ListNode) -> None:
        kind: Type | None = None
        for index, element in enumerate(node.elements):
            node.elements[index] = element = self.check(element)
            kind = self._join(kind, self._unwrapped(element, index in node.optional))
        self.types[node.id] = types.list_of(self._variable() if kind is None else kind)

    def _map(self, node: MapNode) -> None:
        key_kind: Type | None = None
        value_kind: Type | None = None
        for entry in node.entries:
            entry.key = self.check(entry.key)
            key_kind = self._join(key_kind, self.types[entry.key.id])
            entry.value = self.check(entry.value)
            value_kind = self._join(value_kind, self._unwrapped(entry.value, entry.optional))
        if key_kind is None or value_kind is None:
            key_kind, value_kind = self._variable(), self._variable()
        self.types[node.id] = types.map_of(key_kind, value_kind)

    def _struct(self, node: Struct) -> None:
        node.name = node.name.removeprefix(".")
        known = self._environment.named(node.name)
        result = types.ERROR
        if known is None or not known[1]:
            self._undeclared(node, node.name)
        elif known[0].parameters[0].kind != "struct":
            self._issue(node, f"'{node.name}' is not a message type")
        else:
            result = known[0].parameters[0]
        self.types[node.id] = result
        for each in node.fields:
            each.value = self.check(each.value)
            wanted = types.ERROR if result is types.ERROR else self._object_field(node, result, each.name)
            given = self._unwrapped(each.value, each.optional)
            if not self._fit(wanted, given):
                words = f"expected type of field '{each.name}' is '{shown(wanted)}'"
                self._issue(node, f"{words} but provided type is '{shown(given)}'")

    def _comprehension(self, node: Comprehension) -> None:
        node.range = self.check(node.range)
        node.initial = self.check(node.initial)
        accumulated = self.types[node.initial.id]
        self._scopes.append({node.accumulator: accumulated})
        self._scopes.append(self._loop_variables(node))
        node.condition = self.check(node.condition)
        if not self._fit(types.BOOL, self.types[node.condition.id]):
            self._mismatch(node.condition, types.BOOL, self.types[node.condition.id])
        node.step = self.check(node.step)
        if not self._fit(accumulated, self.types[node.step.id]):
            self._mismatch(node.step, accumulated, self.types[node.step.id])
        self._scopes.pop()
        node.result = self.check(node.result)
        self._scopes.pop()
        self.types[node.id] = substitute(self.known, self.types[node.result.id])

    def _loop_variables(self, node: Comprehension) -> dict[str, Type]:
        over = substitute(self.known, self.types[node.range.id])
        first = second = types.DYN
        if over.kind == "list":
            first = second = over.parameters[0]
            if node.variable2:
                first = types.INT
        elif over.kind == "map":
            first, second = over.parameters
        elif over.kind in ("dyn", "error", "parameter"):
            self._fit(types.DYN, over)
        else:
            words = f"expression of type '{shown(over)}' cannot be range of a comprehension"
            self._issue(node.range, f"{words} (must be list, map, or dynamic)")
            first = second = types.ERROR
        return {node.variable: first, **({node.variable2: second} if node.variable2 else {})}
