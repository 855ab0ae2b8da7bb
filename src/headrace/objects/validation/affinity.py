"""The rules of where a Pod may be: node and Pod affinity, spreading (pkg/apis/core/validation.validateAffinity)."""

from collections import Counter
from typing import Any

from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.label_selectors import validate_label_selector

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_OPERATOR = "not a valid selector operator"


def validate_affinity(affinity: dict[str, Any], path: str, errors: FieldErrors) -> None:
    _node_affinity(affinity.get("nodeAffinity") or {}, f"{path}.nodeAffinity", errors)
    for part in ("podAffinity", "podAntiAffinity"):
        _pod_affinity(affinity.get(part) or {}, f"{path}.{part}", errors)


def _node_affinity(affinity: dict[str, Any], path: str, errors: FieldErrors) -> None:
    required = affinity.get(_REQUIRED)
    if required is not None:
        validate_node_selector(required, f"{path}.{_REQUIRED}", errors)
    for at, term in enumerate(affinity.get(_PREFERRED) or ()):
        here = f"{path}.{_PREFERRED}[{at}]"
        _weight(term, here, errors)
        _node_selector_term(term.get("preference") or {}, f"{here}.preference", errors)


def validate_node_selector(selector: dict[str, Any], path: str, errors: FieldErrors) -> None:
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        errors.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for at, term in enumerate(terms):
        _node_selector_term(term, f"{path}.nodeSelectorTerms[{at}]", errors)


def _node_selector_term(term: dict[str, Any], path: str, errors: FieldErrors) -> None:
    for at, each in enumerate(term.get("matchExpressions") or ()):
        _expression(each, f"{path}.matchExpressions[{at}]", errors)
    for at, each in enumerate(term.get("matchFields") or ()):
        _field(each, f"{path}.matchFields[{at}]", errors)


def _expression(each: dict[str, Any], path: str, errors: FieldErrors) -> None:
    operator, values = each.get("operator", ""), each.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            errors.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            errors.required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        errors.invalid(f"{path}.operator", operator, _OPERATOR)
    for message in names.qualified_name_errors(each.get("key", "")):
        errors.invalid(f"{path}.key", each.get("key", ""), message)
    for at, value in enumerate(values):
        for message in names.label_value_errors(value):
            errors.invalid(f"{path}.values[{at}]", value, message)


def _field(each: dict[str, Any], path: str, errors: FieldErrors) -> None:
    operator, values = each.get("operator", ""), each.get("values") or []
    if operator not in ("In", "NotIn"):
        errors.invalid(f"{path}.operator", operator, _OPERATOR)
    elif len(values) != 1:
        words = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.required(f"{path}.values", words)
    if each.get("key") != "metadata.name":
        errors.invalid(f"{path}.key", each.get("key", ""), "not a valid field selector key")
        return
    for at, value in enumerate(values):
        for message in names.dns_subdomain(value):
            errors.invalid(f"{path}.values[{at}]", value, message)


def _pod_affinity(affinity: dict[str, Any], path: str, errors: FieldErrors) -> None:
    for at, term in enumerate(affinity.get(_REQUIRED) or ()):
        _pod_term(term, f"{path}.{_REQUIRED}[{at}]", errors)
    for at, weighted in enumerate(affinity.get(_PREFERRED) or ()):
        here = f"{path}.{_PREFERRED}[{at}]"
        _weight(weighted, here, errors)
        _pod_term(weighted.get("podAffinityTerm") or {}, f"{here}.podAffinityTerm", errors)


def _pod_term(term: dict[str, Any], path: str, errors: FieldErrors) -> None:
    for part in ("labelSelector", "namespaceSelector"):
        if part in term:
            validate_label_selector(term[part], f"{path}.{part}", errors)
    for name in term.get("namespaces") or ():
        for message in names.dns_label(name):
            errors.invalid(f"{path}.namespace", name, message)
    key = term.get("topologyKey", "")
    if not key:
        errors.required(f"{path}.topologyKey", "can not be empty")
    for message in names.qualified_name_errors(key):
        errors.invalid(f"{path}.topologyKey", key, message)


def _weight(term: dict[str, Any], path: str, errors: FieldErrors) -> None:
    if not 1 <= term.get("weight", 0) <= 100:
        errors.invalid(f"{path}.weight", term.get("weight", 0), "must be in the range 1-100")


def validate_spreading(constraints: list[Any], path: str, errors: FieldErrors) -> None:
    to_come = Counter((each.get("topologyKey", ""), each.get("whenUnsatisfiable", "")) for each in constraints)
    for at, each in enumerate(constraints):
        here = f"{path}[{at}]"
        skew, key, action = each.get("maxSkew", 0), each.get("topologyKey", ""), each.get("whenUnsatisfiable", "")
        if skew <= 0:
            errors.invalid(f"{here}.maxSkew", skew, "must be greater than zero")
        if not key:
            errors.required(f"{here}.topologyKey", "can not be empty")
        for message in names.qualified_name_errors(key) if key else ():
            errors.invalid(f"{here}.topologyKey", key, message)
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            errors.not_supported(f"{here}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway"))
        to_come[key, action] -= 1
        if to_come[key, action]:
            errors.duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        _domains(each.get("minDomains"), action, f"{here}.minDomains", errors)
        for part in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if each.get(part, "Honor") not in ("Honor", "Ignore"):
                errors.not_supported(f"{here}.{part}", each[part], ("Honor", "Ignore"))
        if "labelSelector" in each:
            validate_label_selector(each["labelSelector"], f"{here}.labelSelector", errors)


def _domains(least: int | None, action: str, path: str, errors: FieldErrors) -> None:
    if least is None:
        return
    if least <= 0:
        errors.invalid(path, least, "must be greater than zero")
    if action != "DoNotSchedule":
        errors.invalid(path, least, f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}")
