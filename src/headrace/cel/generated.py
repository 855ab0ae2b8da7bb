"""Selectors as Python source: what they are made of, written out; the little that is not is called as closures.

The function made here takes a prepared device's root and returns the value, or the EvaluationError it fails with: an
error that is returned costs a fifth of one that is raised. It only raises Fatal. Its answers are those of
`headrace.cel.closures` (a law of the tests), which has the meaning of each step.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headrace.cel.access import KEY_TYPES, as_key, look, lookup
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
    Membership,
    Plan,
    Qualifier,
    Step,
    is_member,
)
from headrace.cel.source import LITERALS, Code, Source, Unsupported
from headrace.cel.values import EMPTY, MISSING, NONE, Optional, QuantityValue, Semver, Value, equal
from headrace.cel.written_folds import MAPS, assert_calm, fold

Selecting = Callable[[Value], Value]

REPEATS = 2

_SIGNS = {
    operators.less: "<",
    operators.less_equal: "<=",
    operators.greater: ">",
    operators.greater_equal: ">=",
}
_ORDERING = {"isGreaterThan": "{} > 0", "isLessThan": "{} < 0", "compareTo": "{}"}
_LOOKING_FOR = {"matches": "{} is not None", "find": "(m.group() if (m := {}) else '')"}
_WAY = 3  # names on the way to an attribute or a capacity
_FIELDS = {"driver": str, "allowMultipleAllocations": bool}
_SIMPLE = re.compile(r"\^?(([A-Za-z0-9 _/:-]|\\d|\[0-9\]|\[a-z\]|\[A-Z\])([+*]|\{[0-9]\})?)+\$?", re.ASCII)
_NAMES = {
    "EMPTY": EMPTY, "NONE": NONE, "Optional": Optional, "QuantityValue": QuantityValue, "Semver": Semver,
    "equal": equal, "is_member": is_member,
}  # fmt: skip


def generate(plan: Plan) -> Selecting | None:
    """None where nothing would be gained: nothing but a call of closures would be left."""
    source = Source(_RULES, plan.slots)
    source.names.update(_NAMES)
    if type(plan.root) not in _RULES and source.free(plan.root):
        return None
    found = source.write(plan.root)
    lines = ["def select(d):"]
    if source.calls:
        lines.append(f"    s = [d{', None' * (plan.slots - 1)}]")
    text = "\n".join([*lines, *source.lines, f"    return {found.text}"])
    exec(compile(text, "<selector>", "exec"), source.names)
    made: Selecting = source.names["select"]
    return made


# The ways into a device, and into other values


def attribute(source: Source, step: Attribute) -> Code:
    if step.branches is not None:
        return _conditional(source, step)
    if step.slot in source.bound:
        return _through(source, step, source.bound[step.slot])
    short = _short(source, step) if step.slot == 0 and not step.detached else None
    return short or _reached(source, step)


def _short(source: Source, step: Attribute) -> Code | None:
    """The usual ways, `device.attributes["domain"].name` before all."""
    qualifiers = step.qualifiers
    if len(qualifiers) == 3 and qualifiers[2].step is not None:
        return _computed(source, step)
    keys = [qualifier.key for qualifier in qualifiers]
    if not all(type(each.key) is str and each.step is None for each in qualifiers):
        return None
    if _is_optional_entry(step):
        found = source.new()
        source.emit(f"{found} = {_entry(keys)}")
        return Code(f"(NONE if {found} is None else Optional({found}))")
    if any(each.optional or each.test for each in qualifiers[:-1]):
        return None
    last = qualifiers[-1] if qualifiers else Qualifier(0)
    if len(keys) == 1 and not last.test and not last.optional and keys[0] in _FIELDS:
        return Code(f"d[{keys[0]!r}]", _FIELDS[keys[0]])
    if len(keys) == 2 and keys[0] in MAPS and not last.test and not last.optional:
        return Code(f"d[{keys[0]!r}].get({keys[1]!r}, EMPTY)")
    if len(keys) != _WAY or keys[0] not in MAPS or last.optional:
        return None
    entry = _entry(keys)
    if last.test:
        return Code(f"({entry} is not None)", bool)
    found = source.new()
    source.emit(f"{found} = {entry}")
    with source.block(f"if {found} is None:"):
        source.failing(source.name(EvaluationError(f"no such key: {keys[2]}")))
    return Code(found)


def _entry(keys: list[Value]) -> str:
    """The way to one attribute or capacity, None where it is not there."""
    return f"d[{keys[0]!r}].get({keys[1]!r}, EMPTY).get({keys[2]!r})"


def _computed(source: Source, step: Attribute) -> Code | None:
    """`device.attributes["domain"][name]` for each name that a macro goes through."""
    first, second, third = step.qualifiers
    key = third.step
    if any(each.optional or each.test for each in step.qualifiers) or first.step is not None or second.step is not None:
        return None
    if not isinstance(key, Attribute) or key.slot not in source.elements or key.qualifiers:
        return None
    name = source.elements[key.slot]
    if name.kind is not str or first.key not in MAPS or type(second.key) is not str:
        return None
    found = source.new()
    source.emit(f"{found} = d[{first.key!r}].get({second.key!r}, EMPTY).get({name.text})")
    with source.block(f"if {found} is None:"):
        source.failing(f"EvaluationError('no such key: ' + {name.text})")
    return Code(found)


def _through(source: Source, step: Attribute, start: Step) -> Code:
    """The way on from a value that has a name in the expression."""
    if isinstance(start, Attribute):
        return source.write(replace(start, qualifiers=[*start.qualifiers, *step.qualifiers], test_id=step.test_id))
    if step.qualifiers:
        raise Unsupported
    return source.write(start)


def _start(source: Source, step: Attribute) -> Code:
    if step.slot == 0:
        return Code("d")
    if step.operand is not None:
        return source.write(step.operand)
    if step.slot not in source.elements:
        raise Unsupported
    start = source.elements[step.slot]
    if start.error is not None:
        with source.block(f"if {start.error} is not None:"):
            source.failing(start.error)
    return start


def _reached(source: Source, step: Attribute) -> Code:
    """Any way from any value, one key after the other."""
    if step.detached:
        raise Unsupported
    start = _start(source, step)
    if not step.qualifiers:
        return start
    is_optional = step.slot != 0
    value, qualifiers = source.held(start), step.qualifiers
    if not is_optional and len(qualifiers) > _WAY and not any(each.step for each in qualifiers[:_WAY]):
        entry = _short(source, replace(step, qualifiers=qualifiers[:_WAY], test_id=None))
        if entry is not None:
            is_optional = any(each.optional for each in qualifiers[:_WAY])
            value, qualifiers = source.held(entry), qualifiers[_WAY:]
    for qualifier in qualifiers:
        if qualifier.optional:
            wrapped = source.new()
            source.emit(f"{wrapped} = {value} if type({value}) is Optional else Optional({value})")
            value, is_optional = wrapped, True
        if is_optional and qualifier.step is not None:
            raise Unsupported  # whether the key is asked for depends on whether the value is there
        found = source.new()
        helper = source.helper(tested if qualifier.test else reached)
        source.emit(f"{found} = {helper}({value}, {_key(source, qualifier)})")
        source.checked(found)
        value = found
    if is_optional and step.test_id is not None:
        return Code(f"({value}.has_value() if type({value}) is Optional else {value})")
    return Code(value)


def _key(source: Source, qualifier: Qualifier) -> str:
    if qualifier.step is None:
        return source.constant(qualifier.key).text
    code = source.write(qualifier.step)
    if code.kind in KEY_TYPES:
        return code.text
    key, wrong = source.held(code), source.new()
    source.emit(f"{wrong} = {source.helper(as_key)}({key})")
    with source.block(f"if {wrong} is not None:"):
        source.failing(wrong)
    return key


def reached(value: Value, key: Value) -> Value:
    """What is under the key; an optional value stays one, and is none where the key is missing."""
    if type(value) is not Optional:
        return lookup(value, key)
    if not value.has_value():
        return NONE
    found = look(value.value, key)
    return found if isinstance(found, EvaluationError) else NONE if found is MISSING else Optional(found)


def tested(value: Value, key: Value) -> Value:
    """Whether something is under the key; of an optional value what is there, as `reached` gives it."""
    if type(value) is Optional:
        return reached(value, key)
    found = look(value, key)
    return found if isinstance(found, EvaluationError) else found is not MISSING


def _conditional(source: Source, step: Attribute) -> Code:
    assert step.condition is not None
    assert step.branches is not None
    chosen, found = source.boolean(step.condition), source.new()
    for head, branch in zip((f"if {chosen}:", "else:"), step.branches, strict=True):
        with source.block(head):
            source.emit(f"{found} = {source.write(branch).text}")
    return Code(found)


def fallback(source: Source, step: Fallback) -> Code:
    """`device.attributes["domain"].?name.orValue(other)`, and of any other optional value."""
    path = step.optional
    found = source.new()
    if step.unwrap and isinstance(path, Attribute) and _is_optional_entry(path):
        source.emit(f"{found} = {_entry([each.key for each in path.qualifiers])}")
        with source.block(f"if {found} is None:"):
            source.emit(f"{found} = {source.write(step.other).text}")
        return Code(found)
    optional = source.held(source.write(path))
    with source.block(f"if type({optional}) is not Optional:"):
        source.failing("no_overload()")
    source.emit(f"if {optional}.has_value(): {found} = {optional}{'.value' if step.unwrap else ''}")
    with source.block("else:"):
        source.emit(f"{found} = {source.write(step.other).text}")
    return Code(found)


def _is_optional_entry(path: Attribute) -> bool:
    """`device.attributes["domain"].?name`, also with a `?` further up, where something is always there."""
    qualifiers = path.qualifiers
    return (
        path.slot == 0
        and not path.detached
        and len(qualifiers) == _WAY
        and qualifiers[0].key in MAPS
        and any(each.optional for each in qualifiers)
        and all(type(each.key) is str and each.step is None and not each.test for each in qualifiers)
    )


# Comparing


def equality(source: Source, step: Equality) -> Code:
    assert_calm(step.other)
    one, other = source.write(step.one), source.write(step.other)
    sign = "!=" if step.negated else "=="
    if one.kind is not None and one.kind is other.kind and one.kind in LITERALS:
        return Code(f"({one.text} {sign} {other.text})", bool)
    left, found = source.held(one), source.new()
    right = source.held(other) if other.kind is None else other.text
    if other.kind in LITERALS:
        source.emit(f"if type({left}) is {other.kind.__name__}: {found} = {left} {sign} {right}")
        head = "else:"
    elif one.kind is None and other.kind is None:
        source.emit(f"if type({left}) is str and type({right}) is str: {found} = {left} {sign} {right}")
        head = "else:"
    else:
        head = "if True:"
    with source.block(head):
        if step.negated:
            source.emit(f"{found} = equal({left}, {right}) is not True")
        else:
            source.emit(f"{found} = equal({left}, {right})")
            source.checked(found)
    return Code(found, bool)


def membership(source: Source, step: Membership) -> Code:
    value = source.held(source.write(step.value))
    found, members = source.new(), source.name(step.members)
    texts = source.name(frozenset(each[1] for each in step.members if isinstance(each, tuple) and each[0] is str))
    source.emit(f"{found} = {value} in {texts} if type({value}) is str else is_member({value}, {members})")
    return Code(found, bool)


def logic(source: Source, step: Logic) -> Code:
    one, other = step.terms
    found, stop = source.new(), step.stop
    if _never_fails(one):
        source.emit(f"{found} = {source.boolean(one)}")
        with source.block(f"if {found} is not {stop}:"):
            source.emit(f"{found} = {source.boolean(other)}")
        return Code(found, bool)
    error, second = source.new(), source.new()
    source.term(one, found, error)
    with source.block(f"if {error} is not None or {found} is not {stop}:"):
        source.term(other, found, second)
        with source.block(f"if {second} is not None or {error} is not None and {found} is not {stop}:"):
            source.failing(f"{error} or {second}")
    return Code(found, bool)


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
            return (step.function == "!_" and _never_fails(step.arguments[0])) or _is_name_in_domain(step)
    return False


def _is_test(step: Attribute) -> bool:
    return (
        step.test_id is not None
        and len(step.qualifiers) == 3
        and step.qualifiers[0].key in MAPS
        and all(type(each.key) is str and not each.optional and each.step is None for each in step.qualifiers)
    )


def _is_driver(step: Step) -> bool:
    return isinstance(step, Attribute) and step.slot == 0 and [each.key for each in step.qualifiers] == ["driver"]


def _is_there(step: Step) -> bool:
    return _is_driver(step) or (isinstance(step, Constant) and not isinstance(step.value, EvaluationError))


def _is_name_in_domain(step: Invocation) -> bool:
    """`"name" in device.attributes["domain"]`, or `"domain" in device.attributes`."""
    if step.function != "@in" or not isinstance(step.arguments[0], Constant):
        return False
    name, domain = step.arguments[0].value, step.arguments[1]
    if type(name) is not str or not isinstance(domain, Attribute) or domain.slot != 0 or domain.detached:
        return False
    return (
        0 < len(domain.qualifiers) < 3
        and domain.qualifiers[0].key in MAPS
        and all(type(each.key) is str and each.step is None for each in domain.qualifiers)
        and not any(each.optional or each.test for each in domain.qualifiers)
    )


# Calls and lists


def invocation(source: Source, step: Invocation) -> Code:
    number = len(step.arguments)
    if not step.strict:
        raise Unsupported
    if _is_name_in_domain(step):
        name, domain = (source.write(each) for each in step.arguments)
        return Code(f"({name.text} in {domain.text})", bool)
    first = step.arguments[0]
    if step.function == "hasValue" and isinstance(first, Attribute) and _is_optional_entry(first):
        return Code(f"({_entry([each.key for each in first.qualifiers])} is not None)", bool)
    if not step.bound.one_by_one:
        for argument in step.arguments[1:]:
            assert_calm(argument)
    values = [source.write(each) for each in step.arguments]
    if step.function == "!_" and values[0].kind is bool:
        return Code(f"(not {values[0].text})", bool)
    names = [source.held(each) if each.kind not in LITERALS else each.text for each in values]
    found, run = source.new(), source.name(step.bound.run)
    sign = _SIGNS.get(step.bound.run)
    general = f"{found} = {run}({', '.join(names)})"
    if sign is not None:
        whole = [f"type({name}) is int" for name, each in zip(names, values, strict=True) if each.kind is not int]
        source.emit(f"if {' and '.join(whole) or 'True'}: {found} = {names[0]} {sign} {names[1]}")
        head = "else:"
    elif step.function in _ORDERING and number == 2:
        _ordering(source, found, names[0], names[1], _ORDERING[step.function])
        head = "else:"
    elif step.function in _LOOKING_FOR and number == 2 and isinstance(step.arguments[1], Constant):
        head = _pattern(source, found, names[0], step.arguments[1].value, step.function)
    else:
        source.emit(general)
        source.checked(found)
        return Code(found)
    with source.block(head):
        source.emit(general)
        source.checked(found)
    return Code(found)


def _pattern(source: Source, found: str, text: str, pattern: Value, function: str) -> str:
    """Looking for a pattern in a text; Python's own engine finds the simplest ones as RE2 does, and sooner."""
    if type(pattern) is not str or _SIMPLE.fullmatch(pattern) is None or sum(map(pattern.count, "+*")) > REPEATS:
        return "if True:"
    end = r"\Z" if pattern.endswith("$") else ""
    search = source.name(re.compile(pattern.removesuffix("$") + end, re.ASCII).search)
    source.emit(f"if type({text}) is str: {found} = {_LOOKING_FOR[function].format(f'{search}({text})')}")
    return "else:"


