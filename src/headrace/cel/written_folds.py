"""Macros as loops in Python source: all and exists, exists_one, map, filter and transformList, and cel.bind.

What fails is kept as the reference keeps it: for all and exists the first error stands unless an element decides; for
the others the accumulator is the error, which a later predicate that fails replaces.
"""

from collections.abc import Iterable

from headrace.cel.closures import quantified
from headrace.cel.counting import entries, not_iterable
from headrace.cel.plan import Attribute, Constant, Equality, Fold, Invocation, MakeList, MakeMap, MakeObject, Step
from headrace.cel.source import LITERALS, Code, Source, Unsupported
from headrace.cel.values import LISTS, Accumulating, Value, is_map, key_value

MAPS = ("attributes", "capacity")
_FATAL = frozenset({"@in", "cel.@mapInsert"})  # they may find a key that the reference cannot hash


def assert_calm(step: Step) -> None:
    """That the step can be left out where one before it failed: it never fails as a whole."""
    if isinstance(step, MakeMap | MakeObject) or (isinstance(step, Invocation) and step.function in _FATAL):
        raise Unsupported
    for part in step.parts():
        assert_calm(part)


def fold(source: Source, step: Fold) -> Code:
    asked = quantified(step)
    if asked is not None:
        return _quantifier(source, step, *asked)
    if isinstance(step.range, Constant) and step.range.value == []:
        return _bind(source, step)
    return _gathering(source, step)


def _bind(source: Source, step: Fold) -> Code:
    """The variable is another name for the way to its value, or holds the value; the result is what counts."""
    if step.accumulator in source.bound or step.accumulator in source.elements:
        raise Unsupported
    initial = step.initial
    if _is_way(initial) or (isinstance(initial, Constant) and initial.value != []):
        source.bound[step.accumulator] = initial
        try:
            return source.write(step.result)
        finally:
            del source.bound[step.accumulator]
    assert_calm(initial)
    value, error = source.new(), source.new()
    source.emit(f"{value} = None")
    source.term(initial, value, error, is_bool=False)
    source.names["Accumulating"] = Accumulating
    source.emit(f"if type({value}) is list and not {value}: {value} = Accumulating()")
    source.elements[step.accumulator] = Code(value, None, error)
    try:
        return source.write(step.result)
    finally:
        del source.elements[step.accumulator]


def _is_way(step: Step) -> bool:
    return isinstance(step, Attribute) and step.operand is None and step.branches is None and step.test_id is None


class _Loop:
    """The head of a loop over what a macro goes through, and its variables."""

    def __init__(self, source: Source, step: Fold) -> None:
        slots = (step.slot,) if step.slot2 < 0 else (step.slot, step.slot2)
        if any(slot in source.elements for slot in slots):
            raise Unsupported
        over, kind = _names(step.range) if step.slot2 < 0 else (None, None)
        if over is None:
            over, kind = _general(source, step)
        variables = [source.new() for _ in slots]
        self.slots = slots
        self.codes = [Code(variables[0], kind), *(Code(each) for each in variables[1:])]
        self.head = f"for {', '.join(variables)} in {over}:"

    def enter(self, source: Source) -> None:
        source.elements.update(zip(self.slots, self.codes, strict=True))

    def leave(self, source: Source) -> None:
        for slot in self.slots:
            del source.elements[slot]


def _names(step: Step) -> tuple[str | None, type | None]:
    """Names of domains or of attributes of one domain: what most macros go through."""
    if not isinstance(step, Attribute) or step.slot != 0 or step.detached or step.test_id is not None:
        return None, None
    keys = [each.key for each in step.qualifiers if each.step is None and not each.optional and not each.test]
    if len(keys) != len(step.qualifiers) or not keys or keys[0] not in MAPS or len(keys) > 2:
        return None, None
    if len(keys) == 2 and type(keys[1]) is not str:
        return None, None
    return f"d[{keys[0]!r}]" + (f".get({keys[1]!r}, EMPTY)" if len(keys) == 2 else ""), str


def _general(source: Source, step: Fold) -> tuple[str, type | None]:
    over = step.range
    if isinstance(over, Constant) and type(over.value) is list and step.slot2 < 0:
        kinds = {type(each) for each in over.value}
        return source.name(over.value), kinds.pop() if len(kinds) == 1 and kinds <= set(LITERALS) else None
    value, found = source.held(source.write(over)), source.new()
    if step.slot2 < 0:
        source.emit(f"{found} = {source.helper(elements)}({value})")
    else:
        source.emit(f"{found} = {source.helper(pairs)}({value})")
    with source.block(f"if {found} is None:"):
        source.failing(f"{source.helper(not_iterable)}({value}, {step.slot2 >= 0})")
    return found, None


