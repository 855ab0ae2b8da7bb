"""Roles, ClusterRoles and their bindings (pkg/apis/rbac). Their names only must fit a path."""

from headrace.api.objects import Object
from headrace.objects.strategy import Strategy
from headrace.objects.validation import names, roles
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.names import FIELD_IMMUTABLE


class RoleStrategy(Strategy):
    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced = namespaced

    def name_errors(self, name: str) -> list[str]:
        return names.path_segment(name)

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        for at, rule in enumerate(obj.get("rules") or ()):
            roles.validate_rule(rule, f"rules[{at}]", errors, namespaced=self._namespaced)
        if "aggregationRule" in obj:
            roles.validate_aggregation(obj["aggregationRule"], errors)


class BindingStrategy(Strategy):
    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced = namespaced
        self._kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)

    def name_errors(self, name: str) -> list[str]:
        return names.path_segment(name)

    def default(self, obj: Object) -> None:
        reference = obj.setdefault("roleRef", {})
        reference["apiGroup"] = reference.get("apiGroup") or roles.GROUP
        for part in ("kind", "name"):
            reference.setdefault(part, "")
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = subject.get("apiGroup") or roles.GROUP

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        roles.validate_reference(obj["roleRef"], self._kinds, errors)
        for at, subject in enumerate(obj.get("subjects") or ()):
            roles.validate_subject(subject, f"subjects[{at}]", errors, namespaced=self._namespaced)

    def validate_update(self, obj: Object, old: Object, errors: FieldErrors) -> None:
        if obj["roleRef"] != old.get("roleRef"):
            errors.invalid("roleRef", obj["roleRef"], FIELD_IMMUTABLE)
