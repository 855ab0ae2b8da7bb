"""The rules of the downward API: references to fields and resources of the Pod itself, in variables and volumes."""

import re
from typing import Any

from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors

VARIABLE_PATHS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_PATHS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_CONVERTIBLE = {*VARIABLE_PATHS, *VOLUME_PATHS, "spec.restartPolicy", "spec.schedulerName", "status.phase"}
_SUBSCRIPT = re.compile(r"(.*)\['([^\]]*)'\]", re.DOTALL)
_RESOURCES = tuple(
    f"{part}.{name}" for part in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE = ("limits.hugepages-", "requests.hugepages-")
_UNITS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")


def validate_field_reference(
    reference: dict[str, Any], allowed: tuple[str, ...], path: str, errors: FieldErrors
) -> None:
    version, where = reference.get("apiVersion", ""), reference.get("fieldPath", "")
    if not version:
        errors.required(f"{path}.apiVersion")
        return
    if not where:
        errors.required(f"{path}.fieldPath")
        return
    match = _SUBSCRIPT.fullmatch(where)
    problem = _unconvertible(version, where, match)
    if problem:
        errors.invalid(f"{path}.fieldPath", where, f"error converting fieldPath: {problem}")
    elif match is not None:
        key = match[2].lower() if match[1] == "metadata.annotations" else match[2]
        for message in names.qualified_name_errors(key):
            errors.invalid(path, key, message)
    elif where not in allowed:
        errors.not_supported(f"{path}.fieldPath", where, sorted(allowed))


def _unconvertible(version: str, where: str, match: re.Match[str] | None) -> str:
    if version != "v1":
        return f"unsupported pod version: {version}"
    if match is not None:
        subscripted = match[1] in ("metadata.annotations", "metadata.labels")
        return "" if subscripted else f"field label does not support subscript: {where}"
    return "" if where in _CONVERTIBLE else f"field label not supported: {where}"


def validate_resource_reference(reference: dict[str, Any], path: str, errors: FieldErrors, *, in_volume: bool) -> None:
    resource, divisor = reference.get("resource", ""), reference.get("divisor", "0")
    if in_volume and not reference.get("containerName"):
        errors.required(f"{path}.containerName")
    elif not resource:
        errors.required(f"{path}.resource")
    elif resource not in _RESOURCES and not resource.startswith(_HUGE):
        errors.not_supported(f"{path}.resource", resource, _RESOURCES)
    if divisor == "0":
        return
    kind = resource.partition(".")[2]
    if kind == "cpu" and divisor not in ("1m", "1"):
        said = "only divisor's values 1m and 1 are supported with the cpu resource"
        errors.invalid(f"{path}.divisor", resource, said)
    words = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(kind)
    if resource.startswith(_HUGE):
        words = "hugepages"
    if words and divisor not in _UNITS:
        said = f"only divisor's values {', '.join(_UNITS)} are supported with the {words} resource"
        errors.invalid(f"{path}.divisor", resource, said)
