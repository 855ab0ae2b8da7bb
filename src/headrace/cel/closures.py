"""The fast evaluator: turns a plan into nested Python functions. It counts nothing; errors travel as exceptions.

It gives the answers of `headrace.cel.counting` (a law of the tests), which a plan must be given to whose worst case
cost is over the limit. Each function takes the slots of one evaluation: inputs first, then variables.
"""

from collections.abc import Callable
from typing import Any

from headrace.cel.access import as_key, look, lookup
from headrace.cel.counting import entries, not_iterable
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
)
from headrace.cel.values import (
    MISSING,
    NONE,
    Accumulating,
    DefaultMap,
    Fatal,
    Optional,
    QuantityValue,
    StringMap,
    Value,
    equal,
    is_list,
    is_map,
    map_key,
    no_overload,
)

Slots = list[Value]
Evaluator = Callable[[Slots], Value]
Compiled = Callable[..., Value]


def compile_plan(plan: Plan) -> Compiled:
    """A function from the inputs, in the order of the variables, to the value; it raises EvaluationError."""
    evaluator = compile_step(plan.root)
    rest = [None] * (plan.slots - len(plan.variables))
    if len(plan.variables) == 1 and not rest:
        return lambda value: evaluator([value])
    return lambda *values: evaluator([*values, *rest])


def compile_step(step: Step) -> Evaluator:
    return _COMPILERS[type(step)](step)


def _raised(value: Value) -> Value:
    if type(value) is EvaluationError:
        raise value
    return value


def _constant(step: Constant) -> Evaluator:
    value = step.value
    if type(value) is EvaluationError:
        return lambda slots: _raised(EvaluationError(str(value)))
    return lambda slots: value


def _logic(step: Logic) -> Evaluator:
    one, other = map(compile_step, step.terms)
    stop = step.stop

    def evaluate(slots: Slots) -> Value:
        try:
            first = one(slots)
            if first is stop:
                return stop
            error = None if type(first) is bool else no_overload()
        except Fatal:
            raise
        except EvaluationError as raised:
            error = raised
        if error is None:
            second = other(slots)
            if second is True or second is False:
                return second
            raise no_overload()
        try:
            if other(slots) is stop:
                return stop
        except Fatal:
            raise
        except EvaluationError:
            pass
        raise error

    return evaluate


def _equality(step: Equality) -> Evaluator:
    one, other = compile_step(step.one), compile_step(step.other)
    if isinstance(step.other, Constant) and type(step.other.value) in (str, int, bool) and not step.negated:
        return _equals_constant(one, step.other.value)
    if step.negated:
        return _binary(one, other, lambda left, right: equal(left, right) is not True)
    return _binary(one, other, equal)


def _equals_constant(one: Evaluator, constant: Value) -> Evaluator:
    kind = type(constant)

    def evaluate(slots: Slots) -> Value:
        value = one(slots)
        if type(value) is kind:
            return value == constant
        return _raised(equal(value, constant))

    return evaluate


def _binary(one: Evaluator, other: Evaluator, run: Callable[..., Value]) -> Evaluator:
    def evaluate(slots: Slots) -> Value:
        try:
            left = one(slots)
        except EvaluationError as error:
            raise _first(error, other, slots) from None
        return _raised(run(left, other(slots)))

    return evaluate


def _first(error: EvaluationError, other: Evaluator, slots: Slots) -> EvaluationError:
    """The error of a left operand, after the right one had its chance to fail for good."""
    if not isinstance(error, Fatal):
        try:
            other(slots)
        except Fatal as fatal:
            return fatal
        except EvaluationError:
            pass
    return error


def _member(step: Membership) -> Evaluator:
    value, members = compile_step(step.value), step.members
    return lambda slots: is_member(value(slots), members)


def _fallback(step: Fallback) -> Evaluator:
    optional, other, unwrap = compile_step(step.optional), compile_step(step.other), step.unwrap

    def evaluate(slots: Slots) -> Value:
        value = optional(slots)
        if type(value) is not Optional:
            raise no_overload()
        if value.value is MISSING:
            return other(slots)
        return value.value if unwrap else value

    return evaluate