def elements(over: Value) -> Iterable[Value] | None:
    """What a macro of one variable goes through; None where it cannot."""
    if type(over) in LISTS:
        return over  # type: ignore[no-any-return]
    return [key_value(key) for key in over] if is_map(over) else None


def pairs(over: Value) -> Iterable[tuple[Value, Value]] | None:
    """What a macro of two variables goes through; None where it cannot."""
    return entries(over, True) if type(over) in LISTS or is_map(over) else None


def _quantifier(source: Source, step: Fold, predicate: Step, stop: bool) -> Code:
    """A loop that ends at the first element that decides."""
    loop = _Loop(source, step)
    found, error, value, own = (source.new() for _ in range(4))
    loop.enter(source)
    try:
        source.emit(f"{found}, {error} = {not stop}, None")
        with source.block(loop.head):
            source.term(predicate, value, own)
            with source.block(f"if {own} is not None:"):
                source.emit(f"{error} = {error} or {own}")
            with source.block(f"elif {value} is {stop}:"):
                source.emit(f"{found}, {error} = {stop}, None")
                source.emit("break")
    finally:
        loop.leave(source)
    with source.block(f"if {error} is not None:"):
        source.failing(error)
    return Code(found, bool)


def _gathering(source: Source, step: Fold) -> Code:
    """A list of what each element gives, or the number of those that are wanted."""
    wanted, added = _shape(step)
    assert_calm(added)
    loop = _Loop(source, step)
    found, error, value, own = (source.new() for _ in range(4))
    is_list = isinstance(step.initial, Constant) and step.initial.value == []
    source.emit(f"{found}, {error} = {'[]' if is_list else '0'}, None")
    loop.enter(source)
    try:
        with source.block(loop.head):
            if wanted is not None:
                source.term(wanted, value, own)
                source.emit(f"if {own} is not None: {error} = {own}; continue")
                source.emit(f"if not {value} or {error} is not None: continue")
            if not is_list:
                source.emit(f"{found} += 1")
            else:
                source.term(added, value, own, is_bool=False)
                with source.block(f"if {own} is not None:"):
                    source.emit(f"{error} = {own}")
                    source.emit("break" if wanted is None else "continue")
                source.emit(f"{found}.append({value})")
    finally:
        loop.leave(source)
    with source.block(f"if {error} is not None:"):
        source.failing(error)
    return Code(found, list) if is_list else Code(f"({found} == 1)", bool)


def _shape(step: Fold) -> tuple[Step | None, Step]:
    """Which elements are wanted (None: all), and what each adds; Unsupported for any other fold."""
    accumulator = step.accumulator
    wanted, body = _filtered(step.step, accumulator)
    if not (isinstance(step.condition, Constant) and step.condition.value is True and isinstance(body, Invocation)):
        raise Unsupported
    if body.function != "_+_" or not _is_variable(body.arguments[0], accumulator):
        raise Unsupported
    added = body.arguments[1]
    if _is_number(step.initial, 0) and wanted is not None and _is_number(added, 1):
        result = step.result
        if isinstance(result, Equality) and _is_variable(result.one, accumulator) and _is_number(result.other, 1):
            return wanted, added
    if isinstance(step.initial, Constant) and step.initial.value == [] and _is_variable(step.result, accumulator):
        return wanted, _only(added)
    raise Unsupported


def _filtered(step: Step, accumulator: int) -> tuple[Step | None, Step]:
    """The predicate, and the step for those of which it is true."""
    if not isinstance(step, Attribute) or step.branches is None:
        return None, step
    kept, left = step.branches
    if not _is_variable(left, accumulator) or kept.operand is None or kept.qualifiers:
        raise Unsupported
    return step.condition, kept.operand


def _only(step: Step) -> Step:
    if isinstance(step, MakeList) and len(step.elements) == 1 and not step.optional:
        return step.elements[0]
    if isinstance(step, Constant) and type(step.value) is list and len(step.value) == 1:
        return Constant(step.id, step.value[0])
    raise Unsupported


def _is_variable(step: Step, slot: int) -> bool:
    return isinstance(step, Attribute) and step.slot == slot and not step.qualifiers


def _is_number(step: Step, number: int) -> bool:
    return isinstance(step, Constant) and type(step.value) is int and step.value == number
