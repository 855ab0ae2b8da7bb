"""Where a Pod goes: allocate its claims, then bind it, or say in kube-scheduler's words why not (pure).

Binding is the last write and passes the ledger's guard. When it is refused, the allocations that were made for it are
cleared and another node is tried. Source: kube-scheduler 1.37 with its DynamicResources plug-in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.api.kinds import POD, RESOURCE_CLAIM
from headrace.api.objects import Fields, Object, metadata, name_of, namespace_of, uid_of, version_of
from headrace.runtime.actions import Action, Event, Patch, Subresource
from headrace.scheduling.filters import summary

FINALIZER = "resource.kubernetes.io/delete-protection"


@dataclass(frozen=True, slots=True)
class Placement:
    """What one node offers: `reasons` why not, else a `score` (larger is better) and the allocations it would give.

    `allocations`: claim name to AllocationResult, for the claims that are not allocated yet.
    """

    node: str
    reasons: tuple[str, ...] = ()
    score: int = 0
    allocations: Mapping[str, Fields] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seen:
    """`blocked`: a reason that holds on every node (a claim that is not there, a fatal error of its selectors).

    `waiting`: it is not its turn yet (a claim is being made); told in the condition, but no failure to be announced.

    `claims`: the Pod's claims by name, as they are stored.
    """

    pod: Object
    placements: Sequence[Placement]
    claims: Mapping[str, Object] = field(default_factory=dict)
    blocked: str = ""
    waiting: str = ""


def plan(seen: Seen, now: float) -> tuple[Action, ...]:
    del now
    pod = seen.pod
    spec: Fields = pod.get("spec") or {}
    if spec.get("nodeName") or metadata(pod).get("deletionTimestamp"):
        return ()
    if spec.get("schedulingGates"):
        return _condition(pod, "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
    if seen.waiting:
        return _condition(pod, "Unschedulable", seen.waiting)
    if seen.blocked:
        count = len(seen.placements)
        return _unschedulable(pod, f"0/{count} nodes are available: {seen.blocked.rstrip('.')}.")
    fitting = [each for each in seen.placements if not each.reasons]
    if not fitting:
        return (*_cleared(seen), *_unschedulable(pod, summary({each.node: each.reasons for each in seen.placements})))
    best = max(fitting, key=lambda each: (each.score, each.node))
    unprotected = tuple(_protect(claim) for claim in seen.claims.values() if not _is_protected(claim))
    if unprotected:
        return unprotected
    return (*_reservations(seen, best), _binding(pod, best.node), _scheduled(pod, best.node))


def _reservations(seen: Seen, placement: Placement) -> tuple[Action, ...]:
    """One write a claim: what it gets and that this Pod uses it. Already reserved ones need none."""
    pod, actions = seen.pod, []
    consumer = {"resource": "pods", "name": name_of(pod), "uid": uid_of(pod)}
    for name, claim in seen.claims.items():
        status: dict[str, Any] = {}
        reserved: Sequence[Fields] = (claim.get("status") or {}).get("reservedFor") or ()
        if name in placement.allocations:
            status["allocation"] = placement.allocations[name]
        if not any(each.get("uid") == uid_of(pod) for each in reserved):
            status["reservedFor"] = [*reserved, consumer]
        if status:
            fields = {"status": status}
            actions.append(Patch(RESOURCE_CLAIM, namespace_of(claim), name, fields, version_of(claim), "status"))
    return tuple(actions)


def _cleared(seen: Seen) -> tuple[Action, ...]:
    """Give back what was allocated for this Pod alone, so that the next look may choose another node."""
    return tuple(
        Patch(
            RESOURCE_CLAIM,
            namespace_of(claim),
            name,
            {"status": {"allocation": None, "reservedFor": None}},
            version_of(claim),
            "status",
        )
        for name, claim in seen.claims.items()
        if (claim.get("status") or {}).get("allocation") and is_ours_alone(claim, seen.pod)
    )


def is_ours_alone(claim: Fields, pod: Fields) -> bool:
    """Whether nobody but this Pod uses the claim."""
    reserved: Sequence[Fields] = (claim.get("status") or {}).get("reservedFor") or ()
    return all(each.get("uid") == uid_of(pod) for each in reserved)


def _is_protected(claim: Fields) -> bool:
    return FINALIZER in (metadata(claim).get("finalizers") or ())


def _protect(claim: Object) -> Action:
    finalizers = [*(metadata(claim).get("finalizers") or ()), FINALIZER]
    fields = {"metadata": {"finalizers": finalizers}}
    return Patch(RESOURCE_CLAIM, namespace_of(claim), name_of(claim), fields, version_of(claim))


def _binding(pod: Object, node: str) -> Action:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name_of(pod), "namespace": namespace_of(pod), "uid": uid_of(pod)},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return Subresource(POD, namespace_of(pod), name_of(pod), "binding", body)


def _scheduled(pod: Object, node: str) -> Action:
    told = f"Successfully assigned {namespace_of(pod)}/{name_of(pod)} to {node}"
    return Event(POD, namespace_of(pod), name_of(pod), uid_of(pod), "Normal", "Scheduled", told)


def _unschedulable(pod: Object, message: str) -> tuple[Action, ...]:
    patch = _condition(pod, "Unschedulable", message)
    if not patch:
        return ()
    event = Event(POD, namespace_of(pod), name_of(pod), uid_of(pod), "Warning", "FailedScheduling", message)
    return (*patch, event)


def _condition(pod: Object, reason: str, message: str) -> tuple[Action, ...]:
    """PodScheduled False, written only when it says something new."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    for each in (pod.get("status") or {}).get("conditions") or ():
        if each.get("type") == "PodScheduled" and all(each.get(key) == value for key, value in condition.items()):
            return ()
    fields = {"status": {"conditions": [condition]}}
    return (Patch(POD, namespace_of(pod), name_of(pod), fields, version_of(pod), "status", strategic=True),)
