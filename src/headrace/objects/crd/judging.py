"""Objects of a custom kind judged by the rules of their schema, with the old object where there is one.

Source: apiextensions-apiserver's schema/cel/validation.go. A rule that fails on a part which did not change is let pass
(ratcheting), so that tightening a definition leaves what is stored alone. Rules may cost far more than a turn on the
event loop, and so may reading a large object: all of this is work that rests.
"""

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from headrace.api.resting import Resting, Turn
from headrace.api.sameness import as_key
from headrace.cel import counting
from headrace.cel.errors import CostLimitExceeded, EvaluationError
from headrace.cel.plan import Plan
from headrace.cel.values import NONE, Optional, Value
from headrace.objects.crd.cel_values import UNREAD, element_of, field_of, value_of
from headrace.objects.crd.rules import CALL_COST, MAP_TYPE, Rule, compiled
from headrace.objects.crd.structural import EMBEDDED, LIST_KEYS, LIST_TYPE, Schema
from headrace.objects.validation.errors import OMITTED, FieldErrors

ROOT = "<nil>"  # the path of the whole object
OBJECT_COST = 10_000_000
MESSAGE_BYTES = 5 * 1024
_OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
_BLOCKING = frozenset(f"FieldValue{each}" for each in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"))
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)


class _GiveUp(Exception):
    """No further rule is run."""


@dataclass(slots=True, eq=False)
class Judge:
    """The rules at one node of a schema and below it. `looks_back`: one of those here may ask for the old value."""

    schema: Schema
    root: bool
    rules: tuple[Rule, ...]
    looks_back: bool
    properties: dict[str, "Judge"] = field(default_factory=dict)
    others: "Judge | None" = None
    items: "Judge | None" = None


@dataclass(slots=True)
class _Part:
    """A part of an object: as it is in JSON and, once a rule has asked for it, as the value it is to expressions."""

    data: Any
    value: Value = UNREAD


@dataclass(slots=True)
class _Run:
    errors: FieldErrors
    budget: int = OBJECT_COST
    turn: Turn = field(default_factory=Turn)


def judge_of(schema: Schema) -> Resting[Judge | None]:
    """The judge of whole objects, or None for a schema without rules."""
    return _judge(schema, root=True)


def judge(found: Judge, obj: Any, old: Any, errors: FieldErrors) -> Resting[None]:
    """Add what the rules find; `old` is None for a new object. No rule runs on what does not keep to the schema."""
    if errors.full or any(cause.reason in _BLOCKING for cause in errors.causes):
        errors.invalid(ROOT, None, _UNCHECKED)
        return
    was = None if old is None else _Part(old)
    with suppress(_GiveUp):
        yield from _visit(found, "", _Part(obj), was, old is not None and obj == old, _Run(errors))


def _judge(schema: Schema, *, root: bool) -> Resting[Judge | None]:
    rules = yield from compiled(schema, root=root)
    made = Judge(schema, root, rules, any(rule.uses_old or rule.words is not None for rule in rules))
    for name, inner in (schema.get("properties") or {}).items():
        below = yield from _judge(inner, root=bool(inner.get(EMBEDDED)))
        if below is not None:
            made.properties[name] = below
    others, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(others, dict):
        made.others = yield from _judge(others, root=bool(others.get(EMBEDDED)))
    if isinstance(items, dict):
        made.items = yield from _judge(items, root=bool(items.get(EMBEDDED)))
    return made if made.rules or made.properties or made.others or made.items else None


def _visit(found: Judge, path: str, part: _Part, was: _Part | None, same: bool, run: _Run) -> Resting[None]:
    """`same`: the part, or the nearest above it that has an old one, is as it was."""
    if part.data is None:
        return
    if run.turn.is_over():
        yield
    if found.rules:
        yield from _evaluate(found, path, part, was, same, run)
    if isinstance(part.data, dict):
        yield from _visit_map(found, path, part, was, same, run)
    elif isinstance(part.data, list) and found.items is not None:
        keys = found.schema.get(LIST_KEYS) or ()
        before = yield from _by_key(found.schema, was, run)
        for at, item in enumerate(part.data):
            earlier = before.get(_key(item, keys)) if before else None
            here = _Part(item, element_of(part.value, at))
            yield from _visit(found.items, f"{path}[{at}]", here, earlier, _is_same(same, here, earlier), run)


def _visit_map(found: Judge, path: str, part: _Part, was: _Part | None, same: bool, run: _Run) -> Resting[None]:
    related = found.schema.get(MAP_TYPE) in (None, "granular", "atomic")
    for name, item in part.data.items():
        if name in found.properties:
            below, inner = found.properties[name], f"{path}.{name}" if path else name
        elif found.others is not None:
            below, inner = found.others, f"{path}[{name}]"
        else:
            continue
        here = _Part(item, field_of(part.value, name, found.schema, root=found.root))
        earlier = _field(found, was, name) if related else None
        yield from _visit(below, inner, here, earlier, _is_same(same, here, earlier), run)


