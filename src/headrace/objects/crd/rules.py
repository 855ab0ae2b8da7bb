"""Rules in a schema (`x-kubernetes-validations`): compiled, and checked where a definition brings them.

Compiling one takes milliseconds and a schema may have thousands, so this work rests after each.
Source: apiextensions-apiserver (pkg/apiserver/schema/cel/compilation.go, validation.go of CustomResourceDefinitions).
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from headrace.api.limits import BODY_BYTES
from headrace.api.resting import Resting
from headrace.cel import types
from headrace.cel.checker import check as check_types
from headrace.cel.declarations import Function
from headrace.cel.environment import ADMISSION, STORED, Environment
from headrace.cel.errors import CompileError, compilation_failed
from headrace.cel.estimate import estimate
from headrace.cel.parser import parse
from headrace.cel.plan import Plan, plan
from headrace.cel.types import Type
from headrace.cel.validators import validate
from headrace.objects.crd.declared import OLD_SELF, Declared, declared, environment
from headrace.objects.crd.structural import EMBEDDED, LIST_TYPE, RULES, Schema
from headrace.objects.validation.errors import FieldErrors

MAP_TYPE = "x-kubernetes-map-type"
CALL_COST = 1_000_000
RULE_COST = 10_000_000
DEFINITION_COST = 100_000_000
_LARGEST = 2**64 - 1
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_TELLING = 4  # of the costliest rules


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One rule of a schema, ready to run on `self` and `oldSelf`."""

    text: str
    message: str
    reason: str
    place: str
    optional_old: bool
    uses_old: bool
    condition: Plan
    words: Plan | None


@dataclass(frozen=True, slots=True, eq=False)
class _Compiled:
    plan: Plan
    cost: int
    uses_old: bool


def compiled(schema: Schema, *, root: bool) -> Resting[tuple[Rule, ...]]:
    """The rules of this node of a schema. One that does not compile is left out: its definition was refused."""
    given: list[dict[str, Any]] = schema.get(RULES) or []
    self_type = declared(schema, "selfType", root=root) if given else None
    if self_type is None:
        return ()
    environment_of = _environments(self_type, STORED)
    found = []
    for each in given:
        rule = _rule(each, environment_of(each), schema)
        if rule is not None:
            found.append(rule)
        yield
    return tuple(found)


def _rule(given: dict[str, Any], names: Environment, schema: Schema) -> Rule | None:
    try:
        condition = _expression(given["rule"], names, types.BOOL)
    except CompileError:
        return None
    words = None
    if given.get("messageExpression"):
        with suppress(CompileError):
            words = _expression(given["messageExpression"], names, types.STRING).plan
    return Rule(
        given["rule"].strip(),
        given.get("message", "").strip(),
        given.get("reason") or "FieldValueInvalid",
        field_path(given.get("fieldPath", ""), schema) or "",
        bool(given.get("optionalOldSelf")),
        condition.uses_old,
        condition.plan,
        words,
    )


def _environments(self_type: Declared, functions: Mapping[str, Function]) -> Callable[[dict[str, Any]], Environment]:
    """The environment of a rule. A node's rules share theirs: making one walks through the whole schema below."""
    made = cache(lambda optional_old: environment(self_type, functions, optional_old=optional_old))
    return lambda rule: made(bool(rule.get("optionalOldSelf")))


def _expression(source: str, names: Environment, wanted: Type) -> _Compiled:
    """Raises CompileError."""
    try:
        checked = check_types(source, parse(source, names.macros), names)
        issues = validate(checked)
        if issues:
            raise compilation_failed(source, issues)
        if checked.type(checked.root) != wanted:
            article = "messageExpression must" if wanted == types.STRING else "cel expression must"
            raise CompileError(f"{article} evaluate to a {wanted}")
        uses_old = OLD_SELF in checked.globals.values()
        return _Compiled(plan(checked, names), estimate(checked, names).high, uses_old)
    except RecursionError:
        raise CompileError("compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded") from None


@dataclass(frozen=True, slots=True)
class _Place:
    """A node of a schema: its path, and how often it may occur in an object (None: without bound).

    `unrelated` is the path of a list or map above it whose elements cannot be told apart in two versions of an object.
    """

    path: str
    root: bool
    times: int | None = 1
    unrelated: str = ""


