"""The rules of claims, templates, classes and taint rules of resource.k8s.io/v1 (pkg/apis/resource/validation)."""

from collections.abc import Callable, Iterator
from typing import Any

import orjson

from headrace.api.objects import Fields
from headrace.objects.validation import expressions, names
from headrace.objects.validation.errors import FieldErrors

REQUESTS = 32
CONSTRAINTS = CONFIGS = SELECTORS = 32
ALTERNATIVES = 8
TOLERATIONS = 16
DRIVER_BYTES = 63
POOL_BYTES = 253
OPAQUE_BYTES = 10 * 1024
BINDING_CONDITIONS = 4
DOMAIN_BYTES, IDENTIFIER_BYTES = 63, 32
NATIVE_DOMAIN, OF_QUOTAS = "kubernetes.io/", "requests."
EFFECTS = ("NoExecute", "NoSchedule", "None")
NOT_A_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"

Check = Callable[[Any, str], None]


def each(items: list[Any] | None, limit: int, path: str, errors: FieldErrors, check: Check, key: str = "") -> None:
    """All items, unless there are too many of them. With `key` (a field, or "." for the item) none may repeat."""
    given = items or []
    if len(given) > limit:
        errors.too_many(path, len(given), limit)
        return
    for at, item in enumerate(given):
        check(item, f"{path}[{at}]")
    seen: set[Any] = set()
    for at, item in enumerate(given if key else ()):
        identity = item if key == "." else item.get(key, "")
        if identity in seen:
            errors.duplicate(f"{path}[{at}]", identity)
        seen.add(identity)


def label(text: str, path: str, errors: FieldErrors) -> None:
    for message in names.dns_label(text):
        errors.invalid(path, text, message)


def label_key(text: str, path: str, errors: FieldErrors) -> None:
    for message in names.qualified_name_errors(text):
        errors.invalid(path, text, message)


def driver_name(text: str, path: str, errors: FieldErrors) -> None:
    if not text:
        errors.required(path)
        return
    if len(text) > DRIVER_BYTES:
        errors.too_long(path, DRIVER_BYTES)
    for message in names.dns_subdomain(text.lower()):
        errors.invalid(path, text, message)


def pool_name(text: str, path: str, errors: FieldErrors) -> None:
    if not text:
        errors.required(path)
        return
    if len(text) > POOL_BYTES:
        errors.too_long(path, POOL_BYTES)
    for part in text.split("/"):
        for message in names.dns_subdomain(part):
            errors.invalid(path, part, message)


def qualified_name(text: str, path: str, errors: FieldErrors) -> None:
    """A device's attribute or capacity: a C identifier, with a domain before it or not."""
    parts = text.split("/")
    if len(parts) == 2:
        if not parts[0]:
            errors.invalid(path, "", "the domain must not be empty")
        else:
            driver_name(parts[0], path, errors)
        if not parts[1]:
            errors.invalid(path, "", "the name must not be empty")
    if len(parts) == 1 or (len(parts) == 2 and parts[1]):
        if len(parts[-1]) > IDENTIFIER_BYTES:
            errors.too_long(path, IDENTIFIER_BYTES)
        for message in names.c_identifier(parts[-1]):
            errors.invalid(path, parts[-1], message)


def fully_qualified_name(text: str, path: str, errors: FieldErrors) -> None:
    qualified_name(text, path, errors)
    if "/" not in text:
        errors.invalid(path, text, "a fully qualified name must be a domain and a name separated by a slash")


def validate_claim_spec(spec: Fields, path: str, errors: FieldErrors) -> None:
    devices, here = spec.get("devices") or {}, f"{path}.devices"
    known = request_names(devices)
    each(
        devices.get("requests"),
        REQUESTS,
        f"{here}.requests",
        errors,
        lambda item, at: _request(item, at, errors),
        "name",
    )
    each(
        devices.get("constraints"),
        CONSTRAINTS,
        f"{here}.constraints",
        errors,
        lambda item, at: _constraint(item, at, known, errors),
    )
    each(
        devices.get("config"),
        CONFIGS,
        f"{here}.config",
        errors,
        lambda item, at: claim_config(item, at, known, errors),
    )


def request_names(devices: Fields) -> dict[str, set[str]]:
    """The requests of a claim with their alternatives."""
    return {
        request.get("name", ""): {each.get("name", "") for each in request.get("firstAvailable") or ()}
        for request in devices.get("requests") or ()
    }


