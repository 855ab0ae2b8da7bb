"""The rules of a Pod's spec, alone or in a template (pkg/apis/core/validation.ValidatePodSpec)."""

from typing import Any

from headrace.api.objects import Object
from headrace.objects.validation import names
from headrace.objects.validation.affinity import validate_affinity, validate_spreading
from headrace.objects.validation.containers import validate_containers, validate_init_containers
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.metadata import validate_labels
from headrace.objects.validation.pod_level import validate_pod_level
from headrace.objects.validation.pod_surroundings import validate_surroundings
from headrace.objects.validation.volumes import validate_volumes

INT32_MAX = 2**31 - 1


def validate_pod(pod: Object, errors: FieldErrors) -> None:
    spec = pod["spec"]
    validate_spec(spec, "spec", errors, is_pod=True)
    if not spec.get("serviceAccountName"):
        _tokens(spec.get("volumes") or [], errors)
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
    validate_pod_level(spec, claims, path, errors)
    _choices(spec, path, errors)
    validate_labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector", errors)
    _names(spec, path, errors)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= INT32_MAX:
        errors.invalid(f"{path}.activeDeadlineSeconds", deadline, f"must be between 1 and {INT32_MAX}, inclusive")
    validate_tolerations(spec.get("tolerations") or [], f"{path}.tolerations", errors)
    validate_affinity(spec.get("affinity") or {}, f"{path}.affinity", errors)
    spreading = spec.get("topologySpreadConstraints") or []
    validate_spreading(spreading, f"{path}.topologySpreadConstraints", errors)
    validate_surroundings(spec, path, errors)
    gates: set[str] = set()
    for at, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name", "")
        for message in names.qualified_name_errors(name):
            errors.invalid(f"{path}.schedulingGates[{at}]", name, message)
        if name in gates:
            errors.duplicate(f"{path}.schedulingGates[{at}]", name)
        gates.add(name)


def _tokens(volumes: list[Any], errors: FieldErrors) -> None:
    for at, volume in enumerate(volumes):
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if "serviceAccountToken" in source:
                errors.forbidden(
                    f"spec.volumes[{at}].projected.sources[{number}].serviceAccountToken",
                    "must not be specified when serviceAccountName is not set",
                )


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
