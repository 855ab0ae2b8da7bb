"""Python source of a selector in the making: lines, names for values, and what happens where a step fails.

Rules write steps; what no rule writes is called as a closure. The variables of macros are Python's own, and are put
into the slots where a closure may look for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from headrace.cel.closures import Pending, compile_step
from headrace.cel.errors import EvaluationError
from headrace.cel.plan import Attribute, Constant, Fold, Step
from headrace.cel.values import Fatal, QuantityValue, Value, no_overload

DEEPEST = 12  # blocks in one another: Python allows twenty
LITERALS = (str, int, bool)


class Unsupported(Exception):
    """The step has to be called as a closure."""


@dataclass(frozen=True, slots=True)
class Code:
    """An expression without effects; `kind` is the type it surely has. It counts only where `error` is None."""

    text: str
    kind: type | None = None
    error: str | None = None


class Source:
    """Emits the body of a function of a device's root, `d`."""

    def __init__(self, rules: Mapping[type[Step], Callable[[Source, Any], Code]], slots: int) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"EvaluationError": EvaluationError, "Fatal": Fatal, "no_overload": no_overload}
        self.calls = 0
        self.bound: dict[int, Step] = {}
        self.elements: dict[int, Code] = {}
        self._rules = rules
        self._slots = slots
        self._free: dict[Step, frozenset[int]] = {}
        self._depth = 1
        self._number = 0
        self._fail = "return {}"

    def write(self, step: Step) -> Code:
        """Emit what the step needs before it; the result is what its value is then."""
        if isinstance(step, Constant) and not isinstance(step.value, EvaluationError):
            return self.constant(step.value)
        rule = self._rules.get(type(step))
        before = len(self.lines)
        try:
            if not self.free(step):
                return self._evaluated(step)
            if rule is None or self._depth > DEEPEST:
                raise Unsupported
            return rule(self, step)
        except Unsupported:
            del self.lines[before:]
            return self.call(step)

    def free(self, step: Step) -> frozenset[int]:
        """The slots that the step reads and does not set itself; where there are none it always gives the same."""
        found = self._free.get(step)
        if found is None:
            found = frozenset().union(*map(self.free, step.parts()))
            if isinstance(step, Attribute) and step.slot is not None:
                found |= {step.slot}
            if isinstance(step, Fold):
                found -= {step.slot, step.slot2, step.accumulator}
            self._free[step] = found
        return found

    def _evaluated(self, step: Step) -> Code:
        try:
            value = compile_step(step)([None] * self._slots)
        except Fatal:
            raise Unsupported from None
        except EvaluationError as error:
            self.failing(self.name(EvaluationError(str(error))))
            return Code("None")
        if type(value) is QuantityValue:
            value = QuantityValue(value.amount, value.derived, shared=True)
        return self.constant(value)

    # The parts

    def emit(self, line: str) -> None:
        self.lines.append("    " * self._depth + line)

    def new(self) -> str:
        self._number += 1
        return f"v{self._number}"

    def name(self, value: Any) -> str:
        """A name for something that is known already."""
        self._number += 1
        self.names[f"k{self._number}"] = value
        return f"k{self._number}"

    def helper(self, function: Callable[..., Any]) -> str:
        self.names[function.__name__] = function
        return function.__name__

    @contextmanager
    def block(self, head: str, fail: str | None = None) -> Iterator[None]:
        self.emit(head)
        before, self._fail = self._fail, fail or self._fail
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self._fail = before

    def failing(self, error: str) -> None:
        for line in self._fail.format(error).split("; "):
            self.emit(line)

    def checked(self, name: str) -> None:
        """Fail with the value where it is an error."""
        with self.block(f"if isinstance({name}, EvaluationError):"):
            self.failing(name)

    def constant(self, value: Value) -> Code:
        if type(value) in LITERALS:
            return Code(repr(value), type(value))
        return Code(self.name(value), type(value))

    def held(self, code: Code) -> str:
        """A name for the value."""
        if code.text.isidentifier():
            return code.text
        name = self.new()
        self.emit(f"{name} = {code.text}")
        return name

    def call(self, step: Step) -> Code:
        """The step as a closure over the slots."""
        self.calls += 1
        free = self.free(step)
        for slot, code in self.elements.items():
            if slot in free:
                text = code.text if code.error is None else f"{code.text} if {code.error} is None else {code.error}"
                self.emit(f"s[{slot}] = {text}")
        for slot, start in self.bound.items():
            if slot in free:
                self.call_later(slot, start)
        found, error, closure = self.new(), self.new(), self.name(compile_step(step))
        self.emit(f"{error} = None")
        with self.block("try:"):
            self.emit(f"{found} = {closure}(s)")
        with self.block("except Fatal:"):
            self.emit("raise")
        with self.block("except EvaluationError as raised:"):
            self.emit(f"{error} = raised")
        with self.block(f"if {error} is not None:"):
            self.failing(error)
        return Code(found)

    def call_later(self, slot: int, start: Step) -> None:
        """A closure will find in the slot what gives the value; that may read other variables."""
        free = self.free(start)
        for other, earlier in self.bound.items():
            if other in free and other != slot:
                self.call_later(other, earlier)
        self.emit(f"s[{slot}] = {self.name(Pending(slot, compile_step(start)))}")

    def term(self, step: Step, found: str, error: str, *, is_bool: bool = True) -> None:
        """The value goes to `found`, or its error to `error`; by itself, so that what comes next runs in any case."""
        self.emit(f"{error} = None")
        with self.block("while True:", f"{error} = {{}}; break"):
            self.emit(f"{found} = {self.boolean(step) if is_bool else self.write(step).text}")
            self.emit("break")

    def boolean(self, step: Step) -> str:
        code = self.write(step)
        if code.kind is bool:
            return code.text
        name = self.held(code)
        with self.block(f"if {name} is not True and {name} is not False:"):
            self.failing("no_overload()")
        return name
