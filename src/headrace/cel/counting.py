"""The evaluator that counts: follows the reference step by step, its books on values and costs included.

It can rest: evaluating is a generator that yields between two elements of a list when it has spent what it may at a
time, so that others have their turn. Errors are values here; what the reference panics on is raised (Fatal,
CostLimitExceeded). Source: cel-go's interpreter, whose cost tracker finds a call's arguments on a stack by the numbers
of their nodes.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from headrace.api.resting import TURN_STEPS, Resting, finished
from headrace.cel.access import as_key, look, lookup
from headrace.cel.amounts import LIST_BASE, MAP_BASE, OBJECT_BASE
from headrace.cel.call_costs import call_cost
from headrace.cel.errors import CostLimitExceeded, EvaluationError
from headrace.cel.plan import (
    Attribute,
    Constant,
    Equality,
    Fallback,
    Fold,
    Invocation,
    Logic,
    MakeList,
    MakeMap,
    MakeObject,
    Membership,
    Plan,
    Qualifier,
    Step,
    is_member,
    make_list,
    make_map,
    step_number,
)
from headrace.cel.values import (
    MISSING,
    NONE,
    Accumulating,
    Optional,
    Value,
    equal,
    go_name,
    is_error,
    is_list,
    is_map,
    key_value,
    map_key,
    no_overload,
)

_NEVER = 2**64


@dataclass(frozen=True, slots=True, eq=False)
class _Pending:
    """An accumulator that nothing has asked for yet."""

    fold: Fold


@dataclass(slots=True)
class Run:
    """One evaluation: its variables and its books. It rests when its cost has come to `rest_at`.

    `places` are where the values of each number are on the stack, so that nobody walks along it: it grows with a list.
    """

    slots: list[Value]
    limit: int
    inputs: int
    rest_at: int
    cost: int = 0
    stack: list[tuple[int, Value]] = field(default_factory=list)
    places: dict[int, list[int]] = field(default_factory=dict)

    def push(self, number: int, value: Value) -> None:
        self.places.setdefault(number, []).append(len(self.stack))
        self.stack.append((number, value))
        if self.cost > self.limit:
            raise CostLimitExceeded

    def drop(self, *numbers: int) -> None:
        """Forget the latest value of each number and what was noted after it."""
        for number in numbers:
            if places := self.places.get(number):
                self._cut(places[-1])

    def take(self, numbers: list[int]) -> list[Value] | None:
        """The latest values of the numbers, which are forgotten; None where one is not found."""
        found: list[Value] = []
        for number in reversed(numbers):
            if not (places := self.places.get(number)):
                return None
            found.append(self.stack[places[-1]][1])
            self._cut(places[-1])
        return found[::-1]

    def _cut(self, at: int) -> None:
        for number, _ in self.stack[at:]:
            self.places[number].pop()
        del self.stack[at:]

    def charge_call(self, function: str, overload: str, arguments: Iterable[Step], result: Value) -> None:
        values = self.take([step_number(each) for each in arguments])
        if values is not None:
            self.cost += call_cost(function, overload, values, result)


def evaluate(plan: Plan, inputs: list[Value], limit: int) -> tuple[Value, Run]:
    """The value (an EvaluationError where it failed) and the books of one evaluation, without a rest."""
    return finished(evaluating(plan, inputs, limit, _NEVER))


def evaluating(plan: Plan, inputs: list[Value], limit: int, rest_after: int = TURN_STEPS) -> Resting[tuple[Value, Run]]:
    """The same with rests, the first when `rest_after` is spent."""
    run = Run([*inputs, *[None] * (plan.slots - len(inputs))], limit, len(inputs), rest_after)
    try:
        return (yield from _evaluate(plan.root, run)), run
    except EvaluationError as error:
        return error, run


def _evaluate(step: Step, run: Run) -> Resting[Value]:
    return _EVALUATORS[type(step)](step, run)


def _constant(step: Constant, run: Run) -> Resting[Value]:
    yield from ()
    run.push(step.id, step.value)
    return step.value


def _logic(step: Logic, run: Run) -> Resting[Value]:
    error: EvaluationError | None = None
    result: Value = not step.stop
    for term in step.terms:
        value = yield from _evaluate(term, run)
        if value is step.stop:
            result = step.stop
            break
        if type(value) is not bool and error is None:
            error = value if isinstance(value, EvaluationError) else no_overload()
    else:
        result = result if error is None else error
    run.drop(*[step_number(term) for term in step.terms])
    run.push(step.id, result)
    return result


def _equality(step: Equality, run: Run) -> Resting[Value]:
    one = yield from _evaluate(step.one, run)
    other = yield from _evaluate(step.other, run)
    if is_error(one) or is_error(other):
        result = one if is_error(one) else other
    else:
        result = equal(one, other)
        if step.negated:
            result = result is not True
    function, overload = ("_!=_", "not_equals") if step.negated else ("_==_", "equals")
    run.charge_call(function, overload, (step.one, step.other), result)
    run.push(step.id, result)
    return result


def _member(step: Membership, run: Run) -> Resting[Value]:
    value = yield from _evaluate(step.value, run)
    result = value if is_error(value) else is_member(value, step.members)
    run.push(step.id, result)
    return result


def _fallback(step: Fallback, run: Run) -> Resting[Value]:
    value = yield from _evaluate(step.optional, run)
    if is_error(value):
        result = value
    elif type(value) is not Optional:
        result = no_overload()
    elif value.has_value():
        result = value.value if step.unwrap else value
    else:
        result = yield from _evaluate(step.other, run)
    run.push(step.id, result)
    return result


def _invocation(step: Invocation, run: Run) -> Resting[Value]:
    values: list[Value] = []
    failed: Value = None
    for argument in step.arguments:
        value = yield from _evaluate(argument, run)
        values.append(value)
        if step.strict and failed is None and is_error(value):
            failed = value
            if step.bound.one_by_one:
                break
    result = step.bound.run(*values) if failed is None else failed
    run.charge_call(step.function, step.overload, step.arguments, result)
    run.push(step.id, result)
    return result


def _list(step: MakeList, run: Run) -> Resting[Value]:
    values: list[Value] = []
    for element in step.elements:
        values.append((yield from _evaluate(element, run)))
        if is_error(values[-1]):
            break
    result = make_list(values, step.optional)
    run.take([step_number(each) for each in step.elements])
    run.cost += LIST_BASE
    run.push(step.id, result)
    return result


def _map(step: MakeMap, run: Run) -> Resting[Value]:
    entries: list[tuple[Value, Value, bool]] = []
    for key_step, value_step, optional in step.entries:
        key = yield from _evaluate(key_step, run)
        value = key if is_error(key) else (yield from _evaluate(value_step, run))
        entries.append((key, value, optional))
        if is_error(value) or (optional and type(value) is not Optional):
            break
        map_key(key)
    result = make_map(entries)
    run.take([step_number(each) for key, value, _ in step.entries for each in (key, value)])
    run.cost += MAP_BASE
    run.push(step.id, result)
    return result


def _object(step: MakeObject, run: Run) -> Resting[Value]:
    result: Value = EvaluationError(f"unknown type '{step.name}'")
    for part in step.fields:
        value = yield from _evaluate(part, run)
        if is_error(value):
            result = value
            break
    run.take([step_number(each) for each in step.fields])
    run.cost += OBJECT_BASE
    run.push(step.id, result)
    return result


def _attribute(step: Attribute, run: Run) -> Resting[Value]:
    value = yield from _resolve(step, run)
    if step.test_id is not None and type(value) is Optional:
        value = value.has_value()
    if step.branches is not None:
        assert step.condition is not None
        run.drop(step.branches[1].number(), step.branches[0].number(), step_number(step.condition))
    else:
        run.drop(step.number())
        run.cost += 1
    if step.test_id is not None:
        run.cost -= 1
    run.push(step.number() if step.test_id is None else step.test_id, value)
    return value


def _resolve(step: Attribute, run: Run) -> Resting[Value]:
    if step.branches is not None:
        assert step.condition is not None
        chosen = yield from _evaluate(step.condition, run)
        if chosen is True:
            return (yield from _resolve(step.branches[0], run))
        if chosen is False:
            return (yield from _resolve(step.branches[1], run))
        return chosen if is_error(chosen) else no_overload()
    if step.operand is not None:
        value = yield from _evaluate(step.operand, run)
    else:
        assert step.slot is not None
        value = run.slots[step.slot]
        if type(value) is _Pending:
            value = yield from _begin(value.fold, run)
    if is_error(value):
        return value
    if not step.detached:
        return (yield from _qualified(step.qualifiers, value, run))
    apart = _apart(run)
    value = yield from _qualified(step.qualifiers, value, apart)
    run.rest_at -= apart.cost  # what nobody counts takes time all the same
    return value


def _apart(run: Run) -> Run:
    """Books that nobody reads, and none but the inputs to see."""
    hidden = EvaluationError("no such attribute(s)")
    return Run(
        [*run.slots[: run.inputs], *[hidden] * (len(run.slots) - run.inputs)], run.limit, run.inputs, run.rest_at
    )


def _begin(fold: Fold, run: Run) -> Resting[Value]:
    """The first value of an accumulator; an empty list becomes one that grows in place."""
    value = yield from _evaluate(fold.initial, run)
    if is_list(value) and not value:
        value = Accumulating()
    run.slots[fold.accumulator] = value
    return value


def _qualified(qualifiers: list[Qualifier], value: Value, run: Run) -> Resting[Value]:
    optional = type(value) is Optional
    if optional:
        if not value.has_value():
            return value
        value = value.value
    for qualifier in qualifiers:
        optional = optional or qualifier.optional
        value = yield from (_if_present if optional else _qualify)(qualifier, value, run)
        if value is MISSING:
            return NONE
        if is_error(value):
            return value
    return Optional(value) if optional else value


def _qualify(qualifier: Qualifier, target: Value, run: Run) -> Resting[Value]:
    key = qualifier.key if qualifier.step is None else (yield from _key(qualifier.step, run))
    if is_error(key):
        found = key
    elif qualifier.test:
        found = look(target, key)
        if not is_error(found):
            found = found is not MISSING
    else:
        found = lookup(target, key)
    _note(qualifier, found, run)
    return found


def _if_present(qualifier: Qualifier, target: Value, run: Run) -> Resting[Value]:
    key = qualifier.key if qualifier.step is None else (yield from _key(qualifier.step, run))
    found = key if is_error(key) else look(target, key)
    if found is not MISSING and not is_error(found):
        _note(qualifier, found, run)
    return found


def _key(step: Step, run: Run) -> Resting[Value]:
    key = yield from _resolve(step, run) if isinstance(step, Attribute) else _evaluate(step, run)
    return key if is_error(key) else as_key(key) or key


def _note(qualifier: Qualifier, value: Value, run: Run) -> None:
    if qualifier.step is not None and not isinstance(qualifier.step, Attribute):
        run.drop(qualifier.id)
    run.cost += 1
    run.push(qualifier.id, value)


def _fold(step: Fold, run: Run) -> Resting[Value]:
    over = yield from _evaluate(step.range, run)
    result = over if is_error(over) else (yield from _folded(step, over, run))
    run.drop(step_number(step.range))
    run.push(step.id, result)
    return result


def _folded(step: Fold, over: Value, run: Run) -> Resting[Value]:
    slots = run.slots
    slots[step.accumulator] = _Pending(step)
    if not is_list(over) and not is_map(over):
        return not_iterable(over, step.slot2 >= 0)
    for first, second in entries(over, step.slot2 >= 0):
        slots[step.slot] = first
        if step.slot2 >= 0:
            slots[step.slot2] = second
        if (yield from _evaluate(step.condition, run)) is False:
            break
        slots[step.accumulator] = yield from _evaluate(step.step, run)
        if run.cost >= run.rest_at:
            yield
            run.rest_at = run.cost + TURN_STEPS
    result = yield from _evaluate(step.result, run)
    return list(result) if type(result) is Accumulating else result


def not_iterable(over: Value, pairs: bool) -> EvaluationError:
    if pairs:
        return EvaluationError(f"unsupported comprehension range type: {go_name(over)}")
    return EvaluationError(f"got '{go_name(over)}', expected iterable type")


def entries(over: Value, pairs: bool) -> Iterable[tuple[Value, Value]]:
    """What a fold goes over: elements or keys; with `pairs` index and element, or key and value."""
    if is_map(over):
        return [(key_value(key), value) for key, value in over.items()]
    return list(enumerate(over)) if pairs else [(element, None) for element in over]


_EVALUATORS: dict[type[Step], Callable[[Any, Run], Resting[Value]]] = {
    Constant: _constant,
    Attribute: _attribute,
    Logic: _logic,
    Equality: _equality,
    Membership: _member,
    Fallback: _fallback,
    Invocation: _invocation,
    MakeList: _list,
    MakeMap: _map,
    MakeObject: _object,
    Fold: _fold,
}
