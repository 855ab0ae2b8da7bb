"""Objects of a custom kind judged by the rules of their schema, with the old object where there is one.

Source: apiextensions-apiserver's schema/cel/validation.go. A rule that fails on a part which did not change is let pass
(ratcheting), so that tightening a definition leaves what is stored alone.
"""

from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from headrace.cel import counting
from headrace.cel.errors import CostLimitExceeded, EvaluationError
from headrace.cel.plan import Plan
from headrace.cel.values import NONE, Optional, Value
from headrace.objects.crd.cel_values import value_of
from headrace.objects.crd.rules import CALL_COST, MAP_TYPE, Rule, compiled
from headrace.objects.crd.sameness import as_key
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
class _Run:
    errors: FieldErrors
    budget: int = OBJECT_COST


def judge_of(schema: Schema) -> Judge | None:
    """The judge of whole objects, or None for a schema without rules."""
    return _judge(schema, root=True)


def judge(found: Judge, obj: Any, old: Any, errors: FieldErrors) -> None:
    """Add what the rules find; `old` is None for a new object. No rule runs on what does not keep to the schema."""
    if any(cause.reason in _BLOCKING for cause in errors.causes):
        errors.invalid(ROOT, None, _UNCHECKED)
        return
    with suppress(_GiveUp):
        _visit(found, "", obj, old, old is not None and obj == old, _Run(errors))


def _judge(schema: Schema, *, root: bool) -> Judge | None:
    rules = compiled(schema, root=root)
    made = Judge(schema, root, rules, any(rule.uses_old or rule.words is not None for rule in rules))
    for name, inner in (schema.get("properties") or {}).items():
        below = _judge(inner, root=bool(inner.get(EMBEDDED)))
        if below is not None:
            made.properties[name] = below
    others, items = schema.get("additionalProperties"), schema.get("items")
    made.others = _judge(others, root=bool(others.get(EMBEDDED))) if isinstance(others, dict) else None
    made.items = _judge(items, root=bool(items.get(EMBEDDED))) if isinstance(items, dict) else None
    return made if made.rules or made.properties or made.others or made.items else None


def _visit(found: Judge, path: str, value: Any, old: Any, same: bool, run: _Run) -> None:
    """`same`: the value, or the nearest part above it that has an old one, is as it was."""
    if value is None:
        return
    if found.rules:
        _evaluate(found, path, value, old, same, run)
    if isinstance(value, dict):
        _visit_map(found, path, value, old if isinstance(old, dict) else {}, same, run)
    elif isinstance(value, list) and found.items is not None:
        before = _by_key(found.schema, old)
        for at, item in enumerate(value):
            was = before(item)
            _visit(found.items, f"{path}[{at}]", item, was, same if was is None else item == was, run)


def _visit_map(found: Judge, path: str, value: dict[str, Any], old: dict[str, Any], same: bool, run: _Run) -> None:
    related = found.schema.get(MAP_TYPE) in (None, "granular", "atomic")
    for name, item in value.items():
        if name in found.properties:
            below, here = found.properties[name], f"{path}.{name}" if path else name
        elif found.others is not None:
            below, here = found.others, f"{path}[{name}]"
        else:
            continue
        was = old.get(name) if related else None
        _visit(below, here, item, was, same if was is None else item == was, run)


def _by_key(schema: Schema, old: Any) -> Callable[[Any], Any]:
    """Finds the old element with the same keys; only lists of maps have such."""
    keys = schema.get(LIST_KEYS) or ()
    if schema.get(LIST_TYPE) != "map" or not isinstance(old, list):
        return lambda item: None

    def key(item: Any) -> Hashable:
        return as_key([item.get(name) for name in keys]) if isinstance(item, dict) else None

    known: dict[Hashable, Any] = {}
    for each in old:
        known.setdefault(key(each), each)
    known.pop(None, None)
    return lambda item: known.get(key(item))


def _evaluate(found: Judge, path: str, value: Any, old: Any, same: bool, run: _Run) -> None:
    kind = found.schema.get("type", "")
    shown = OMITTED if kind in ("object", "array") else value
    self_value = value_of(value, found.schema, root=found.root)
    old_value = value_of(old, found.schema, root=found.root) if found.looks_back and old is not None else None
    for rule in found.rules:
        if rule.uses_old and old is None and not rule.optional_old:
            continue
        before = (NONE if old is None else Optional(old_value)) if rule.optional_old else old_value
        result = _spent(rule.condition, [self_value, before], run, path, kind)
        if result is True:
            continue
        if isinstance(result, EvaluationError):
            _tell_error(result, rule, path, kind, run)
            continue
        message = _words(rule, [self_value, old_value], path, kind, run) or rule.message or f"failed rule: {rule.text}"
        if rule.uses_old or not same:
            _tell(rule, _joined(path, rule.place) or ROOT, shown, message, run.errors)


def _spent(plan: Plan, inputs: list[Value], run: _Run, path: str, kind: str) -> Value:
    result, books = counting.evaluate(plan, inputs, CALL_COST)
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


def _words(rule: Rule, inputs: list[Value], path: str, kind: str, run: _Run) -> str:
    """What the rule's messageExpression says, or nothing where it fails to say it."""
    if rule.words is None:
        return ""
    said = _spent(rule.words, inputs, run, path, kind)
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
