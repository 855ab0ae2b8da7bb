"""A Pod of a real cluster as the decisions of resizing read it: with what its kubelet has admitted beside what is so.

A kubelet tells admitted requests (`allocatedResources`) and actual limits (`resources`), and keeps admitted limits to
itself. They are the spec's once it has judged this generation and lets nothing wait, else what is in force.
Source: KEP-1287, and what kubelet 1.37 was seen to answer.
"""

from typing import Any

from headrace.api.amounts import LIMITS, Amounts, read
from headrace.api.objects import Fields, Object, metadata, namespace_of
from headrace.ledger.pods import LISTS, MANAGED_LABEL
from headrace.resize.plan import IN_PROGRESS, PENDING, RESIZED, record_of

SYSTEM_NAMESPACE = "kube-system"
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"


def left_alone(pod: Object) -> str:
    """Why this Pod is none to be resized on a cluster, or nothing."""
    spec: Fields = pod.get("spec") or {}
    if namespace_of(pod) == SYSTEM_NAMESPACE:
        return f"Pods of {SYSTEM_NAMESPACE} are left alone"
    if MIRROR_ANNOTATION in (metadata(pod).get("annotations") or {}):
        return "static Pods cannot be resized"
    if (spec.get("os") or {}).get("name") == "windows":
        return "Windows Pods cannot be resized"
    whole = spec.get("resources") or {}
    if whole.get("requests") or whole.get("limits"):
        return "Pods with resources of their own, beside their containers', are left alone"
    return ""


def as_decided(pod: Object) -> Object:
    """The Pod with complete records in allocatedResources, without conditions that speak of an older generation.

    It counts as unmanaged: kubelets and kube-scheduler go by requests, whatever the limits are.
    """
    status: Fields = pod.get("status") or {}
    generation = int(metadata(pod).get("generation") or 0)
    conditions = [each for each in status.get("conditions") or () if not _is_outdated(each, generation)]
    is_admitted = not _waits(conditions) and _has_judged(pod, generation)
    found: dict[str, Any] = {**status, "conditions": conditions}
    for field, statuses in LISTS:
        containers = {each["name"]: each for each in pod["spec"].get(field) or ()}
        if status.get(statuses):
            found[statuses] = [
                _recorded(containers.get(told.get("name")), told, is_admitted) for told in status[statuses]
            ]
    return {**pod, "metadata": _unmanaged(pod), "status": found}


def of_any_home(pod: Object) -> Object:
    """The Pod with complete records, whoever has told of it: ours records limits among what is admitted."""
    told = [each.get("allocatedResources") or {} for each in (pod.get("status") or {}).get("containerStatuses") or ()]
    is_kubelet_s = any(told) and not any(name.startswith(LIMITS) for record in told for name in record)
    return as_decided(pod) if is_kubelet_s else pod


def _recorded(container: Fields | None, told: Fields, is_admitted: bool) -> Fields:
    if container is None or not (told.get("resources") or told.get("allocatedResources")):
        return told
    if is_admitted:
        return {**told, "allocatedResources": dict(record_of(container))}
    actual: Fields = told.get("resources") or {}
    requests: Fields = told.get("allocatedResources") or actual.get("requests") or {}
    limits: Fields = actual.get("limits") or {}
    record = {name: str(requests[name]) for name in RESIZED if name in requests}
    return {
        **told,
        "allocatedResources": record | {f"{LIMITS}{name}": str(limits[name]) for name in RESIZED if name in limits},
    }


def _has_judged(pod: Object, generation: int) -> bool:
    """Whether the kubelet has seen this generation and holds its requests. Before 1.34 only the requests tell."""
    seen = (pod.get("status") or {}).get("observedGeneration")
    if seen is not None and int(seen) < generation:
        return False
    for field, statuses in LISTS:
        told = {each.get("name"): each for each in (pod.get("status") or {}).get(statuses) or ()}
        for container in pod["spec"].get(field) or ():
            allocated = (told.get(container["name"]) or {}).get("allocatedResources")
            if allocated and _resized(read(allocated)) != _resized(read(record_of(container))):
                return False
    return True


def _resized(amounts: Amounts) -> Amounts:
    return {name: amounts[name] for name in RESIZED if name in amounts}


def _waits(conditions: list[Fields]) -> bool:
    return any(each.get("type") == PENDING and each.get("status") == "True" for each in conditions)


def _is_outdated(condition: Fields, generation: int) -> bool:
    told = condition.get("observedGeneration")
    return condition.get("type") in (PENDING, IN_PROGRESS) and told is not None and int(told) < generation


def _unmanaged(pod: Object) -> Fields:
    labels = {name: value for name, value in (metadata(pod).get("labels") or {}).items() if name != MANAGED_LABEL}
    return {**metadata(pod), "labels": labels}