def _ordering(source: Source, found: str, one: str, other: str, form: str) -> None:
    """Comparing two quantities or two versions; a branch for anything else has to follow."""
    source.emit(f"if type({one}) is QuantityValue and type({other}) is QuantityValue:")
    source.emit(f"    {found} = {one}.amount.compare({other}.amount)")
    source.emit(f"    {found} = {form.format(found)}")
    source.emit(f"elif type({one}) is Semver and type({other}) is Semver:")
    source.emit(f"    {found} = ({one}.core > {other}.core) - ({one}.core < {other}.core)")
    source.emit(f"    if {found} == 0 and ({one}.pre or {other}.pre):")
    source.emit(f"        {found} = ({one}.order() > {other}.order()) - ({one}.order() < {other}.order())")
    source.emit(f"    {found} = {form.format(found)}")


def make_list(source: Source, step: MakeList) -> Code:
    if step.optional:
        raise Unsupported
    texts = [source.write(each).text for each in step.elements]
    return Code(f"[{', '.join(texts)}]", list)


_RULES: dict[type[Step], Callable[[Source, Any], Code]] = {
    Attribute: attribute,
    Equality: equality,
    Membership: membership,
    Logic: logic,
    Fallback: fallback,
    Invocation: invocation,
    MakeList: make_list,
    Fold: fold,
}