_INTEGERS: dict[Any, Callable[[int, int], bool]] = {
    operators.less: int.__lt__,
    operators.less_equal: int.__le__,
    operators.greater: int.__gt__,
    operators.greater_equal: int.__ge__,
}


def _invocation(step: Invocation) -> Evaluator:
    if is_constant(step):
        return _once(step)
    run = step.bound.run
    arguments = [compile_step(each) for each in step.arguments]
    if not step.strict:
        return _not_strictly_false(arguments[0])
    if run in _INTEGERS:
        return _comparison(_INTEGERS[run], run, *arguments)
    if len(arguments) == 1:
        only = arguments[0]
        return lambda slots: _raised(run(only(slots)))
    if len(arguments) == 2 and not step.bound.one_by_one:
        return _binary(arguments[0], arguments[1], run)
    return lambda slots: _raised(run(*[each(slots) for each in arguments]))


def is_constant(step: Step) -> bool:
    if isinstance(step, Invocation):
        return step.strict and all(map(is_constant, step.arguments))
    return isinstance(step, Constant)


def _once(step: Invocation) -> Evaluator:
    """A call on constants gives the same every time: it is made when it is first needed."""
    found: list[Value] = []

    def evaluate(slots: Slots) -> Value:
        if not found:
            found.append(value_of_constant(step))
        value = found[0]
        if type(value) is EvaluationError:
            raise EvaluationError(str(value))
        return value

    return evaluate


def value_of_constant(step: Step) -> Value:
    """The value of a constant step, or its error."""
    if isinstance(step, Constant):
        return step.value
    assert isinstance(step, Invocation)
    values = [value_of_constant(each) for each in step.arguments]
    failed = next((value for value in values if isinstance(value, EvaluationError)), None)
    result = step.bound.run(*values) if failed is None else failed
    if type(result) is QuantityValue:
        return QuantityValue(result.amount, result.derived, shared=True)
    return result


def _comparison(
    integers: Callable[[int, int], bool], run: Callable[..., Value], one: Evaluator, other: Evaluator
) -> Evaluator:
    def evaluate(slots: Slots) -> Value:
        try:
            left = one(slots)
        except EvaluationError as error:
            raise _first(error, other, slots) from None
        right = other(slots)
        if type(left) is int and type(right) is int:
            return integers(left, right)
        return _raised(run(left, right))

    return evaluate


def _not_strictly_false(argument: Evaluator) -> Evaluator:
    def evaluate(slots: Slots) -> Value:
        try:
            return operators.not_strictly_false(argument(slots))
        except Fatal:
            raise
        except EvaluationError:
            return True

    return evaluate


def _list(step: MakeList) -> Evaluator:
    elements, optional = [compile_step(each) for each in step.elements], step.optional
    if not optional:
        return lambda slots: [each(slots) for each in elements]

    def evaluate(slots: Slots) -> Value:
        values: list[Value] = []
        for index, element in enumerate(elements):
            values.append(element(slots))
            if index in optional and type(values[-1]) is not Optional:
                break
        return _raised(make_list(values, optional))

    return evaluate


def _map(step: MakeMap) -> Evaluator:
    compiled = [(compile_step(key), compile_step(value), optional) for key, value, optional in step.entries]

    def evaluate(slots: Slots) -> Value:
        found: list[tuple[Value, Value, bool]] = []
        for key, value, optional in compiled:
            found.append((key(slots), value(slots), optional))
            if optional and type(found[-1][1]) is not Optional:
                break
            map_key(found[-1][0])
        return _raised(make_map(found))

    return evaluate


def _object(step: MakeObject) -> Evaluator:
    fields, message = [compile_step(each) for each in step.fields], f"unknown type '{step.name}'"

    def evaluate(slots: Slots) -> Value:
        for each in fields:
            each(slots)
        raise EvaluationError(message)

    return evaluate