def _request(request: dict[str, Any], path: str, errors: FieldErrors) -> None:
    label(request.get("name", ""), f"{path}.name", errors)
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    if exactly is None and not alternatives:
        errors.required(path, "exactly one of `exactly` or `firstAvailable` is required")
    elif exactly is not None and alternatives:
        errors.invalid(
            path, None, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        )
    elif exactly is not None:
        _wanted(exactly, f"{path}.exactly", errors)
    else:
        each(
            alternatives,
            ALTERNATIVES,
            f"{path}.firstAvailable",
            errors,
            lambda item, at: _alternative(item, at, errors),
            "name",
        )


def _alternative(request: dict[str, Any], path: str, errors: FieldErrors) -> None:
    label(request.get("name", ""), f"{path}.name", errors)
    _wanted(request, path, errors)


def _wanted(request: dict[str, Any], path: str, errors: FieldErrors) -> None:
    device_class = request.get("deviceClassName", "")
    if not device_class:
        errors.required(f"{path}.deviceClassName")
    else:
        for message in names.dns_subdomain(device_class):
            errors.invalid(f"{path}.deviceClassName", device_class, message)
    validate_selectors(request.get("selectors"), f"{path}.selectors", errors)
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode == "All":
        if count:
            errors.invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount":
        if count <= 0:
            errors.invalid(f"{path}.count", count, "must be greater than zero")
    else:
        errors.not_supported(f"{path}.allocationMode", mode, ("All", "ExactCount"))
    each(
        request.get("tolerations"),
        TOLERATIONS,
        f"{path}.tolerations",
        errors,
        lambda item, at: validate_toleration(item, at, errors),
    )


def selectors_of_claim(spec: Fields) -> Iterator[str]:
    """The expressions that judging a claim asks for."""
    for request in ((spec.get("devices") or {}).get("requests") or ())[:REQUESTS]:
        for wanted in (request.get("exactly") or {}, *(request.get("firstAvailable") or ())[:ALTERNATIVES]):
            yield from selectors_in(wanted)


def selectors_in(wanted: Fields) -> Iterator[str]:
    """The same of one request, or of a class."""
    for selector in (wanted.get("selectors") or ())[:SELECTORS]:
        yield (selector.get("cel") or {}).get("expression", "")


def validate_selectors(selectors: list[Any] | None, path: str, errors: FieldErrors) -> None:
    each(selectors, SELECTORS, path, errors, lambda item, at: _selector(item, at, errors))


def _selector(selector: dict[str, Any], path: str, errors: FieldErrors) -> None:
    # Not at the top: a server that holds no selectors starts sooner, and smaller, without CEL.
    from headrace.cel.device import COST_LIMIT, EXPRESSION_BYTES

    if "cel" not in selector:
        errors.required(f"{path}.cel")
        return
    expression, here = selector["cel"].get("expression", ""), f"{path}.cel.expression"
    if len(expression.encode()) > EXPRESSION_BYTES:
        errors.too_long(here, EXPRESSION_BYTES)
        return
    fault, cost = expressions.known.verdict(expression)
    if fault:
        errors.invalid(here, expression, fault)
    elif cost > COST_LIMIT:
        errors.forbidden(here, "too complex, exceeds cost limit")


def _constraint(constraint: dict[str, Any], path: str, known: dict[str, set[str]], errors: FieldErrors) -> None:
    _request_references(constraint, path, known, errors)
    if "matchAttribute" in constraint:
        fully_qualified_name(constraint["matchAttribute"], f"{path}.matchAttribute", errors)
    elif "distinctAttribute" in constraint:
        fully_qualified_name(constraint["distinctAttribute"], f"{path}.distinctAttribute", errors)
    else:
        errors.required(
            path,
            'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set',
        )


def _request_references(item: dict[str, Any], path: str, known: dict[str, set[str]], errors: FieldErrors) -> None:
    each(
        item.get("requests"),
        REQUESTS,
        f"{path}.requests",
        errors,
        lambda name, at: request_reference(name, at, known, errors),
        ".",
    )


def request_reference(name: str, path: str, known: dict[str, set[str]], errors: FieldErrors) -> None:
    parts = name.split("/")
    if len(parts) > 2:
        errors.invalid(path, name, NOT_A_REQUEST)
        return
    for part in parts:
        label(part, path, errors)
    if parts[0] not in known or (len(parts) == 2 and parts[1] not in known[parts[0]]):
        errors.invalid(path, name, NOT_A_REQUEST)


