"""What may change of a Pod that exists: by update, through its status, by resize (ValidatePodUpdate and its kin)."""

from typing import Any

from headrace.api.objects import Object
from headrace.objects.bodies import clone
from headrace.objects.qos import qos_class
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
RESIZABLE = ("cpu", "memory")


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


def keep_all_but_resources(obj: Object, old: Object) -> None:
    """A resize changes only resources and resizePolicy; a list of other containers is left for validation to refuse."""
    spec, was = obj["spec"], old["spec"]
    obj["metadata"] = {
        **old["metadata"],
        **({"managedFields": obj["metadata"]["managedFields"]} if "managedFields" in obj["metadata"] else {}),
    }
    obj["status"] = old.get("status", {})
    for part in ("containers", "initContainers"):
        if [each.get("name") for each in spec.get(part) or ()] != [each.get("name") for each in was.get(part) or ()]:
            return
    kept = clone(was)
    for part in ("containers", "initContainers"):
        for container, wanted in zip(kept.get(part) or (), spec.get(part) or (), strict=True):
            for name in ("resources", "resizePolicy"):
                if name in wanted:
                    container[name] = wanted[name]
                else:
                    container.pop(name, None)
    obj["spec"] = kept


def pin_allocated(obj: Object, old: Object) -> None:
    """Write down what is admitted before desired moves away from it: from now on the spec no longer says it.

    Keys are `cpu`, `memory` and, as ResourceQuota names limits, `limits.cpu`, `limits.memory`.
    """
    if obj["spec"] == old["spec"]:
        return
    status = obj["status"] = clone(obj["status"])
    statuses = status.setdefault("containerStatuses", [])
    by_name = {each["name"]: each for each in statuses}
    for container in old["spec"].get("containers") or ():
        entry = by_name.get(container["name"])
        if entry is None:
            entry = {
                "name": container["name"],
                "image": container.get("image", ""),
                "imageID": "",
                "ready": False,
                "restartCount": 0,
            }
            statuses.append(entry)
        entry.setdefault("allocatedResources", allocated(container.get("resources") or {}))


def allocated(resources: dict[str, Any]) -> dict[str, str]:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    return {name: requests[name] for name in RESIZABLE if name in requests} | {
        f"limits.{name}": limits[name] for name in RESIZABLE if name in limits
    }


def validate_resize(obj: Object, old: Object, errors: FieldErrors) -> None:
    spec, was = obj["spec"], old["spec"]
    if qos_class(spec) != qos_class(was):
        errors.invalid(
            "spec", obj["status"].get("qosClass", ""), "Pod QOS Class may not change as a result of resizing"
        )
    for part in ("containers", "initContainers"):
        if not _same_order(part, spec.get(part) or [], was.get(part) or [], errors):
            return
    for at, (container, before) in enumerate(
        zip(spec.get("containers") or (), was.get("containers") or (), strict=True)
    ):
        path = f"spec.containers[{at}].resources"
        resources, had = container.get("resources") or {}, before.get("resources") or {}
        for part, word in (("requests", "requests"), ("limits", "limits")):
            if set(had.get(part) or ()) - set(resources.get(part) or ()):
                errors.forbidden(f"{path}.{part}", f"resource {word} cannot be removed")
        if _without_resizable(resources) != _without_resizable(had):
            errors.forbidden("spec", "only cpu and memory resources are mutable")
    for container, before in zip(spec.get("initContainers") or (), was.get("initContainers") or (), strict=True):
        if container.get("resources") != before.get("resources"):
            errors.forbidden("spec", "resources for non-sidecar init containers are immutable")


def _same_order(part: str, now: list[Any], was: list[Any], errors: FieldErrors) -> bool:
    if len(now) != len(was):
        errors.forbidden(f"spec.{part}", f"{part} may not be added or removed on resize")
        return False
    renamed = [at for at, (one, other) in enumerate(zip(now, was, strict=True)) if one["name"] != other["name"]]
    for at in renamed:
        errors.forbidden(f"spec.{part}[{at}].name", f"{part} may not be renamed or reordered on resize")
    return not renamed


def _without_resizable(resources: dict[str, Any]) -> dict[str, Any]:
    """Resources but for cpu and memory; what is then empty counts as absent."""
    parts = {
        part: {name: text for name, text in (resources.get(part) or {}).items() if name not in RESIZABLE}
        for part in ("requests", "limits")
    }
    return {"claims": resources.get("claims")} | {part: rest for part, rest in parts.items() if rest}
