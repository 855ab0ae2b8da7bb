"""Decides how each node of a checked tree is evaluated: the one plan that both evaluators follow.

Constants are folded, `in` over constants becomes a look-up, constant patterns are compiled, fields and indices are
gathered into paths. What cannot be planned is refused when the expression is compiled.
Source: cel-go's interpreter/planner.go and decorators.go with the options Kubernetes sets.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from headrace.cel.ast import Call, Comprehension, Ident, ListNode, Literal, MapNode, Node, Select, Struct
from headrace.cel.checker import Checked
from headrace.cel.declarations import Bound, Function, bind
from headrace.cel.environment import Environment
from headrace.cel.errors import CompileError, EvaluationError
from headrace.cel.libraries import conversions, regexes
from headrace.cel.values import (
    NONE,
    Fatal,
    Optional,
    TypeValue,
    Uint,
    Value,
    go_name,
    is_list,
    map_key,
    no_overload,
)


@dataclass(slots=True, eq=False)
class Step:
    """A planned node; `id` is the node's number."""

    id: int

    def parts(self) -> "list[Step]":
        """The steps below this one."""
        return []


@dataclass(slots=True, eq=False)
class Constant(Step):
    value: Value


@dataclass(slots=True, eq=False)
class Qualifier:
    """One `.name` or `[index]` of a path: `key` for a constant one, else `step` gives it."""

    id: int
    key: Value = None
    step: "Step | None" = None
    optional: bool = False
    test: bool = False


@dataclass(slots=True, eq=False)
class Attribute(Step):
    """A value and the way into it. Exactly one of `slot` (a variable), `operand` and `branches` is set.

    With `test_id` it is has(): the last qualifier only asks whether something is there. A `detached` one names an input
    that a variable of the expression hides (`.device`): the way into it costs nothing and sees no variables.
    """

    slot: int | None = None
    operand: Step | None = None
    condition: Step | None = None
    branches: "tuple[Attribute, Attribute] | None" = None
    qualifiers: list[Qualifier] = field(default_factory=list)
    test_id: int | None = None
    detached: bool = False

    def parts(self) -> list[Step]:
        inner = [each for each in (self.operand, self.condition) if each is not None]
        keys = [each.step for each in self.qualifiers if each.step is not None]
        return [*inner, *(self.branches or ()), *keys]

    def number(self) -> int:
        """The number under which the value is known: that of the last step into it."""
        if self.branches is not None:
            one, other = self.branches[0].number(), self.branches[1].number()
            return one if one == other else self.id
        return self.qualifiers[-1].id if self.qualifiers else self.id

    def qualify(self, qualifier: Qualifier) -> None:
        if self.branches is None:
            self.qualifiers.append(qualifier)
        else:
            for branch in self.branches:
                branch.qualify(qualifier)


@dataclass(slots=True, eq=False)
class Logic(Step):
    """&& (`stop` false) or || (`stop` true)."""

    stop: bool
    terms: list[Step]

    def parts(self) -> list[Step]:
        return self.terms


@dataclass(slots=True, eq=False)
class Equality(Step):
    one: Step
    other: Step
    negated: bool

    def parts(self) -> list[Step]:
        return [self.one, self.other]


@dataclass(slots=True, eq=False)
class Membership(Step):
    """`value in [constants]`."""

    value: Step
    members: frozenset[object]

    def parts(self) -> list[Step]:
        return [self.value]


@dataclass(slots=True, eq=False)
class Fallback(Step):
    """`or` (`unwrap` false) and `orValue`."""

    optional: Step
    other: Step
    unwrap: bool

    def parts(self) -> list[Step]:
        return [self.optional, self.other]


@dataclass(slots=True, eq=False)
class Invocation(Step):
    function: str
    overload: str
    arguments: list[Step]
    bound: Bound
    strict: bool = True

    def parts(self) -> list[Step]:
        return self.arguments


@dataclass(slots=True, eq=False)
class MakeList(Step):
    elements: list[Step]
    optional: frozenset[int]

    def parts(self) -> list[Step]:
        return self.elements


@dataclass(slots=True, eq=False)
class MakeMap(Step):
    entries: list[tuple[Step, Step, bool]]

    def parts(self) -> list[Step]:
        return [each for key, value, _ in self.entries for each in (key, value)]


@dataclass(slots=True, eq=False)
class MakeObject(Step):
    """No object type of an environment can be made in an expression: this always fails, but after its fields."""

    name: str
    fields: list[Step]

    def parts(self) -> list[Step]:
        return self.fields


@dataclass(slots=True, eq=False)
class Fold(Step):
    """Slots hold the variables while it runs; `slot2` is -1 for one variable."""

    range: Step
    slot: int
    slot2: int
    accumulator: int
    initial: Step
    condition: Step
    step: Step
    result: Step

    def parts(self) -> list[Step]:
        return [self.range, self.initial, self.condition, self.step, self.result]


@dataclass(slots=True, eq=False)
class Plan:
    """`functions` are the names of all that is called; `detached` says whether there is such an attribute."""

    root: Step
    slots: int
    variables: Mapping[str, int]
    functions: frozenset[str]
    detached: bool