def claim_config(config: dict[str, Any], path: str, known: dict[str, set[str]], errors: FieldErrors) -> None:
    _request_references(config, path, known, errors)
    validate_opaque(config, path, errors)


def validate_opaque(config: dict[str, Any], path: str, errors: FieldErrors) -> None:
    if "opaque" not in config:
        errors.required(f"{path}.opaque")
        return
    driver_name(config["opaque"].get("driver", ""), f"{path}.opaque.driver", errors)
    raw_object(config["opaque"].get("parameters"), f"{path}.opaque.parameters", OPAQUE_BYTES, errors)


def raw_object(value: Any, path: str, limit: int, errors: FieldErrors) -> None:
    if value is None:
        errors.required(path)
    elif len(orjson.dumps(value)) > limit:
        errors.too_long(path, limit)
    elif not isinstance(value, dict):
        errors.invalid(path, "<value omitted>", "must be a valid JSON object")


def validate_toleration(toleration: dict[str, Any], path: str, errors: FieldErrors) -> None:
    if toleration.get("key"):
        label_key(toleration["key"], f"{path}.key", errors)
    operator, value, effect = (toleration.get(part, "") for part in ("operator", "value", "effect"))
    if operator == "Exists":
        if value:
            errors.invalid(f"{path}.value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        for message in names.label_value_errors(value):
            errors.invalid(f"{path}.value", value, message)
    elif not operator:
        errors.required(f"{path}.operator")
    else:
        errors.not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in EFFECTS:
        errors.not_supported(f"{path}.effect", effect, EFFECTS)


def validate_taint(taint: dict[str, Any], path: str, errors: FieldErrors) -> None:
    label_key(taint.get("key", ""), f"{path}.key", errors)
    if taint.get("value"):
        for message in names.label_value_errors(taint["value"]):
            errors.invalid(f"{path}.value", taint["value"], message)
    if not taint.get("effect"):
        errors.required(f"{path}.effect")
    elif taint["effect"] not in EFFECTS:
        errors.not_supported(f"{path}.effect", taint["effect"], EFFECTS)


def validate_class_spec(spec: Fields, errors: FieldErrors) -> None:
    validate_selectors(spec.get("selectors"), "spec.selectors", errors)
    each(spec.get("config"), CONFIGS, "spec.config", errors, lambda item, at: validate_opaque(item, at, errors))
    extended = spec.get("extendedResourceName")
    if extended is not None:
        for message in _extended_resource_name(extended):
            errors.invalid("spec.extendedResourceName", extended, message)


def _extended_resource_name(text: str) -> Iterator[str]:
    if "/" not in text:
        yield "a name must be a domain-prefixed path, such as 'example.com/my-prop'"
    elif NATIVE_DOMAIN in text:
        yield f'must not have "{NATIVE_DOMAIN}" domain'
    if text.startswith(OF_QUOTAS):
        yield f'must not have "{OF_QUOTAS}" prefix'
    yield from names.qualified_name_errors(f"{OF_QUOTAS}{text}")  # it must also fit in a ResourceQuota


def validate_taint_rule_spec(spec: Fields, errors: FieldErrors) -> None:
    selector = spec.get("deviceSelector") or {}
    if "driver" in selector:
        driver_name(selector["driver"], "spec.deviceSelector.driver", errors)
    if "pool" in selector:
        pool_name(selector["pool"], "spec.deviceSelector.pool", errors)
    if "device" in selector:
        label(selector["device"], "spec.deviceSelector.device", errors)
    validate_taint(spec.get("taint") or {}, "spec.taint", errors)


def validate_binding_conditions(device: dict[str, Any], path: str, errors: FieldErrors) -> None:
    binding, failing = device.get("bindingConditions") or [], device.get("bindingFailureConditions") or []
    for part, conditions in (("bindingConditions", binding), ("bindingFailureConditions", failing)):
        each(
            conditions,
            BINDING_CONDITIONS,
            f"{path}.{part}",
            errors,
            lambda item, at: label_key(item, at, errors),
            ".",
        )
    for at, condition in enumerate(failing):
        if condition in binding:
            errors.invalid(
                f"{path}.bindingFailureConditions[{at}]",
                condition,
                "bindingFailureConditions must not overlap with bindingConditions",
            )
    if failing and not binding:
        errors.invalid(
            f"{path}.bindingConditions", binding, "bindingConditions are required to use bindingFailureConditions"
        )
    if binding and not failing:
        errors.invalid(
            f"{path}.bindingFailureConditions",
            failing,
            "bindingFailureConditions are required to use bindingConditions",
        )
