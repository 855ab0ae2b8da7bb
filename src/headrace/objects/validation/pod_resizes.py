"""What the subresource `resize` of a Pod may change (podResizeStrategy, ValidatePodResize).

That is cpu and memory, of containers of every sort and of the Pod as a whole. The guard of the ledger judges the Pod as
a whole in the same write; containers have what they had until the resize controller admits more.
"""

from typing import Any

from headrace.api.objects import Fields, Object
from headrace.ledger.pods import LISTS
from headrace.objects import pod_amounts
from headrace.objects.bodies import clone
from headrace.objects.qos import qos_class
from headrace.objects.validation.errors import FieldErrors

RESIZABLE = ("cpu", "memory")
PARTS = ("containers", "initContainers")
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"


def keep_all_but_resources(obj: Object, old: Object) -> None:
    """A list of other containers is left for validation to refuse."""
    spec, was, meta = obj["spec"], old["spec"], obj["metadata"]
    obj["metadata"] = {
        **old["metadata"],
        **({"managedFields": meta["managedFields"]} if "managedFields" in meta else {}),
    }
    obj["status"] = old.get("status", {})
    if any(len(spec.get(part) or ()) != len(was.get(part) or ()) for part in PARTS):
        return
    kept = clone(was)
    for part in PARTS:
        if part in was:
            kept[part] = _resized(spec.get(part) or [], kept[part])
    if "resources" in spec:  # a client that does not know the field leaves it out
        kept["resources"] = spec["resources"]
    obj["spec"] = kept
    pod_amounts.complete(kept)


def _resized(wanted: list[Any], kept: list[Any]) -> list[Any]:
    if [each.get("name") for each in wanted] != [each.get("name") for each in kept]:
        return wanted
    for container, given in zip(kept, wanted, strict=True):
        for name in ("resources", "resizePolicy"):
            container.pop(name, None)
            if name in given:
                container[name] = given[name]
    return kept


def pin_allocated(obj: Object, old: Object) -> None:
    """Write down what is admitted before desired moves away from it: from now on the spec no longer says it.

    Keys are `cpu`, `memory` and, as ResourceQuota names limits, `limits.cpu`, `limits.memory`. Of a Pod on no node
    nothing is admitted yet: it is placed with what is desired then.
    """
    if obj["spec"] == old["spec"] or not old["spec"].get("nodeName"):
        return
    status = obj["status"] = clone(obj["status"])
    for part, statuses in LISTS:
        containers = old["spec"].get(part) or ()
        told = status.setdefault(statuses, []) if containers else []
        by_name = {each["name"]: each for each in told}
        for container in containers:
            entry = by_name.get(container["name"])
            if entry is None:
                entry = {
                    "name": container["name"],
                    "image": container.get("image", ""),
                    "imageID": "",
                    "ready": False,
                    "restartCount": 0,
                }
                told.append(entry)
            entry.setdefault("allocatedResources", allocated(container.get("resources") or {}))


def allocated(resources: dict[str, Any]) -> dict[str, str]:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    return {name: requests[name] for name in RESIZABLE if name in requests} | {
        f"limits.{name}": limits[name] for name in RESIZABLE if name in limits
    }


def refusal(old: Object) -> str:
    """Why no resize of this Pod is judged at all."""
    if MIRROR_ANNOTATION in (old["metadata"].get("annotations") or {}):
        return "static pods cannot be resized"
    return "windows pods cannot be resized" if (old["spec"].get("os") or {}).get("name") == "windows" else ""


def validate_resize(obj: Object, old: Object, errors: FieldErrors) -> None:
    spec, was = obj["spec"], old["spec"]
    before = (old.get("status") or {}).get("qosClass") or qos_class(was)
    if before != qos_class(spec):
        found = (obj.get("status") or {}).get("qosClass", "")
        errors.invalid("spec", found, "Pod QOS Class may not change as a result of resizing")
    _as_a_whole(spec.get("resources"), was.get("resources"), errors)
    if not all([_same_order(part, spec.get(part) or [], was.get(part) or [], errors) for part in PARTS]):
        return
    for part in reversed(PARTS):
        for at, (container, had) in enumerate(zip(spec.get(part) or (), was.get(part) or (), strict=True)):
            _nothing_removed(container, had, f"spec.{part}[{at}].resources", errors)
    for container, had in zip(spec.get("containers") or (), was.get("containers") or (), strict=True):
        if _rest(container) != _rest(had):
            errors.forbidden("spec", "only cpu and memory resources are mutable")
    for at, (container, had) in enumerate(
        zip(spec.get("initContainers") or (), was.get("initContainers") or (), strict=True)
    ):
        _initial(container, had, f"spec.initContainers[{at}]", errors)


def _as_a_whole(own: Fields | None, had: Fields | None, errors: FieldErrors) -> None:
    if not _is_set(own) and not _is_set(had):
        if own != had:
            errors.forbidden("spec", "only cpu and memory resources are mutable")
        return
    for part in ("requests", "limits"):
        if had is not None and set(had.get(part) or ()) - set((own or {}).get(part) or ()):
            errors.forbidden(f"spec.resources.{part}", f"pod-level resource {part} cannot be removed")
    if _without_resizable(own or {}) != _without_resizable(had or {}):
        errors.forbidden("spec", "only cpu and memory resources are mutable at pod-level")


def _is_set(own: Fields | None) -> bool:
    return bool(own and (own.get("requests") or own.get("limits")))


def _same_order(part: str, now: list[Any], was: list[Any], errors: FieldErrors) -> bool:
    if len(now) != len(was):
        errors.forbidden(f"spec.{part}", f"{part} may not be added or removed on resize")
        return False
    renamed = [at for at, (one, other) in enumerate(zip(now, was, strict=True)) if one.get("name") != other["name"]]
    for at in renamed:
        errors.forbidden(f"spec.{part}[{at}].name", f"{part} may not be renamed or reordered on resize")
    return not renamed


def _nothing_removed(container: Fields, had: Fields, path: str, errors: FieldErrors) -> None:
    for part in ("requests", "limits"):
        removed = set((had.get("resources") or {}).get(part) or ()) - set(
            (container.get("resources") or {}).get(part) or ()
        )
        if removed:
            errors.forbidden(f"{path}.{part}", f"resource {part} cannot be removed")


def _initial(container: Fields, had: Fields, path: str, errors: FieldErrors) -> None:
    if _rest(container) != _rest(had):
        errors.forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable")
    if container == had or container.get("restartPolicy") == "Always":
        return
    for policy in container.get("resizePolicy") or ():
        if policy.get("restartPolicy") == "RestartContainer":
            words = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
            errors.forbidden(path, words)


def _rest(container: Fields) -> Fields:
    """The container but for cpu and memory."""
    rest = {name: value for name, value in container.items() if value not in ([], {})}
    return {**rest, "resources": _without_resizable(container.get("resources") or {})}


def _without_resizable(resources: Fields) -> Fields:
    """Resources but for cpu and memory; what is then empty counts as absent."""
    parts = {
        part: {name: text for name, text in (resources.get(part) or {}).items() if name not in RESIZABLE}
        for part in ("requests", "limits")
    }
    return {"claims": resources.get("claims") or []} | {part: rest for part, rest in parts.items() if rest}
