"""The rules of a Pod's spec, alone or in a template (pkg/apis/core/validation.ValidatePodSpec)."""

from typing import Any

from headrace.api.objects import Object
from headrace.objects.validation import names
from headrace.objects.validation.containers import validate_containers, validate_init_containers
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.metadata import validate_labels
from headrace.objects.validation.volumes import validate_volumes

INT32_MAX = 2**31 - 1
NODE_SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def validate_pod(pod: Object, errors: FieldErrors) -> None:
    spec = pod["spec"]
    validate_spec(spec, "spec", errors, is_pod=True)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        errors.invalid(
            "spec.terminationGracePeriodSeconds",
            spec["terminationGracePeriodSeconds"],
            "must be greater than or equal to 0",
        )


def validate_spec(spec: dict[str, Any], path: str, errors: FieldErrors, *, is_pod: bool = False) -> None:
    volumes = validate_volumes(spec.get("volumes") or [], f"{path}.volumes", errors)
    claims = _claims(spec.get("resourceClaims") or [], f"{path}.resourceClaims", errors)
    validate_containers(spec, volumes, claims, path, errors, is_pod=is_pod)
    validate_init_containers(spec, volumes, claims, path, errors, is_pod=is_pod)
    _choices(spec, path, errors)
    validate_labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector", errors)
    _names(spec, path, errors)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= INT32_MAX:
        errors.invalid(f"{path}.activeDeadlineSeconds", deadline, f"must be between 1 and {INT32_MAX}, inclusive")
    validate_tolerations(spec.get("tolerations") or [], f"{path}.tolerations", errors)
    _affinity(spec.get("affinity") or {}, f"{path}.affinity", errors)
    gates: set[str] = set()
    for at, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name", "")
        for message in names.qualified_name_errors(name):
            errors.invalid(f"{path}.schedulingGates[{at}]", name, message)
        if name in gates:
            errors.duplicate(f"{path}.schedulingGates[{at}]", name)
        gates.add(name)


def _choices(spec: dict[str, Any], path: str, errors: FieldErrors) -> None:
    for name, allowed in (
        ("restartPolicy", ("Always", "OnFailure", "Never")),
        ("dnsPolicy", ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")),
        ("preemptionPolicy", ("PreemptLowerPriority", "Never")),
    ):
        value = spec.get(name)
        if value is not None and value not in allowed:
            errors.not_supported(f"{path}.{name}", value, allowed)


def _names(spec: dict[str, Any], path: str, errors: FieldErrors) -> None:
    for name, rule in (
        ("serviceAccountName", names.dns_subdomain),
        ("nodeName", names.dns_subdomain),
        ("hostname", names.dns_label),
        ("subdomain", names.dns_label),
        ("priorityClassName", names.dns_subdomain),
        ("runtimeClassName", names.dns_subdomain),
    ):
        value = spec.get(name)
        if value:
            for message in rule(value):
                errors.invalid(f"{path}.{name}", value, message)


def _claims(claims: list[Any], path: str, errors: FieldErrors) -> set[str]:
    seen: set[str] = set()
    for at, claim in enumerate(claims):
        here, name = f"{path}[{at}]", claim.get("name", "")
        if not name:
            errors.required(f"{here}.name")
        elif name in seen:
            errors.duplicate(f"{here}.name", name)
        else:
            for message in names.dns_label(name):
                errors.invalid(f"{here}.name", name, message)
            seen.add(name)
        sources = [part for part in ("resourceClaimName", "resourceClaimTemplateName") if part in claim]
        if len(sources) > 1:
            errors.invalid(
                here, claim, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            )
        elif not sources:
            errors.invalid(here, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
        for part in sources:
            for message in names.dns_subdomain(claim[part]):
                errors.invalid(f"{here}.{part}", claim[part], message)
    return seen


def validate_tolerations(tolerations: list[Any], path: str, errors: FieldErrors) -> None:
    for at, toleration in enumerate(tolerations):
        here = f"{path}[{at}]"
        key, operator, value = (toleration.get(part, "") for part in ("key", "operator", "value"))
        if key:
            for message in names.qualified_name_errors(key):
                errors.invalid(f"{here}.key", key, message)
        elif operator != "Exists":
            errors.invalid(
                f"{here}.operator",
                operator,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        effect = toleration.get("effect", "")
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            errors.invalid(f"{here}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
        if operator in ("", "Equal"):
            found = names.label_value_errors(value)
            if found:
                errors.invalid(f"{here}.operator", value, ";".join(found))
        elif operator == "Exists":
            if value:
                errors.invalid(f"{here}.operator", value, "value must be empty when `operator` is 'Exists'")
        else:
            errors.not_supported(f"{here}.operator", operator, ("Equal", "Exists"))
        validate_effect(effect, f"{here}.effect", errors, may_be_empty=True)


def validate_effect(effect: str, path: str, errors: FieldErrors, *, may_be_empty: bool = False) -> None:
    if not effect and may_be_empty:
        return
    if not effect:
        errors.required(path)
    elif effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        errors.not_supported(path, effect, ("NoSchedule", "PreferNoSchedule", "NoExecute"))


def _affinity(affinity: dict[str, Any], path: str, errors: FieldErrors) -> None:
    node = affinity.get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    here = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    if required is not None:
        validate_node_selector(required, here, errors)
    for at, term in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        where = f"{path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{at}]"
        if not 1 <= term.get("weight", 0) <= 100:
            errors.invalid(f"{where}.weight", term.get("weight", 0), "must be in the range 1-100")
        _node_selector_term(term.get("preference") or {}, f"{where}.preference", errors)


def validate_node_selector(selector: dict[str, Any], path: str, errors: FieldErrors) -> None:
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        errors.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for at, term in enumerate(terms):
        _node_selector_term(term, f"{path}.nodeSelectorTerms[{at}]", errors)


def _node_selector_term(term: dict[str, Any], path: str, errors: FieldErrors) -> None:
    for part in ("matchExpressions", "matchFields"):
        for at, each in enumerate(term.get(part) or ()):
            here = f"{path}.{part}[{at}]"
            operator, values = each.get("operator", ""), each.get("values") or []
            if operator in ("In", "NotIn") and not values:
                errors.required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
            elif operator in ("Exists", "DoesNotExist") and values:
                errors.forbidden(f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            elif operator in ("Gt", "Lt") and len(values) != 1:
                errors.required(f"{here}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
            elif operator not in NODE_SELECTOR_OPERATORS:
                errors.invalid(f"{here}.operator", operator, "not a valid selector operator")
            if part == "matchExpressions":
                for message in names.qualified_name_errors(each.get("key", "")):
                    errors.invalid(f"{here}.key", each.get("key", ""), message)
            elif each.get("key") != "metadata.name":
                errors.not_supported(f"{here}.key", each.get("key", ""), ("metadata.name",))