def plan(checked: Checked, environment: Environment) -> Plan:
    """Raises CompileError (`program instantiation failed: …`)."""
    planner = _Planner(checked, environment)
    root = planner.plan(checked.root)
    return Plan(root, planner.slots, planner.variables, frozenset(planner.functions), planner.detached)


class _Planner:
    def __init__(self, checked: Checked, environment: Environment) -> None:
        self._checked = checked
        self._environment = environment
        self._scopes: list[tuple[str, int]] = []
        self._slots = count(len(environment.variables))
        self.variables = {name: index for index, name in enumerate(environment.variables)}
        self.slots = len(self.variables)
        self.functions: set[str] = set()
        self.detached = False

    def plan(self, node: Node) -> Step:
        match node:
            case Literal(value=value):
                return Constant(node.id, value)
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListNode():
                return self._list(node)
            case MapNode():
                return self._map(node)
            case Struct():
                return MakeObject(node.id, node.name, [self.plan(each.value) for each in node.fields])
            case Comprehension():
                return self._fold(node)
        raise AssertionError(f"{type(node).__name__} is not planned")

    def _ident(self, node: Ident) -> Step:
        name = self._checked.globals.get(node.id)
        if name is None:
            slot = next(slot for known, slot in reversed(self._scopes) if known == node.name)
            return Attribute(node.id, slot=slot)
        if name in self.variables:
            hidden = any(known == name for known, _ in self._scopes)
            self.detached = self.detached or hidden
            return Attribute(node.id, slot=self.variables[name], detached=hidden)
        return Constant(node.id, TypeValue(self._checked.types[node.id].parameters[0].name))

    def _select(self, node: Select) -> Step:
        attribute = _as_attribute(self.plan(node.operand))
        attribute.qualify(Qualifier(node.id, node.name, test=node.test))
        if node.test:
            attribute.test_id = node.id
        return attribute

    def _call(self, node: Call) -> Step:
        arguments = [self.plan(each) for each in node.operands()]
        overloads = self._checked.overloads.get(node.id, ())
        overload = overloads[0] if len(overloads) == 1 else ""
        special = _SPECIAL.get(node.function)
        if special is not None:
            return special(node.id, arguments)
        if node.function in ("or", "orValue") and overload in ("", *_FALLBACKS):
            return Fallback(node.id, arguments[0], arguments[1], unwrap=node.function == "orValue")
        function = self._environment.functions[node.function]
        if overload == "in_list" and isinstance(arguments[1], Constant):
            found = _membership(node.id, arguments[0], arguments[1].value)
            if found is not None:
                return found
        return self._invocation(node, function, overload, arguments)

    def _invocation(self, node: Call, function: Function, overload: str, arguments: list[Step]) -> Step:
        self.functions.add(function.name)
        bound = bind(function, overload, len(arguments))
        if function.name in conversions.NAMES and len(arguments) == 1 and isinstance(arguments[0], Constant):
            value = arguments[0].value
            value = value if isinstance(value, EvaluationError) else bound.run(value)
            if isinstance(value, EvaluationError):
                raise _failed(str(value))
            return Constant(node.id, value)
        if function.name in regexes.NAMES and len(arguments) > 1:
            pattern = arguments[1]
            if isinstance(pattern, Constant) and type(pattern.value) is str:
                problem = regexes.compiled(pattern.value)
                if isinstance(problem, EvaluationError):
                    raise _failed(str(problem))
                bound = _on_text(bound)
        strict = function.name != "@not_strictly_false"
        return Invocation(node.id, function.name, overload, arguments, bound, strict)

    def _list(self, node: ListNode) -> Step:
        made = MakeList(node.id, [self.plan(each) for each in node.elements], node.optional)
        if not all(isinstance(each, Constant) for each in made.elements):
            return made
        values = [each.value for each in made.elements if isinstance(each, Constant)]
        return Constant(node.id, make_list(values, node.optional))

    def _map(self, node: MapNode) -> Step:
        entries = [(self.plan(each.key), self.plan(each.value), each.optional) for each in node.entries]
        values: list[tuple[Value, Value, bool]] = []
        for key, value, optional in entries:
            if not (isinstance(key, Constant) and isinstance(value, Constant)):
                return MakeMap(node.id, entries)
            values.append((key.value, value.value, optional))
        try:
            return Constant(node.id, make_map(values))
        except Fatal as error:
            raise _failed(str(error)) from None

    def _fold(self, node: Comprehension) -> Step:
        initial = self.plan(node.initial)
        over = self.plan(node.range)
        accumulator, slot = next(self._slots), next(self._slots)
        slot2 = next(self._slots) if node.variable2 else -1
        self.slots = max(self.slots, accumulator + 1, slot + 1, slot2 + 1)
        self._scopes.append((node.accumulator, accumulator))
        self._scopes.append((node.variable, slot))
        if node.variable2:
            self._scopes.append((node.variable2, slot2))
        condition, step = self.plan(node.condition), self.plan(node.step)
        del self._scopes[-2 if node.variable2 else -1 :]
        result = self.plan(node.result)
        self._scopes.pop()
        return Fold(node.id, over, slot, slot2, accumulator, initial, condition, step, result)


