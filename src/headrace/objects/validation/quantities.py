"""The rules of resource lists: names, amounts, requests beside limits (ValidateResourceRequirements)."""

from collections.abc import Callable
from typing import Any

from headrace.api.quantity import NANO, parse
from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors

CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_STANDARD = (
    *CONTAINER_RESOURCES,
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
)

Rule = Callable[[str, str, FieldErrors], None]


def is_native(resource: str) -> bool:
    return "/" not in resource or "kubernetes.io/" in resource


def may_overcommit(resource: str) -> bool:
    return is_native(resource) and not resource.startswith("hugepages-")


def validate_requirements(
    resources: dict[str, Any], claims: set[str], path: str, errors: FieldErrors, may_be_named: Rule | None = None
) -> None:
    """`may_be_named` judges the names of resources; without it, it is those of containers."""
    name_rule = may_be_named or container_resource
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, text in limits.items():
        _amount(name, text, f"{path}.limits[{name}]", errors, name_rule)
    for name, text in requests.items():
        _amount(name, text, f"{path}.requests[{name}]", errors, name_rule)
        if name in limits:
            asked, limit = parse(text).nano, parse(limits[name]).nano
            if asked != limit and not may_overcommit(name):
                errors.invalid(f"{path}.requests", text, f"must be equal to {name} limit of {limits[name]}")
            elif asked > limit:
                errors.invalid(
                    f"{path}.requests", text, f"must be less than or equal to {name} limit of {limits[name]}"
                )
        elif not may_overcommit(name):
            errors.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    huge = any(name.startswith("hugepages-") for name in (*limits, *requests))
    if huge and not {"cpu", "memory"} & {*limits, *requests}:
        errors.forbidden(path, "HugePages require cpu or memory")
    _claims(resources.get("claims") or [], claims, f"{path}.claims", errors)


def _amount(name: str, text: str, path: str, errors: FieldErrors, name_rule: Rule) -> None:
    name_rule(name, path, errors)
    validate_amount(name, text, path, errors)


def validate_amount(name: str, text: str, path: str, errors: FieldErrors) -> None:
    """Not negative, and whole where the resource is counted."""
    nano = parse(text).nano
    if nano < 0:
        errors.invalid(path, text, "must be greater than or equal to 0")
    if (not is_native(name) or name in _STANDARD[3:-1]) and nano % NANO:
        errors.invalid(path, text, "must be an integer")


def container_resource(name: str, path: str, errors: FieldErrors) -> None:
    if "/" not in name:
        known_resource(name, path, errors)
        if not names.qualified_name_errors(name) and not _is_of_a_container(name):
            errors.invalid(path, name, "must be a standard resource for containers")
    elif known_resource(name, path, errors) and not is_native(name) and name.startswith("requests."):
        errors.invalid(path, name, "doesn't follow extended resource name standard")


def _is_of_a_container(name: str) -> bool:
    return name in CONTAINER_RESOURCES or name.startswith("hugepages-")


def known_resource(name: str, path: str, errors: FieldErrors) -> bool:
    """Whether it is the name of any resource: a standard one, or one of a domain."""
    wrong = names.qualified_name_errors(name)
    for message in wrong:
        errors.invalid(path, name, message)
    if wrong or "/" in name or name in _STANDARD or name.startswith("hugepages-"):
        return not wrong
    errors.invalid(path, name, "must be a standard resource type or fully qualified")
    return False


def _claims(given: list[Any], claims: set[str], path: str, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for at, claim in enumerate(given):
        name, request = claim.get("name", ""), claim.get("request", "")
        if not name:
            errors.required(f"{path}[{at}]")
            continue
        if name not in seen and request:
            for message in names.dns_label(request):
                errors.invalid(f"{path}[{at}].request", request, message)
        key = f"{name}/{request}" if request else name
        overlaps = not request and any(other.startswith(f"{name}/") for other in seen)
        if name in seen or key in seen or overlaps:
            errors.duplicate(f"{path}[{at}]", name if name in seen or overlaps else key)
        seen.add(key)
        if name not in claims:
            known = f": {', '.join(sorted(claims))}" if claims else " which is empty"
            errors.not_found(f"{path}[{at}]", name, f"must be one of the names in pod.spec.resourceClaims{known}")