def _attribute(step: Attribute) -> Evaluator:
    short = _constant_path(step)
    if short is not None:
        return short
    resolve = _resolver(step)
    if step.test_id is None:
        return resolve

    def test(slots: Slots) -> Value:
        value = resolve(slots)
        return value.has_value() if type(value) is Optional else value

    return test


def _constant_path(step: Attribute) -> Evaluator | None:
    """The usual way into an input, `device.attributes["domain"].name`, without a step per name."""
    keys = [qualifier.key for qualifier in step.qualifiers]
    plain = all(type(key) is str for key in keys) and not any(each.optional or each.step for each in step.qualifiers)
    if step.slot != 0 or not plain or len(keys) not in (1, 3):
        return None
    if len(keys) == 1:
        return _field(keys[0], _resolver(step)) if step.test_id is None else None
    field, domain, name = keys
    slowly = _resolver(step)

    def test(slots: Slots) -> Value:
        outer = slots[0][field]
        return name in outer[domain] if type(outer) is DefaultMap else slowly(slots)

    def evaluate(slots: Slots) -> Value:
        outer = slots[0][field]
        if type(outer) is not DefaultMap:
            return slowly(slots)
        try:
            return outer[domain][name]
        except KeyError:
            raise EvaluationError(f"no such key: {name}") from None

    return evaluate if step.test_id is None else test


def _field(name: str, slowly: Evaluator) -> Evaluator:
    def evaluate(slots: Slots) -> Value:
        found = slots[0]
        return found[name] if type(found) is StringMap and name in found else slowly(slots)

    return evaluate


def _resolver(step: Attribute) -> Evaluator:
    if step.branches is not None:
        return _conditional(step)
    begin = _variable(step.slot) if step.operand is None else compile_step(step.operand)
    qualifiers = [_qualifier(each) for each in step.qualifiers]
    if not qualifiers:
        return begin
    if any(each.optional for each in step.qualifiers):
        return _optional_path(begin, qualifiers, [each.optional for each in step.qualifiers])

    def resolve(slots: Slots) -> Value:
        value = begin(slots)
        if type(value) is Optional:
            return _through(value, qualifiers, slots)
        for required, _ in qualifiers:
            value = required(value, slots)
        return value

    return resolve


Access = Callable[[Value, Slots], Value]


def _optional_path(begin: Evaluator, qualifiers: list[tuple[Access, Access]], optional: list[bool]) -> Evaluator:
    first = optional.index(True)

    def resolve(slots: Slots) -> Value:
        value = begin(slots)
        if type(value) is Optional:
            return _through(value, qualifiers, slots)
        for required, _ in qualifiers[:first]:
            value = required(value, slots)
        return _through(Optional(value), qualifiers[first:], slots)

    return resolve


def _through(value: Optional, qualifiers: list[tuple[Access, Access]], slots: Slots) -> Optional:
    """The way on from an optional value, which ends where something is missing."""
    found = value.value
    for _, present in qualifiers:
        if found is MISSING:
            return NONE
        found = present(found, slots)
    return NONE if found is MISSING else Optional(found)


def _qualifier(qualifier: Qualifier) -> tuple[Access, Access]:
    """The access where it must be there, and where it may be missing."""
    key = _key(qualifier)

    def required(target: Value, slots: Slots) -> Value:
        return _raised(lookup(target, key(slots)))

    def present(target: Value, slots: Slots) -> Value:
        return _raised(look(target, key(slots)))

    def test(target: Value, slots: Slots) -> Value:
        return _raised(look(target, key(slots))) is not MISSING

    return (test if qualifier.test else required), present


def _key(qualifier: Qualifier) -> Evaluator:
    if qualifier.step is None:
        constant = qualifier.key
        return lambda slots: constant
    step = qualifier.step
    compute = _resolver(step) if isinstance(step, Attribute) else compile_step(step)

    def key(slots: Slots) -> Value:
        value = compute(slots)
        return _raised(as_key(value) or value)

    return key