def _as_attribute(step: Step) -> Attribute:
    return step if isinstance(step, Attribute) else Attribute(step.id, operand=step)


def _index(number: int, arguments: list[Step], optional: bool) -> Step:
    attribute = _as_attribute(arguments[0])
    index = arguments[1]
    if not isinstance(index, Constant):
        attribute.qualify(Qualifier(number, step=index, optional=optional))
        return attribute
    if type(index.value) not in (str, int, Uint, bool, float):
        raise _failed(f"invalid qualifier type: {go_name(index.value)}")
    attribute.qualify(Qualifier(number, index.value, optional=optional))
    return attribute


def _conditional(number: int, arguments: list[Step]) -> Step:
    return Attribute(number, condition=arguments[0], branches=(_branch(arguments[1]), _branch(arguments[2])))


def _branch(step: Step) -> Attribute:
    return replace(step, test_id=None) if isinstance(step, Attribute) else Attribute(step.id, operand=step)


_FALLBACKS = ("optional_or_optional", "optional_orValue_value")
_SPECIAL: dict[str, Callable[[int, list[Step]], Step]] = {
    "_&&_": lambda number, terms: Logic(number, False, terms),
    "_||_": lambda number, terms: Logic(number, True, terms),
    "_==_": lambda number, arguments: Equality(number, arguments[0], arguments[1], False),
    "_!=_": lambda number, arguments: Equality(number, arguments[0], arguments[1], True),
    "_?_:_": _conditional,
    "_[_]": lambda number, arguments: _index(number, arguments, optional=False),
    "_?._": lambda number, arguments: _index(number, arguments, optional=True),
    "_[?_]": lambda number, arguments: _index(number, arguments, optional=True),
}


def _on_text(bound: Bound) -> Bound:
    """A function with its pattern compiled in: it takes strings, whatever overload was chosen."""

    def run(*values: Value) -> Value:
        return bound.run(*values) if type(values[0]) is str else no_overload()

    return Bound(run, one_by_one=True)


def _failed(message: str) -> CompileError:
    return CompileError(f"program instantiation failed: {message}")


def make_list(values: list[Value], optional: frozenset[int]) -> Value:
    """A list of evaluated elements, or the error that keeps it from being made."""
    if not optional:
        return next((value for value in values if isinstance(value, EvaluationError)), values)
    made: list[Value] = []
    for index, value in enumerate(values):
        if isinstance(value, EvaluationError):
            return value
        if index not in optional:
            made.append(value)
        elif type(value) is not Optional:
            return EvaluationError(f"cannot initialize optional list element from non-optional value {value}")
        elif value is not NONE and value.has_value():
            made.append(value.value)
    return made


def make_map(entries: list[tuple[Value, Value, bool]]) -> Value:
    """A map of evaluated entries, or the error that keeps it from being made; raises Fatal for a key it cannot hold."""
    made: dict[object, Value] = {}
    for key, value, optional in entries:
        for each in (key, value):
            if isinstance(each, EvaluationError):
                return each
        if not optional:
            made[map_key(key)] = value
        elif type(value) is not Optional:
            return EvaluationError(f"cannot initialize optional entry '{key}' from non-optional value {value}")
        elif value.has_value():
            made[map_key(key)] = value.value
        else:
            made.pop(map_key(key), None)
    return made


def step_number(step: Step) -> int:
    """The number under which the cost of a step's value is accounted."""
    return step.number() if isinstance(step, Attribute) else step.id


def _membership(number: int, value: Step, members: Value) -> Step | None:
    """A look-up in place of a search, where all members are plain."""
    if not is_list(members):
        raise _failed(f"{members}")
    if not members:
        return Constant(number, False)
    found: set[object] = set()
    for member in members:
        if type(member) not in (bool, int, Uint, float, str):
            return None
        found.update(_same_numbers(member))
    return Membership(number, value, frozenset(found))


def is_member(value: Value, members: frozenset[object]) -> bool:
    """Whether a constant list has an equal; raises Fatal for a value that the reference cannot look up."""
    kind = type(value)
    if kind in (str, int, float, bool, Uint):
        return (kind, value) in members
    map_key(value)
    return False


def _same_numbers(member: Value) -> list[object]:
    """Keys (see `member_key`) of all values that equal this constant."""
    kind = type(member)
    found: list[object] = [(kind, member)]
    if kind is int:
        found.append((float, float(member)))
        if member >= 0:
            found.append((Uint, Uint(member)))
    elif kind is Uint:
        found.append((float, float(member.value)))
        if member.value < 2**63:
            found.append((int, member.value))
    elif kind is float and member.is_integer():
        if -(2.0**63) < member < 2.0**63:
            found.append((int, int(member)))
        if 0 <= member < 2.0**64:
            found.append((Uint, Uint(int(member))))
    return found
