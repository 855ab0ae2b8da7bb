"""What a node may not change even in objects of its own, judged by what a write makes of the object.

A document alone does not tell: a null, a `$patch` or a PUT that leaves a field out takes it away without naming it.
Source: Kubernetes' NodeRestriction admission.
"""

from typing import Any

from headrace.api import kinds
from headrace.api.kinds import Kind
from headrace.api.objects import Fields, Object
from headrace.store.protocol import Forbidden

PROTECTED_LABELS = "node-restriction.kubernetes.io/"
ADMITTED = "allocatedResources"
NOT_A_NODES = (ADMITTED, "resourceClaimStatuses", "extendedResourceClaimStatus")
CONTAINER_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_EVERY_WRITE_CHANGES = ("managedFields", "resourceVersion", "generation")


def judge_own(kind: Kind, obj: Object, node: str) -> None:
    """Who asked was judged by the object of this name as it was then; another may have come in its place."""
    if kind in (kinds.POD, kinds.RESOURCE_SLICE) and (obj.get("spec") or {}).get("nodeName") != node:
        raise _no(kind, obj, f"it does not belong to node {node!r}")


def judge_change(kind: Kind, obj: Object, old: Object, node: str) -> None:
    """Raises Forbidden."""
    judge_own(kind, old, node)
    if kind == kinds.NODE:
        _judge_node(kind, obj, old)
    elif kind == kinds.POD:
        _judge_metadata(kind, obj, old)
        _judge_pod_status(kind, obj, old)
    elif kind == kinds.RESOURCE_CLAIM:
        _judge_metadata(kind, obj, old)


def _judge_node(kind: Kind, obj: Object, old: Object) -> None:
    now, was = obj["metadata"].get("labels") or {}, old["metadata"].get("labels") or {}
    for label in sorted(now.keys() | was.keys()):
        if PROTECTED_LABELS in label and now.get(label) != was.get(label):
            raise _no(kind, obj, f"metadata.labels[{label}]: this label is for administrators only")
    if _part(obj, "spec", "taints") != _part(old, "spec", "taints"):
        raise _no(kind, obj, "spec.taints: a node may not change its taints")


def _judge_metadata(kind: Kind, obj: Object, old: Object) -> None:
    now, was = obj["metadata"], old["metadata"]
    for field in sorted((now.keys() | was.keys()) - {*_EVERY_WRITE_CHANGES}):
        if (now.get(field) or None) != (was.get(field) or None):
            raise _no(kind, obj, f"metadata.{field}: is not a node's to write")


def _judge_pod_status(kind: Kind, obj: Object, old: Object) -> None:
    for field in NOT_A_NODES:
        if _part(obj, "status", field) != _part(old, "status", field):
            raise _no(kind, obj, f"status.{field}: is not a node's to write")
    for field in CONTAINER_STATUSES:
        if _admitted(obj, field) != _admitted(old, field):
            raise _no(kind, obj, f"status.{field}[].{ADMITTED}: what is admitted is not a node's to write")


def _admitted(pod: Object, field: str) -> dict[str, Fields]:
    entries = _part(pod, "status", field) or ()
    return {str(each.get("name")): each[ADMITTED] for each in entries if each.get(ADMITTED)}


def _part(obj: Object, part: str, field: str) -> Any:
    return (obj.get(part) or {}).get(field) or None


def _no(kind: Kind, obj: Object, why: str) -> Forbidden:
    return Forbidden(f'{kind.resource} "{obj["metadata"]["name"]}" is forbidden: {why}')
