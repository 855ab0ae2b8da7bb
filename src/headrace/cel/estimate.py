"""The worst case cost of a checked expression, before any input is known: Kubernetes' number for admission.

Source: cel-go's checker/cost.go. Sizes of inputs come from the environment, calls from `headrace.cel.call_estimates`.
"""

from dataclasses import dataclass

from headrace.cel.amounts import (
    EMPTY_UNION,
    LIMIT,
    LIST_BASE,
    MAP_BASE,
    NOTHING,
    OBJECT_BASE,
    ONE,
    TRAVERSAL,
    UNKNOWN,
    Range,
    exactly,
)
from headrace.cel.ast import (
    ACCUMULATOR,
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    Struct,
)
from headrace.cel.call_estimates import CallCost, Operand, library_call, standard_call
from headrace.cel.checker import Checked
from headrace.cel.environment import Environment
from headrace.cel.types import Type, is_optional
from headrace.cel.values import size

Path = tuple[str, ...]
_SCALARS = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})


@dataclass(frozen=True, slots=True)
class _Entry:
    """Sizes of what is in a list or map."""

    container: str
    key: Range
    value: Range

    def __or__(self, other: "_Entry") -> "_Entry":
        return _Entry(self.container, self.key | other.key, self.value | other.value)


@dataclass(frozen=True, slots=True)
class _Local:
    path: Path
    size: Range | None
    entry: _Entry | None = None


def estimate(checked: Checked, environment: Environment, unknown: Range = UNKNOWN) -> Range:
    """The least and the largest cost of one evaluation; `unknown` is any size that the reference knows no bound of."""
    return _Estimator(checked, environment, unknown).cost(checked.root)


