"""Selectors as Python source: what most of them are made of, written out; the rest is called as closures.

The function made here takes a prepared device's root and returns the value, or the EvaluationError it fails with: an
error that is returned costs a fifth of one that is raised. It only raises Fatal. Its answers are those of
`headrace.cel.closures` (a law of the tests), which has the meaning of each step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from headrace.cel.closures import compile_step, is_constant, quantified, value_of_constant
from headrace.cel.errors import EvaluationError
from headrace.cel.libraries import operators
from headrace.cel.plan import (
    Attribute,
    Constant,
    Equality,
    Fallback,
    Fold,
    Invocation,
    Logic,
    Membership,
    Plan,
    Step,
    is_member,
)
from headrace.cel.values import EMPTY, Fatal, QuantityValue, Semver, Value, equal, no_overload

Selecting = Callable[[Value], Value]

REPEATS = 2
DEEPEST = 12  # blocks in one another: Python allows twenty

_SIGNS = {
    operators.less: "<",
    operators.less_equal: "<=",
    operators.greater: ">",
    operators.greater_equal: ">=",
}
_ORDERING = {"isGreaterThan": "{} > 0", "isLessThan": "{} < 0", "compareTo": "{}"}
# Calls that never fail as a whole (Fatal), so that none needs to be made once an operand before it has failed.
_CALM = frozenset({"!_", "_<_", "_<=_", "_>_", "_>=_", "quantity", "semver", "size", "matches", *_ORDERING})
_LITERALS = (str, int, bool)
_SIMPLE = re.compile(r"\^?(([A-Za-z0-9 _/:-]|\[0-9\]|\[a-z\]|\[A-Z\])[+*]?)+", re.ASCII)


class _Unsupported(Exception):
    """The step has to be called as a closure."""


@dataclass(frozen=True, slots=True)
class _Code:
    """An expression without effects; `kind` is the type it surely has."""

    text: str
    kind: type | None = None


def generate(plan: Plan) -> Selecting | None:
    """None where nothing would be gained: nothing but a call of closures would be left."""
    writer, rule = _Writer(), _RULES.get(type(plan.root))
    if rule is None:
        return None
    try:
        found = rule(writer, plan.root)
    except _Unsupported:
        return None
    lines = ["def select(d):"]
    if writer.calls:
        lines.append(f"    s = [d{', None' * (plan.slots - 1)}]")
    source = "\n".join([*lines, *writer.lines, f"    return {found.text}"])
    exec(compile(source, "<selector>", "exec"), writer.names)
    made: Selecting = writer.names["select"]
    return made


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "EMPTY": EMPTY, "EvaluationError": EvaluationError, "Fatal": Fatal, "QuantityValue": QuantityValue,
            "Semver": Semver, "equal": equal, "is_member": is_member, "no_overload": no_overload,
        }  # fmt: skip
        self.calls = 0
        self._depth = 1
        self._number = 0
        self._fail = "return {}"
        self._bound: dict[int, Step] = {}
        self._elements: dict[int, _Code] = {}

    def write(self, step: Step) -> _Code:
        """Emit what the step needs before it; the result is what its value is then."""
        if isinstance(step, Constant) and not isinstance(step.value, EvaluationError):
            return self._constant(step.value)
        rule = _RULES.get(type(step))
        before = len(self.lines)
        try:
            if rule is None or self._depth > DEEPEST:
                raise _Unsupported
            return rule(self, step)
        except _Unsupported:
            if self._bound or self._elements:
                raise  # a closure would look for the variable among the slots
            del self.lines[before:]
            return self._call(step)

    # The parts

    def _emit(self, line: str) -> None:
        self.lines.append("    " * self._depth + line)

    def _new(self) -> str:
        self._number += 1
        return f"v{self._number}"

    def _name(self, value: Any) -> str:
        self._number += 1
        self.names[f"k{self._number}"] = value
        return f"k{self._number}"

    @contextmanager
    def _block(self, head: str, fail: str | None = None) -> Iterator[None]:
        self._emit(head)
        before, self._fail = self._fail, fail or self._fail
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self._fail = before

    def _failing(self, error: str) -> None:
        for line in self._fail.format(error).split("; "):
            self._emit(line)

    def _checked(self, name: str) -> None:
        """Fail with the value where it is an error."""
        with self._block(f"if isinstance({name}, EvaluationError):"):
            self._failing(name)

    def _constant(self, value: Value) -> _Code:
        if type(value) in _LITERALS:
            return _Code(repr(value), type(value))
        return _Code(self._name(value), type(value))

    def _held(self, code: _Code) -> str:
        """A name for the value."""
        if code.text.isidentifier():
            return code.text
        name = self._new()
        self._emit(f"{name} = {code.text}")
        return name

    def _call(self, step: Step) -> _Code:
        """The step as a closure over the slots."""
        self.calls += 1
        found, error, closure = self._new(), self._new(), self._name(compile_step(step))
        self._emit(f"{error} = None")
        with self._block("try:"):
            self._emit(f"{found} = {closure}(s)")
        with self._block("except Fatal:"):
            self._emit("raise")
        with self._block("except EvaluationError as raised:"):
            self._emit(f"{error} = raised")
        with self._block(f"if {error} is not None:"):
            self._failing(error)
        return _Code(found)

    # The steps

    def attribute(self, step: Attribute) -> _Code:
        if step.slot in self._bound:
            return self._through(step, self._bound[step.slot])
        if step.slot in self._elements and not step.qualifiers:
            return self._elements[step.slot]
        if step.slot != 0 or step.detached or any(each.optional for each in step.qualifiers):
            raise _Unsupported
        if len(step.qualifiers) == 3 and step.qualifiers[2].step is not None:
            return self._computed(step)
        keys = [qualifier.key for qualifier in step.qualifiers]
        if not all(type(each.key) is str and each.step is None for each in step.qualifiers):
            raise _Unsupported
        if len(keys) == 1 and step.test_id is None and keys[0] in _FIELDS:
            return _Code(f"d[{keys[0]!r}]", _FIELDS[keys[0]])
        entry = _entry(keys)
        if step.test_id is not None:
            return _Code(f"({entry} is not None)", bool)
        found = self._new()
        self._emit(f"{found} = {entry}")
        with self._block(f"if {found} is None:"):
            self._failing(self._name(EvaluationError(f"no such key: {keys[2]}")))
        return _Code(found)

    def _computed(self, step: Attribute) -> _Code:
        """`device.attributes["domain"][name]` for each name that a macro goes through."""
        first, second, third = step.qualifiers
        key = third.step
        if first.step is not None or second.step is not None or step.test_id is not None:
            raise _Unsupported
        if not isinstance(key, Attribute) or key.slot not in self._elements or key.qualifiers:
            raise _Unsupported
        name = self._elements[key.slot]
        if name.kind is not str or first.key not in _MAPS or type(second.key) is not str:
            raise _Unsupported
        found = self._new()
        self._emit(f"{found} = d[{first.key!r}].get({second.key!r}, EMPTY).get({name.text})")
        with self._block(f"if {found} is None:"):
            self._failing(f"EvaluationError('no such key: ' + {name.text})")
        return _Code(found)

    def _through(self, step: Attribute, start: Step) -> _Code:
        """The way on from a value that has a name in the expression."""
        if isinstance(start, Attribute) and start.test_id is None and start.branches is None:
            return self.attribute(
                replace(start, qualifiers=[*start.qualifiers, *step.qualifiers], test_id=step.test_id)
            )
        if step.qualifiers:
            raise _Unsupported
        return self.write(start)

    def equality(self, step: Equality) -> _Code:
        _assert_calm(step.other)
        one, other = self.write(step.one), self.write(step.other)
        sign = "!=" if step.negated else "=="
        if one.kind is not None and one.kind is other.kind and one.kind in _LITERALS:
            return _Code(f"({one.text} {sign} {other.text})", bool)
        left, right, found = self._held(one), self._held(other) if other.kind is None else other.text, self._new()
        if other.kind in _LITERALS:
            self._emit(f"if type({left}) is {other.kind.__name__}:")
            self._emit(f"    {found} = {left} {sign} {right}")
            head = "else:"
        else:
            head = "if True:"
        with self._block(head):
            if step.negated:
                self._emit(f"{found} = equal({left}, {right}) is not True")
            else:
                self._emit(f"{found} = equal({left}, {right})")
                self._checked(found)
        return _Code(found, bool)

    def membership(self, step: Membership) -> _Code:
        value = self._held(self.write(step.value))
        found, members = self._new(), self._name(step.members)
        texts = self._name(frozenset(each[1] for each in step.members if isinstance(each, tuple) and each[0] is str))
        self._emit(f"{found} = {value} in {texts} if type({value}) is str else is_member({value}, {members})")
        return _Code(found, bool)

    def logic(self, step: Logic) -> _Code:
        one, other = step.terms
        found, stop = self._new(), step.stop
        if _never_fails(one):
            self._emit(f"{found} = {self._boolean(one)}")
            with self._block(f"if {found} is not {stop}:"):
                self._emit(f"{found} = {self._boolean(other)}")
            return _Code(found, bool)
        error, second = self._new(), self._new()
        self._term(one, found, error)
        with self._block(f"if {error} is not None or {found} is not {stop}:"):
            self._term(other, found, second)
            with self._block(f"if {second} is not None or {error} is not None and {found} is not {stop}:"):
                self._failing(f"{error} or {second}")
        return _Code(found, bool)

    def _term(self, step: Step, found: str, error: str) -> None:
        """One term of a logic: its value goes to `found`, or its error to `error`."""
        self._emit(f"{error} = None")
        with self._block("while True:", f"{error} = {{}}; break"):
            self._emit(f"{found} = {self._boolean(step)}")
            self._emit("break")

    def _boolean(self, step: Step) -> str:
        code = self.write(step)
        if code.kind is bool:
            return code.text
        name = self._held(code)
        with self._block(f"if {name} is not True and {name} is not False:"):
            self._failing("no_overload()")
        return name

    def fallback(self, step: Fallback) -> _Code:
        """`device.attributes["domain"].?name.orValue(other)`."""
        path = step.optional
        if not step.unwrap or not isinstance(path, Attribute) or path.slot != 0 or path.test_id is not None:
            raise _Unsupported
        keys = [each.key for each in path.qualifiers]
        if path.detached or len(keys) != 3 or not path.qualifiers[2].optional:
            raise _Unsupported
        if any(type(each.key) is not str or each.step is not None for each in path.qualifiers):
            raise _Unsupported
        found = self._new()
        self._emit(f"{found} = {_entry(keys)}")
        with self._block(f"if {found} is None:"):
            self._emit(f"{found} = {self.write(step.other).text}")
        return _Code(found)

    def invocation(self, step: Invocation) -> _Code:
        number = len(step.arguments)
        if is_constant(step):
            value = value_of_constant(step)
            if not isinstance(value, EvaluationError):
                return self._constant(value)
            self._failing(self._name(value))
            return _Code("None")
        if not step.strict or number > 2 or (number == 2 and step.bound.one_by_one and step.function != "matches"):
            raise _Unsupported
        for argument in step.arguments[1:]:
            _assert_calm(argument)
        values = [self.write(each) for each in step.arguments]
        if step.function == "!_" and values[0].kind is bool:
            return _Code(f"(not {values[0].text})", bool)
        names = [self._held(each) if each.kind not in _LITERALS else each.text for each in values]
        found, run = self._new(), self._name(step.bound.run)
        sign = _SIGNS.get(step.bound.run)
        general = f"{found} = {run}({', '.join(names)})"
        if sign is not None:
            whole = [f"type({name}) is int" for name, each in zip(names, values, strict=True) if each.kind is not int]
            self._emit(f"if {' and '.join(whole) or 'True'}:")
            self._emit(f"    {found} = {names[0]} {sign} {names[1]}")
        elif step.function in _ORDERING and number == 2:
            self._ordering(found, names[0], names[1], _ORDERING[step.function])
        elif step.function == "matches" and isinstance(step.arguments[1], Constant):
            self._pattern(found, names[0], step.arguments[1].value)
        else:
            self._emit("if False: pass")
        with self._block("else:"):
            self._emit(general)
            self._checked(found)
        return _Code(found)

    def _pattern(self, found: str, text: str, pattern: Value) -> None:
        """Looking for a pattern in a text; Python's own engine finds the simplest ones as RE2 does, and sooner."""
        if type(pattern) is str and _SIMPLE.fullmatch(pattern) and sum(map(pattern.count, "+*")) <= REPEATS:
            self._emit(f"if type({text}) is str:")
            self._emit(f"    {found} = {self._name(re.compile(pattern).search)}({text}) is not None")
        else:
            self._emit("if False: pass")

    def _ordering(self, found: str, one: str, other: str, form: str) -> None:
        """Comparing two quantities or two versions; a branch for anything else has to follow."""
        self._emit(f"if type({one}) is QuantityValue and type({other}) is QuantityValue:")
        self._emit(f"    {found} = {one}.amount.compare({other}.amount)")
        self._emit(f"    {found} = {form.format(found)}")
        self._emit(f"elif type({one}) is Semver and type({other}) is Semver:")
        self._emit(f"    {found} = ({one}.core > {other}.core) - ({one}.core < {other}.core)")
        self._emit(f"    if {found} == 0 and ({one}.pre or {other}.pre):")
        self._emit(f"        {found} = ({one}.order() > {other}.order()) - ({one}.order() < {other}.order())")
        self._emit(f"    {found} = {form.format(found)}")

    def fold(self, step: Fold) -> _Code:
        """cel.bind, whose variable is another name for what it was bound to; `all` and `exists`."""
        asked = quantified(step)
        if asked is not None:
            return self._quantifier(step, *asked)
        is_bind = isinstance(step.range, Constant) and step.range.value == [] and step.accumulator not in self._bound
        if not is_bind or not isinstance(step.initial, Attribute | Constant):
            raise _Unsupported
        self._bound[step.accumulator] = step.initial
        try:
            return self.write(step.result)
        finally:
            del self._bound[step.accumulator]

    def _quantifier(self, step: Fold, predicate: Step, stop: bool) -> _Code:
        """A loop over names, or over a constant list, which ends at the first element that decides."""
        if step.slot2 >= 0 or step.slot in self._elements:
            raise _Unsupported
        over, kind = self._range(step.range)
        element, found, error, value, own = (self._new() for _ in range(5))
        self._elements[step.slot] = _Code(element, kind)
        try:
            self._emit(f"{found}, {error} = {not stop}, None")
            with self._block(f"for {element} in {over}:"):
                self._term(predicate, value, own)
                with self._block(f"if {own} is not None:"):
                    self._emit(f"{error} = {error} or {own}")
                with self._block(f"elif {value} is {stop}:"):
                    self._emit(f"{found}, {error} = {stop}, None")
                    self._emit("break")
        finally:
            del self._elements[step.slot]
        with self._block(f"if {error} is not None:"):
            self._failing(error)
        return _Code(found, bool)

    def _range(self, step: Step) -> tuple[str, type | None]:
        if isinstance(step, Constant) and type(step.value) is list:
            return self._name(step.value), None
        if not isinstance(step, Attribute) or step.slot != 0 or step.detached or step.test_id is not None:
            raise _Unsupported
        keys = [each.key for each in step.qualifiers if each.step is None and not each.optional]
        if len(keys) != len(step.qualifiers) or not keys or keys[0] not in _MAPS or len(keys) > 2:
            raise _Unsupported
        if len(keys) == 2 and type(keys[1]) is not str:
            raise _Unsupported
        return f"d[{keys[0]!r}]" + (f".get({keys[1]!r}, EMPTY)" if len(keys) == 2 else ""), str