def _is_same(above: bool, part: _Part, was: _Part | None) -> bool:
    return above or (was is not None and bool(part.data == was.data))


def _field(found: Judge, whole: _Part | None, name: str) -> _Part | None:
    data = whole.data.get(name) if whole is not None and isinstance(whole.data, dict) else None
    if whole is None or data is None:
        return None
    return _Part(data, field_of(whole.value, name, found.schema, root=found.root))


def _by_key(schema: Schema, old: _Part | None, run: _Run) -> Resting[Mapping[Hashable, _Part]]:
    """The old elements by what tells them apart, their keys; only lists of maps have such."""
    known: dict[Hashable, _Part] = {}
    if old is None or schema.get(LIST_TYPE) != "map" or not isinstance(old.data, list):
        return known
    keys = schema.get(LIST_KEYS) or ()
    for at, each in enumerate(old.data):
        if run.turn.is_over():
            yield
        known.setdefault(_key(each, keys), _Part(each, element_of(old.value, at)))
    known.pop(None, None)
    return known


def _key(item: Any, keys: Sequence[str]) -> Hashable:
    return as_key([item.get(name) for name in keys]) if isinstance(item, dict) else None


def _read(part: _Part, found: Judge, run: _Run) -> Resting[Value]:
    """The value of a part, read once however many rules and levels ask for it."""
    if part.value is UNREAD:
        part.value = yield from value_of(part.data, found.schema, run.turn, root=found.root)
    return part.value


def _evaluate(found: Judge, path: str, part: _Part, was: _Part | None, same: bool, run: _Run) -> Resting[None]:
    kind = found.schema.get("type", "")
    shown = OMITTED if kind in ("object", "array") else part.data
    self_value = yield from _read(part, found, run)
    old_value = (yield from _read(was, found, run)) if found.looks_back and was is not None else None
    for rule in found.rules:
        if rule.uses_old and was is None and not rule.optional_old:
            continue
        before = (NONE if was is None else Optional(old_value)) if rule.optional_old else old_value
        result = yield from _spent(rule.condition, [self_value, before], run, path, kind)
        if result is True:
            continue
        if isinstance(result, EvaluationError):
            _tell_error(result, rule, path, kind, run)
            continue
        said = yield from _words(rule, [self_value, old_value], path, kind, run)
        if rule.uses_old or not same:
            message = said or rule.message or f"failed rule: {rule.text}"
            _tell(rule, _joined(path, rule.place) or ROOT, shown, message, run.errors)


def _spent(plan: Plan, inputs: list[Value], run: _Run, path: str, kind: str) -> Resting[Value]:
    result, books = yield from counting.evaluating(plan, inputs, CALL_COST, run.turn.left)
    run.turn.left = books.rest_at - books.cost
    if books.cost > run.budget:
        run.errors.invalid(path or ROOT, kind, _OUT_OF_BUDGET)
        raise _GiveUp
    run.budget -= books.cost
    return result


def _tell_error(error: EvaluationError, rule: Rule, path: str, kind: str, run: _Run) -> None:
    name, said = rule.message or rule.text, str(error)
    if isinstance(error, CostLimitExceeded):
        detail = f"'{said}': no further validation rules will be run due to call cost exceeds limit for rule: {name}"
        run.errors.invalid(path or ROOT, kind, detail)
        raise _GiveUp
    if said.startswith("no such overload"):
        words = "call arguments did not match a supported operator, function or macro signature for rule"
        run.errors.invalid(path or ROOT, kind, f"'{said}': {words}: {name}")
    else:
        run.errors.invalid(path or ROOT, kind, f"{said} evaluating rule: {name}")


def _words(rule: Rule, inputs: list[Value], path: str, kind: str, run: _Run) -> Resting[str]:
    """What the rule's messageExpression says, or nothing where it fails to say it."""
    if rule.words is None:
        return ""
    said = yield from _spent(rule.words, inputs, run, path, kind)
    text = said.strip() if isinstance(said, str) else ""
    return "" if len(text.encode()) > MESSAGE_BYTES or "\n" in text else text


def _joined(path: str, place: str) -> str:
    return f"{path}.{place}" if path and place and not place.startswith("[") else path + place


def _tell(rule: Rule, path: str, value: Any, detail: str, errors: FieldErrors) -> None:
    match rule.reason:
        case "FieldValueForbidden":
            errors.forbidden(path, detail)
        case "FieldValueRequired":
            errors.required(path, detail)
        case "FieldValueDuplicate":
            errors.duplicate(path, value)
        case _:
            errors.invalid(path, value, detail)
