"""The rules of `spec.resources`, what a Pod is to have as a whole (pkg/apis/core/validation.validatePodResources)."""

from typing import Any

from headrace.api.quantity import parse
from headrace.objects.pod_amounts import HUGE_PAGES, OF_A_POD, is_of_a_pod, together
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.quantities import known_resource, validate_requirements


def validate_pod_level(spec: dict[str, Any], claims: set[str], path: str, errors: FieldErrors) -> None:
    own = spec.get("resources")
    if own is None:
        return
    here = f"{path}.resources"
    if (spec.get("os") or {}).get("name") == "windows":
        errors.forbidden(here, "may not be set for a windows pod")
        return
    if "claims" in own:
        errors.forbidden(f"{here}.claims", "claims may not be set for Resources at pod-level")
    validate_requirements(own, claims, here, errors, _pod_resource)
    _beside_containers(spec, own, here, errors)


def _pod_resource(name: str, path: str, errors: FieldErrors) -> None:
    if known_resource(name, path, errors) and not is_of_a_pod(name):
        errors.not_supported(path, name, OF_A_POD)


def _beside_containers(spec: dict[str, Any], own: dict[str, Any], path: str, errors: FieldErrors) -> None:
    requests, limits = own.get("requests") or {}, own.get("limits") or {}
    for name, amount in together(spec, "requests").items():
        if name in requests and amount.nano > parse(requests[name]).nano:
            detail = f"must be greater than or equal to aggregate container requests of {amount.text()}"
            errors.invalid(f"{path}.requests[{name}]", requests[name], detail)
    for name, amount in together(spec, "limits").items():
        if name.startswith(HUGE_PAGES) and name in limits and amount.nano > parse(limits[name]).nano:
            detail = f"must be greater than or equal to aggregate container limits of {amount.text()}"
            errors.invalid(f"{path}.limits[{name}]", limits[name], detail)
    for at, container in enumerate(spec.get("containers") or ()):
        for name, text in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and parse(text).nano > parse(limits[name]).nano:
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                errors.invalid(f"{path}.containers[{at}][{name}].limits", text, detail)