_MAPS = ("attributes", "capacity")
_FIELDS = {"driver": str, "allowMultipleAllocations": bool}


def _entry(keys: list[Value]) -> str:
    """The way to one attribute or capacity, None where it is not there."""
    if len(keys) != 3 or keys[0] not in _MAPS:
        raise _Unsupported
    return f"d[{keys[0]!r}].get({keys[1]!r}, EMPTY).get({keys[2]!r})"


def _never_fails(step: Step) -> bool:
    """Whether the step surely has a value, and that is a bool."""
    match step:
        case Constant():
            return type(step.value) is bool
        case Attribute():
            keys = [each.key for each in step.qualifiers]
            return step.slot == 0 and not step.detached and (keys == ["allowMultipleAllocations"] or _is_test(step))
        case Equality(negated=True):
            return _is_there(step.one) and _is_there(step.other)
        case Equality():
            return _is_driver(step.one) and isinstance(step.other, Constant) and type(step.other.value) is str
        case Logic():
            return all(map(_never_fails, step.terms))
        case Invocation():
            return step.function == "!_" and _never_fails(step.arguments[0])
    return False


def _is_test(step: Attribute) -> bool:
    return (
        step.test_id is not None
        and len(step.qualifiers) == 3
        and all(type(each.key) is str and not each.optional and each.step is None for each in step.qualifiers)
    )


def _is_driver(step: Step) -> bool:
    return isinstance(step, Attribute) and step.slot == 0 and [each.key for each in step.qualifiers] == ["driver"]


def _is_there(step: Step) -> bool:
    return _is_driver(step) or (isinstance(step, Constant) and not isinstance(step.value, EvaluationError))


def _assert_calm(step: Step) -> None:
    """That the step can be left out where one before it failed: it never fails as a whole."""
    match step:
        case Constant() | Equality() | Logic():
            pass
        case Attribute():
            if step.slot is None:
                raise _Unsupported
        case Invocation():
            if step.function not in _CALM:
                raise _Unsupported
        case _:
            raise _Unsupported
    for part in step.parts():
        _assert_calm(part)


_RULES: dict[type[Step], Callable[[_Writer, Any], _Code]] = {
    Attribute: _Writer.attribute,
    Equality: _Writer.equality,
    Membership: _Writer.membership,
    Logic: _Writer.logic,
    Fallback: _Writer.fallback,
    Invocation: _Writer.invocation,
    Fold: _Writer.fold,
}