def check(schema: Schema, path: str, errors: FieldErrors) -> Resting[None]:
    """Everything that is wrong with the rules of a definition's schema, which is structural."""
    costs: list[tuple[int, str]] = []
    yield from _check(schema, _Place(path, root=True), costs, errors)
    total = min(sum(cost for cost, _ in costs), _LARGEST)
    if total > DEFINITION_COST:
        telling = [each for each in costs if each[0] >= DEFINITION_COST // 100]
        for _, where in sorted(telling, key=lambda each: -each[0])[:_TELLING]:
            errors.forbidden(
                where, "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            )
        what = f"{RULES} estimated rule cost total for entire OpenAPIv3 schema"
        errors.forbidden(path, _too_costly(what, total, DEFINITION_COST))


def _check(schema: Schema, place: _Place, costs: list[tuple[int, str]], errors: FieldErrors) -> Resting[bool]:
    """Whether the forms of all rules here and below are right; only then are those here compiled."""
    right = True
    for inner, below in _below(schema, place):
        right &= yield from _check(inner, below, costs, errors)
    given = schema.get(RULES) or ()
    for at, rule in enumerate(given):
        right &= _form(rule, schema, f"{place.path}.{RULES}[{at}]", errors)
    found = declared(schema, "selfType", root=place.root) if given and right else None
    if found is not None:
        environment_of = _environments(found, ADMISSION)
        for at, rule in enumerate(given):
            _judge(rule, environment_of(rule), found.smallest, place, f"{place.path}.{RULES}[{at}]", costs, errors)
            yield
    return right


def _below(schema: Schema, place: _Place) -> Iterator[tuple[Schema, _Place]]:
    times = _times(schema, place.times)
    separate = "" if schema.get(MAP_TYPE) in (None, "granular", "atomic") else place.path
    for name, inner in (schema.get("properties") or {}).items():
        here = f"{place.path}.properties[{name}]"
        yield inner, _Place(here, bool(inner.get(EMBEDDED)), times, separate or place.unrelated)
    others, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(others, dict):
        here = f"{place.path}.additionalProperties"
        yield others, _Place(here, bool(others.get(EMBEDDED)), times, place.unrelated)
    if isinstance(items, dict):
        unrelated = place.unrelated if schema.get(LIST_TYPE) == "map" else place.path
        yield items, _Place(f"{place.path}.items", bool(items.get(EMBEDDED)), times, unrelated)


def _times(schema: Schema, times: int | None) -> int | None:
    if times is None or schema.get("type") not in ("object", "array"):
        return times
    if schema["type"] == "object" and not schema.get("additionalProperties"):
        return times
    most = schema.get("maxItems" if schema["type"] == "array" else "maxProperties")
    return None if most is None else min(times * max(most, 0), _LARGEST)


def _form(rule: dict[str, Any], schema: Schema, path: str, errors: FieldErrors) -> bool:
    before = errors.count
    text, message = rule.get("rule", "").strip(), rule.get("message", "")
    if not text:
        errors.required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        errors.invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _breaks(message.strip()):
        errors.invalid(f"{path}.message", message, "must not contain line breaks")
    elif _breaks(text) and not message.strip():
        errors.required(f"{path}.message", "message must be specified if rule contains line breaks")
    if rule.get("messageExpression") and not rule["messageExpression"].strip():
        errors.required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        errors.not_supported(f"{path}.reason", rule["reason"], _REASONS)
    place = rule.get("fieldPath", "")
    if place and not place.strip():
        errors.invalid(f"{path}.fieldPath", place, "must be non-empty if specified")
    if _breaks(place):
        errors.invalid(f"{path}.fieldPath", place, "must not contain line breaks")
    if place and field_path(place, schema) is None:
        errors.invalid(f"{path}.fieldPath", place, "must be a valid path")
    return errors.count == before


def _breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def _judge(
    rule: dict[str, Any],
    names: Environment,
    smallest: int,
    place: _Place,
    path: str,
    costs: list[tuple[int, str]],
    errors: FieldErrors,
) -> None:
    try:
        found = _expression(rule["rule"], names, types.BOOL)
    except CompileError as error:
        errors.invalid(f"{path}.rule", _shown(rule), error.detail)
        return
    times = BODY_BYTES // (smallest + 1) if place.times is None else place.times
    cost = min(found.cost * times, _LARGEST)
    costs.append((cost, f"{path}.rule"))
    if cost > RULE_COST:
        errors.forbidden(f"{path}.rule", _too_costly("estimated rule cost", cost, RULE_COST))
    if rule.get("messageExpression"):
        _judge_words(rule, names, f"{path}.messageExpression", costs, errors)
    if found.uses_old and place.unrelated:
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.unrelated}"
        errors.invalid(f"{path}.rule", rule["rule"], detail)
    elif not found.uses_old and rule.get("optionalOldSelf") is not None:
        detail = "may not be set if oldSelf is not used in rule"
        errors.invalid(f"{path}.optionalOldSelf", rule["optionalOldSelf"], detail)


def _judge_words(
    rule: dict[str, Any], names: Environment, path: str, costs: list[tuple[int, str]], errors: FieldErrors
) -> None:
    try:
        cost = _expression(rule["messageExpression"], names, types.STRING).cost
    except CompileError as error:
        prefix = "" if error.detail.startswith("messageExpression") else "messageExpression "
        errors.invalid(path, _shown(rule), prefix + error.detail)
        return
    costs.append((cost, path))
    if cost > RULE_COST:
        errors.forbidden(path, _too_costly("estimated messageExpression cost", cost, RULE_COST))


def _shown(rule: dict[str, Any]) -> OrderedDict[str, Any]:
    """A rule as the reference's errors show it: by the names of its Go type."""
    return OrderedDict((name[0].upper() + name[1:], rule.get(name, empty)) for name, empty in _PARTS)


_PARTS = (
    ("rule", ""),
    ("message", ""),
    ("messageExpression", ""),
    ("reason", None),
    ("fieldPath", ""),
    ("optionalOldSelf", None),
)


def _too_costly(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{what} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, maxProperties, and "
        "maxLength where arrays, maps, and strings are declared)"
    )


_STEP = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\[abfnrtv'\\])*)'\]")
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


def field_path(text: str, schema: Schema) -> str | None:
    """A rule's `fieldPath` (`.spec.ports`, `['odd name']`) as errors write paths; None where it names nothing."""
    found, at, inner = "", 0, schema
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            return None
        name = step[1] if step[1] is not None else re.sub(r"\\(.)", lambda each: _ESCAPED[each[1]], step[2])
        if inner.get("properties") is not None:
            if name not in inner["properties"]:
                return None
            inner, found = inner["properties"][name], f"{found}.{name}" if found else name
        elif isinstance(inner.get("additionalProperties"), dict):
            inner, found = inner["additionalProperties"], f"{found}[{name}]"
        else:
            return None
        at = step.end()
    return found
