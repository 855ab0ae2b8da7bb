"""What may change of a Pod that exists: by update and through its status (ValidatePodUpdate and its kin)."""

from typing import Any

from headrace.api.objects import Object
from headrace.objects.bodies import clone
from headrace.objects.validation import gated_pods
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.names import FIELD_IMMUTABLE

MUTABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)"
)
HOW_TO_RESIZE = (
    "; resources of a Pod are changed by its subresource: `kubectl patch --subresource resize`, "
    "`kubectl edit --subresource resize` or `headrace resize workload`"
)


def validate_update(obj: Object, old: Object, errors: FieldErrors) -> None:
    spec, was = obj["spec"], old["spec"]
    for part in ("containers", "initContainers"):
        if len(spec.get(part) or ()) != len(was.get(part) or ()):
            errors.forbidden(f"spec.{part}", "pod updates may not add or remove containers")
            return
    if not _deadline(spec, was, errors):
        return
    _tolerations(spec.get("tolerations") or [], was.get("tolerations") or [], errors)
    _gates(spec.get("schedulingGates") or [], was.get("schedulingGates") or [], errors)
    if spec == was:
        return
    munged = _without_mutable(spec, was)
    if was.get("schedulingGates"):
        gated_pods.validate_narrowing(munged, was, errors)
    changed = [name for name in munged.keys() | was.keys() if munged.get(name) != was.get(name)]
    if changed:
        listed = ", ".join(f"spec.{name}" for name in sorted(changed))
        resized = HOW_TO_RESIZE if _resources(munged) != _resources(was) else ""
        errors.forbidden("spec", f"pod updates may not change fields other than {MUTABLE}\nchanged: {listed}{resized}")


def _resources(spec: dict[str, Any]) -> list[Any]:
    return [each.get("resources") for each in spec.get("containers") or ()]


def _without_mutable(spec: dict[str, Any], was: dict[str, Any]) -> dict[str, Any]:
    """The new spec with everything that may change put back as it was."""
    munged = clone(spec)
    for part in ("containers", "initContainers"):
        for container, before in zip(munged.get(part) or (), was.get(part) or (), strict=True):
            container["image"] = before["image"]
    for part in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        munged.pop(part, None)
        if part in was:
            munged[part] = was[part]
    if was.get("terminationGracePeriodSeconds", 0) < 0 and munged.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = was["terminationGracePeriodSeconds"]
    return munged


def _deadline(spec: dict[str, Any], was: dict[str, Any], errors: FieldErrors) -> bool:
    now, before = spec.get("activeDeadlineSeconds"), was.get("activeDeadlineSeconds")
    path = "spec.activeDeadlineSeconds"
    if now is None:
        if before is not None:
            errors.invalid(path, now, "must not update from a positive integer to nil value")
        return True
    if now < 0 or now > 2**31 - 1:
        errors.invalid(path, now, "must be between 0 and 2147483647, inclusive")
        return False
    if before is not None and before < now:
        errors.invalid(path, now, "must be less than or equal to previous value")
        return False
    return True


def _tolerations(now: list[Any], was: list[Any], errors: FieldErrors) -> None:
    """Only more of them; the seconds of one that is there may change."""

    def same(one: Any, other: Any) -> bool:
        return {**one, "tolerationSeconds": None} == {**other, "tolerationSeconds": None}

    for before in was:
        if not any(same(before, each) for each in now):
            errors.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
            return


def _gates(now: list[Any], was: list[Any], errors: FieldErrors) -> None:
    before = {gate["name"] for gate in was}
    for at, gate in enumerate(now):
        if gate["name"] not in before:
            errors.forbidden(
                f"spec.schedulingGates[{at}].name",
                f'only deletion is allowed, but found new scheduling gate "{gate["name"]}"',
            )


def validate_status(obj: Object, old: Object, errors: FieldErrors) -> None:
    status, was = obj.get("status") or {}, old.get("status") or {}
    if status.get("qosClass") != was.get("qosClass") and "qosClass" in was:
        errors.invalid("status.qosClass", status.get("qosClass", ""), FIELD_IMMUTABLE)
    if status.get("observedGeneration", 0) < 0:
        errors.invalid("status.observedGeneration", status["observedGeneration"], "must be a non-negative integer")
    claims = {claim.get("name") for claim in obj["spec"].get("resourceClaims") or ()}
    for at, claim in enumerate(status.get("resourceClaimStatuses") or ()):
        if claim.get("name") not in claims:
            errors.invalid(
                f"status.resourceClaimStatuses[{at}].name",
                claim.get("name", ""),
                "must match the name of an entry in `spec.resourceClaims`",
            )
