"""Rules of headrace's own kinds that a schema cannot say: quantities, selectors, what must lie below what."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from headrace.api import kinds
from headrace.api.quantity import InvalidQuantity, parse
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.label_selectors import validate_label_selector

RESOURCES = ("cpu", "memory")
MEASURED = (*RESOURCES, "throttling", "pressure-cpu", "pressure-memory")
LEAST_MEBIBYTES = 1  # no process starts in less; what is meant by a bare 64 is 64Mi
LEAST_MILLICORES = 10  # the kernel takes no quota below 1 ms, which is 10m of a period of 100 ms

Rule = Callable[[dict[str, Any], FieldErrors], None]


def resize_policy(spec: dict[str, Any], errors: FieldErrors) -> None:
    validate_label_selector(spec.get("selector") or {}, "spec.selector", errors)
    least = _amounts(spec, "min", errors)
    most = _amounts(spec, "max", errors)
    _amounts(spec, "quota", errors)
    for name in sorted(least.keys() & most.keys()):
        if least[name] > most[name]:
            detail = f"must be less than or equal to spec.max.{name} of {spec['max'][name]}"
            errors.invalid(f"spec.min.{name}", spec["min"][name], detail)
    for at, trigger in enumerate(spec.get("triggers") or ()):
        _trigger(trigger, f"spec.triggers[{at}]", errors)
    _quantity((spec.get("oom") or {}).get("step"), "spec.oom.step", errors)


def scaling_action(spec: dict[str, Any], errors: FieldErrors) -> None:
    for name, text in (spec.get("current") or {}).items():
        _quantity(text, f"spec.current.{name}", errors)  # what a Pod has, which may be less than is ever asked for
    memory = _amounts(spec, "target", errors).get("memory")
    if memory is not None and memory < (LEAST_MEBIBYTES << 20) * 1_000_000_000:
        errors.invalid("spec.target.memory", spec["target"]["memory"], f"must be at least {LEAST_MEBIBYTES}Mi")


def capacity_reservation(spec: dict[str, Any], errors: FieldErrors) -> None:
    for name, text in (spec.get("resources") or {}).items():
        _quantity(text, f"spec.resources[{name}]", errors)
    until = spec.get("expirationTime")
    if until is not None:
        try:
            datetime.fromisoformat(str(until).replace("Z", "+00:00"))
        except ValueError:
            errors.invalid("spec.expirationTime", until, "must be a time as RFC 3339 has it: 2027-01-15T08:00:00Z")


RULES: dict[str, Rule] = {
    kinds.RESIZE_POLICY.resource: resize_policy,
    kinds.RESOURCE_SCALING_ACTION.resource: scaling_action,
    kinds.CAPACITY_RESERVATION.resource: capacity_reservation,
}
"""By resource: asked after an object has passed its schema."""


def _trigger(trigger: dict[str, Any], path: str, errors: FieldErrors) -> None:
    if not trigger.get("up") and not trigger.get("down"):
        errors.required(path, "up or down: a trigger without either never acts")
    for direction in ("up", "down"):
        threshold = trigger.get(direction)
        if threshold is None:
            continue
        if len(threshold) != 1:
            errors.invalid(f"{path}.{direction}", threshold, "must have exactly one of above, below")
        for side, text in threshold.items():
            _threshold(text, trigger.get("metric", ""), f"{path}.{direction}.{side}", errors)
    if trigger.get("query") and trigger.get("metric") in MEASURED:
        detail = f"{trigger['metric']} is measured; give the metric a name of its own"
        errors.invalid(f"{path}.query", trigger["query"], detail)
    samples = trigger.get("samples") or {}
    if samples.get("matching", 0) > samples.get("of", samples.get("matching", 0)):
        errors.invalid(f"{path}.samples.matching", samples["matching"], f"must not exceed of, {samples['of']}")
    resources = trigger.get("resources") or []
    if len(set(resources)) != len(resources):
        errors.duplicate(f"{path}.resources", resources)
    up, down = trigger.get("up") or {}, trigger.get("down") or {}
    if up.keys() & down.keys():
        errors.invalid(f"{path}.down", down, "must look to the other side than up: one above, the other below")
    _apart(up, down, path, errors)


def _apart(up: dict[str, Any], down: dict[str, Any], path: str, errors: FieldErrors) -> None:
    """What is idle and degraded at once would grow and shrink in turn. A share and an amount cannot be compared."""
    for given, other, sign, word in (("above", "below", 1, "less"), ("below", "above", -1, "greater")):
        if given not in up or other not in down:
            continue
        grows, shrinks = str(up[given]), str(down[other])
        if grows.endswith("%") != shrinks.endswith("%"):
            continue
        try:
            room = parse(grows.removesuffix("%")).nano - parse(shrinks.removesuffix("%")).nano
        except InvalidQuantity:
            continue  # told already
        if room * sign <= 0:
            detail = f"must be {word} than up.{given} of {grows}: else it grows and shrinks in turn"
            errors.invalid(f"{path}.down.{other}", shrinks, detail)


def _threshold(text: Any, metric: str, path: str, errors: FieldErrors) -> None:
    if str(text).endswith("%"):
        if metric not in RESOURCES:
            detail = f"a share of a limit is possible for cpu and memory, not for {metric}; give an amount"
            errors.invalid(path, text, detail)
            return
        digits = str(text)[:-1]
        if len(digits) > 3 or not digits.isascii() or not digits.isdigit() or not 0 < int(digits) <= 100:
            errors.invalid(path, text, "must be a share of the limit from 1% to 100%")
        return
    _quantity(text, path, errors, least=0)


def _amounts(spec: dict[str, Any], field: str, errors: FieldErrors) -> dict[str, int]:
    found = {}
    for name, text in (spec.get(field) or {}).items():
        amount = _quantity(text, f"spec.{field}.{name}", errors)
        if amount is not None:
            found[name] = amount
            if name == "cpu" and amount < LEAST_MILLICORES * 1_000_000:
                errors.invalid(f"spec.{field}.cpu", text, f"must be at least {LEAST_MILLICORES}m")
    return found


def _quantity(text: Any, path: str, errors: FieldErrors, least: int = 1) -> int | None:
    """In nano units."""
    if text is None:
        return None
    try:
        nano = parse(str(text)).nano
    except InvalidQuantity as wrong:
        errors.invalid(path, text, f"must be a quantity such as 500m or 1Gi: {wrong}")
        return None
    if nano < least:
        errors.invalid(path, text, "must be greater than 0" if least else "must not be negative")
        return None
    return nano