class _Estimator:
    def __init__(self, checked: Checked, environment: Environment, unknown: Range) -> None:
        self._checked = checked
        self._unknown = unknown
        self._environment = environment
        self._paths: dict[int, Path] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, _Entry] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> Range:
        match node:
            case Literal():
                return NOTHING
            case Ident(name=name):
                local = self._local(name)
                self._paths[node.id] = self._global_path(name) if local is None else local.path
                return ONE
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListNode():
                return self._list(node)
            case MapNode():
                return self._map(node)
            case Struct():
                return sum((self.cost(each.value) for each in node.fields), exactly(OBJECT_BASE))
            case Comprehension():
                return self._bind(node) if node.is_bind() else self._fold(node)
            case _:
                return NOTHING

    def _global_path(self, name: str) -> Path:
        """An input that a local variable hides has no path that the sizes of inputs are known by."""
        plain = name.removeprefix(".")
        return (name,) if self._local(plain) is not None else (plain,)

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _type(self, node: Node) -> Type:
        return self._checked.types[node.id]

    def _path(self, node: Node) -> Path:
        if isinstance(node, Ident):
            local = self._local(node.name)
            if local is not None:
                return local.path
        return self._paths.get(node.id, ())

    def _input_size(self, path: Path) -> Range | None:
        sizes = self._environment.sizes.get(path[0]) if path else None
        found = None if sizes is None else sizes.at(path[1:])
        return None if found is None else Range(0, found.largest)

    def _bound(self) -> Range | None:
        return None if self._unknown is UNKNOWN else self._unknown

    def _bounded_input_size(self, path: Path) -> Range | None:
        return self._input_size(path) or self._bound()

    def _size(self, node: Node) -> Range | None:
        known = self._sizes.get(node.id)
        if known is not None:
            return known
        own = _literal_size(node)
        if own is not None:
            return own
        found = self._input_size(self._path(node))
        if found is not None:
            self._sizes[node.id] = found
            return found
        if _is_scalar(self._type(node)):
            return ONE
        if isinstance(node, Ident):
            local = self._local(node.name)
            if local is not None:
                return local.size
        return None

    def _size_or_unknown(self, node: Node) -> Range:
        return self._size(node) or self._unknown

    def _entry(self, node: Node) -> _Entry | None:
        known = self._entries.get(node.id)
        if known is None and isinstance(node, Ident):
            local = self._local(node.name)
            return None if local is None else local.entry
        return known

    def _operand(self, node: Node) -> Operand:
        path = self._path(node)
        if path and path[0] in ("__result__", ACCUMULATOR):
            path = ()
        return Operand(path, self._type(node), node, self._size(node) or self._bound())

    def _select(self, node: Select) -> Range:
        found = self.cost(node.operand)
        if node.test:
            return found
        if self._type(node.operand).kind in ("map", "struct", "parameter"):
            found += ONE
        self._paths[node.id] = (*self._path(node.operand), node.name)
        return found

    def _call(self, node: Call) -> Range:
        if node.function == "dyn":
            found = ONE + self.cost(node.arguments[0])
            self._copy_sizes(node, node.arguments[0])
            return found
        costs: list[Range] = []
        arguments: list[Operand] = []
        for argument in node.arguments:
            costs.append(self.cost(argument))
            arguments.append(self._operand(argument))
        overloads = self._checked.overloads.get(node.id, ())
        if not overloads:
            return NOTHING
        before, target = NOTHING, None
        if node.target is not None:
            before = self.cost(node.target)
            target = self._operand(node.target)
        total, result = EMPTY_UNION, None
        for overload in overloads:
            call = self._call_cost(node, overload, target, arguments, costs)
            total |= call.cost
            if call.result is not None:
                result = call.result if result is None else result | call.result
            if overload in ("index_list", "index_map"):
                entry = self._entry(node.arguments[0])
                result = None if entry is None else entry.value
                step = "@items" if overload == "index_list" else "@values"
                self._paths[node.id] = (*self._path(node.arguments[0]), step)
            if result is None:
                result = self._size(node)
        if result is not None:
            self._sizes[node.id] = result
        return before + total

    def _call_cost(
        self, node: Call, overload: str, target: Operand | None, arguments: list[Operand], costs: list[Range]
    ) -> CallCost:
        spent = sum(costs, NOTHING)
        found = library_call(node.function, overload, target, arguments, self._bounded_input_size)
        if found is not None:
            return CallCost(found.cost + spent, found.result)
        if overload in ("logical_and", "logical_or"):
            return CallCost(Range(costs[0].low, (costs[0] + costs[1]).high))
        if overload == "conditional":
            return self._conditional(node, arguments, costs)
        if overload in ("add_string", "add_bytes", "add_list"):
            return self._concatenation(node, overload, arguments, spent)
        return CallCost(standard_call(overload, target, arguments) + spent, _converted_size(overload, arguments))

    def _conditional(self, node: Call, arguments: list[Operand], costs: list[Range]) -> CallCost:
        entries = self._entry(arguments[1].node), self._entry(arguments[2].node)
        if entries[0] is not None and entries[1] is not None:
            self._entries[node.id] = entries[0] | entries[1]
        return CallCost(
            costs[0] + (costs[1] | costs[2]), arguments[1].size_or_unknown() | arguments[2].size_or_unknown()
        )

    def _concatenation(self, node: Call, overload: str, arguments: list[Operand], spent: Range) -> CallCost:
        result = arguments[0].size_or_unknown() + arguments[1].size_or_unknown()
        entries = self._entry(arguments[0].node), self._entry(arguments[1].node)
        if entries[0] is not None and entries[1] is not None:
            self._entries[node.id] = entries[0] | entries[1]
        work = ONE if overload == "add_list" else result.scaled(TRAVERSAL)
        return CallCost(work + spent, result)

    def _copy_sizes(self, node: Node, source: Node) -> None:
        found, entry = self._size(source), self._entry(source)
        if found is not None:
            self._sizes[node.id] = found
        if entry is not None:
            self._entries[node.id] = entry

    def _list(self, node: ListNode) -> Range:
        found, item = NOTHING, EMPTY_UNION if node.elements else NOTHING
        for element in node.elements:
            found += self.cost(element)
            item |= self._size_or_unknown(element)
        self._entries[node.id] = _Entry("list", ONE, item)
        return found + exactly(LIST_BASE)

    def _map(self, node: MapNode) -> Range:
        found = NOTHING
        key = value = EMPTY_UNION if node.entries else NOTHING
        for entry in node.entries:
            found = found + self.cost(entry.key) + self.cost(entry.value)
            key |= self._size_or_unknown(entry.key)
            value |= self._size_or_unknown(entry.value)
        self._entries[node.id] = _Entry("map", key, value)
        return found + exactly(MAP_BASE)

    def _bind(self, node: Comprehension) -> Range:
        found = self.cost(node.range) + self.cost(node.initial)
        self._push(node.accumulator, self._as_local(node.initial))
        found += self.cost(node.result)
        self._locals[node.accumulator].pop()
        self._copy_sizes(node, node.result)
        return found

    def _as_local(self, node: Node) -> _Local:
        return _Local(self._path(node), self._size(node), self._entry(node))

    def _fold(self, node: Comprehension) -> Range:
        found = self.cost(node.range) + self.cost(node.initial)
        self._push(node.accumulator, self._as_local(node.initial))
        self._push_variables(node)
        loop = self.cost(node.condition)
        loop = self.cost(node.step) + loop
        self._locals[node.variable].pop()
        if node.variable2:
            self._locals[node.variable2].pop()
        found += self.cost(node.result)
        self._locals[node.accumulator].pop()
        count = self._size_or_unknown(node.range)
        if isinstance(node.initial, Literal):
            initial = self._size(node.initial)
            if initial is not None:
                self._sizes[node.id] = initial
        elif isinstance(node.initial, ListNode | MapNode):
            self._sizes[node.id] = count
            entry = self._entry(node.step)
            if entry is not None:
                self._entries[node.id] = entry
        return found + count * loop

    def _push_variables(self, node: Comprehension) -> None:
        entry = self._entry(node.range)
        is_list = (self._type(node.range).kind if entry is None else entry.container) == "list"
        path = self._path(node.range)
        key = None if entry is None else entry.key
        value = None if entry is None else entry.value
        if node.variable2:
            self._push(node.variable, _Local((*path, "@indices" if is_list else "@keys"), key))
            self._push(node.variable2, _Local((*path, "@items" if is_list else "@values"), value))
        elif is_list:
            self._push(node.variable, _Local((*path, "@items"), value))
        else:
            self._push(node.variable, _Local((*path, "@keys"), key))


def _literal_size(node: Node) -> Range | None:
    match node:
        case Literal(value=value):
            own = size(value)
            return exactly(1 if own is None else own)
        case ListNode(elements=elements):
            return exactly(len(elements))
        case MapNode(entries=entries):
            return exactly(len(entries))
        case _:
            return None


def _is_scalar(kind: Type) -> bool:
    return kind.kind in _SCALARS or (is_optional(kind) and _is_scalar(kind.parameters[0]))


def _converted_size(overload: str, arguments: list[Operand]) -> Range | None:
    """The size of what a conversion makes of its argument."""
    if overload not in ("string_to_bytes", "bytes_to_string", "strings_quote"):
        return None
    given = arguments[0].size_or_unknown()
    if overload == "string_to_bytes":
        return Range(given.low, given.high * 4 & LIMIT)
    if overload == "bytes_to_string":
        return Range(given.low // 4, given.high)
    return Range(given.low + 2 & LIMIT, given.high * 2 + 2 & LIMIT)
