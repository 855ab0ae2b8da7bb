"""The rules of roles and of what binds them (pkg/apis/rbac/validation)."""

from typing import Any

from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.label_selectors import validate_label_selector

GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")


def validate_rule(rule: dict[str, Any], path: str, errors: FieldErrors, *, namespaced: bool) -> None:
    if not rule.get("verbs"):
        errors.required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            words = "namespaced rules cannot apply to non-resource URLs"
            errors.invalid(f"{path}.nonResourceURLs", urls, words)
        if any(rule.get(part) for part in ("apiGroups", "resources", "resourceNames")):
            words = "rules cannot apply to both regular resources and non-resource URLs"
            errors.invalid(f"{path}.nonResourceURLs", urls, words)
        return
    for part, word in (("apiGroups", "api group"), ("resources", "resource")):
        if not rule.get(part):
            errors.required(f"{path}.{part}", f"resource rules must supply at least one {word}")


def validate_aggregation(rule: dict[str, Any], errors: FieldErrors) -> None:
    path, selectors = "aggregationRule.clusterRoleSelectors", rule.get("clusterRoleSelectors") or []
    if not selectors:
        errors.required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for at, selector in enumerate(selectors):
        before = errors.count
        validate_label_selector(selector, f"{path}[{at}]", errors)
        if errors.count > before:
            errors.invalid(f"{path}[{at}]", selector, "invalid label selector.")


def validate_reference(reference: dict[str, Any], kinds: tuple[str, ...], errors: FieldErrors) -> None:
    group, kind, name = (reference.get(part, "") for part in ("apiGroup", "kind", "name"))
    if group != GROUP:
        errors.not_supported("roleRef.apiGroup", group, (GROUP,))
    if kind not in kinds:
        errors.not_supported("roleRef.kind", kind, kinds)
    if not name:
        errors.required("roleRef.name")
    else:
        for message in names.path_segment(name):
            errors.invalid("roleRef.name", name, message)


def validate_subject(subject: dict[str, Any], path: str, errors: FieldErrors, *, namespaced: bool) -> None:
    kind, name, group = (subject.get(part, "") for part in ("kind", "name", "apiGroup"))
    if not name:
        errors.required(f"{path}.name")
    if kind == "ServiceAccount":
        for message in names.dns_subdomain(name) if name else ():
            errors.invalid(f"{path}.name", name, message)
        if group:
            errors.not_supported(f"{path}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            errors.required(f"{path}.namespace")
    elif kind in ("User", "Group"):
        if group != GROUP:
            errors.not_supported(f"{path}.apiGroup", group, (GROUP,))
    else:
        errors.not_supported(f"{path}.kind", kind, _SUBJECTS)