def _variable(slot: int | None) -> Evaluator:
    assert slot is not None

    def read(slots: Slots) -> Value:
        value = slots[slot]
        if type(value) is Pending:
            value = value.begin(slots)
        if type(value) is EvaluationError:
            raise value
        return value

    return read


class Pending:
    """An accumulator that nothing has asked for yet."""

    __slots__ = ("_initial", "_slot")

    def __init__(self, slot: int, initial: Evaluator) -> None:
        self._slot = slot
        self._initial = initial

    def begin(self, slots: Slots) -> Value:
        try:
            value = self._initial(slots)
        except Fatal:
            raise
        except EvaluationError as error:
            value = error
        if is_list(value) and not value:
            value = Accumulating()
        slots[self._slot] = value
        return value


def _conditional(step: Attribute) -> Evaluator:
    assert step.condition is not None
    assert step.branches is not None
    condition = compile_step(step.condition)
    yes, no = map(_resolver, step.branches)

    def evaluate(slots: Slots) -> Value:
        chosen = condition(slots)
        if chosen is True:
            return yes(slots)
        if chosen is False:
            return no(slots)
        raise no_overload()

    return evaluate


def _fold(step: Fold) -> Evaluator:
    over = compile_step(step.range)
    loop = _quantifier(step) or _general(step)
    pairs = step.slot2 >= 0

    def evaluate(slots: Slots) -> Value:
        ranged = over(slots)
        if not is_list(ranged) and not is_map(ranged):
            raise not_iterable(ranged, pairs)
        return loop(ranged, slots)

    return evaluate


Loop = Callable[[Value, Slots], Value]


def quantified(step: Fold) -> tuple[Step, bool] | None:
    """What `all` or `exists` asks of each element, and the answer that decides; None for any other fold."""
    body = step.step
    if (
        isinstance(body, Logic)
        and isinstance(step.initial, Constant)
        and step.initial.value is not body.stop
        and _is_variable(body.terms[0], step.accumulator)
        and _is_variable(step.result, step.accumulator)
    ):
        return body.terms[1], body.stop
    return None


def _quantifier(step: Fold) -> Loop | None:
    """`all` and `exists`, which need no accumulator: the first error stands unless an element decides."""
    found = quantified(step)
    if found is None:
        return None
    predicate, stop = compile_step(found[0]), found[1]
    slot, slot2 = step.slot, step.slot2

    def loop(over: Value, slots: Slots) -> Value:
        error: EvaluationError | None = None
        for first, second in entries(over, slot2 >= 0):
            slots[slot] = first
            if slot2 >= 0:
                slots[slot2] = second
            try:
                value = predicate(slots)
            except Fatal:
                raise
            except EvaluationError as raised:
                error = error or raised
                continue
            if value is stop:
                return stop
            if type(value) is not bool:
                error = error or no_overload()
        if error is not None:
            raise error
        return not stop

    return loop


def _is_variable(step: Step, slot: int) -> bool:
    return isinstance(step, Attribute) and step.slot == slot and not step.qualifiers


def _general(step: Fold) -> Loop:
    pending = Pending(step.accumulator, compile_step(step.initial))
    condition, body, result = compile_step(step.condition), compile_step(step.step), compile_step(step.result)
    slot, slot2, accumulator = step.slot, step.slot2, step.accumulator

    def loop(over: Value, slots: Slots) -> Value:
        slots[accumulator] = pending
        for first, second in entries(over, slot2 >= 0):
            slots[slot] = first
            if slot2 >= 0:
                slots[slot2] = second
            if condition(slots) is False:
                break
            try:
                slots[accumulator] = body(slots)
            except Fatal:
                raise
            except EvaluationError as error:
                slots[accumulator] = error
        value = result(slots)
        return list(value) if type(value) is Accumulating else value

    return loop


_COMPILERS: dict[type[Step], Callable[[Any], Evaluator]] = {
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
