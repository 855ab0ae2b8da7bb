"""Where a Pod goes: allocate its claims, then bind it, or say in kube-scheduler's words why not (pure).

Binding is the last write and passes the ledger's guard. When it is refused, the allocations that were made for it are
cleared and another node is tried. Source: kube-scheduler 1.37 with its DynamicResources plug-in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.api.kinds import POD, RESOURCE_CLAIM
from headrace.api.objects import Fields, Object, metadata, name_of, namespace_of, uid_of, version_of
from headrace.api.times import from_time, to_time
from headrace.devices.plan import FINALIZER
from headrace.runtime.actions import Action, Again, Create, Delete, Event, Patch, Subresource
from headrace.scheduling import extended
from headrace.scheduling.extended import Backing
from headrace.scheduling.filters import summary
from headrace.scheduling.readiness import has_conditions, readiness
from headrace.store.protocol import Deletion, Preconditions

PATIENCE_SECONDS = 2.0  # a claim that is made this soon is not waited for in words


@dataclass(frozen=True, slots=True)
class Placement:
    """What one node offers: `reasons` why not, else a `score` (larger is better) and the allocations it would give.

    `allocations`: claim name to AllocationResult, for the claims that are not allocated yet.
    """

    node: str
    reasons: tuple[str, ...] = ()
    score: int = 0
    allocations: Mapping[str, Fields] = field(default_factory=dict)
    backing: Backing | None = None  # what the claim for extended resources must ask for here


@dataclass(frozen=True, slots=True)
class Seen:
    """`blocked`: a reason that holds on every node (a claim that is not there).

    `failed`: an error that ended the search for devices on all nodes (a selector that cannot be evaluated).

    `waiting`: it is not its turn yet (a claim is being made); told in the condition, but no failure to be announced.

    `claims`: the Pod's claims by name, as they are stored; `extended` is the one among them, or beside them, that was
    made for extended resources.
    """

    pod: Object
    placements: Sequence[Placement]
    claims: Mapping[str, Object] = field(default_factory=dict)
    blocked: str = ""
    waiting: str = ""
    extended: Object | None = None
    failed: str = ""


def plan(seen: Seen, now: float) -> tuple[Action, ...]:
    pod = seen.pod
    spec: Fields = pod.get("spec") or {}
    if spec.get("nodeName") or metadata(pod).get("deletionTimestamp"):
        return ()
    if spec.get("schedulingGates"):
        return _condition(pod, "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
    if seen.waiting:
        age = now - _created(pod, now)
        if age < PATIENCE_SECONDS:
            return (Again(PATIENCE_SECONDS - age),)
        return _condition(pod, "Unschedulable", seen.waiting)
    if seen.blocked:
        count = len(seen.placements)
        return unschedulable(pod, f"0/{count} nodes are available: {seen.blocked.rstrip('.')}.")
    if seen.failed:
        return _told(pod, "SchedulerError", f'running "DynamicResources" filter plugin: {seen.failed}')
    fitting = [each for each in seen.placements if not each.reasons]
    if stale := _stale(seen, fitting):
        return stale
    if not fitting:
        return (*_cleared(seen), *unschedulable(pod, summary({each.node: each.reasons for each in seen.placements})))
    return _placed(seen, best_of(fitting), now)


def best_of(fitting: Sequence[Placement]) -> Placement:
    return max(fitting, key=lambda each: (each.score, each.node))


def _placed(seen: Seen, best: Placement, now: float) -> tuple[Action, ...]:
    """One step a look: the claim for extended resources, protection, then allocation and binding together."""
    pod = seen.pod
    if best.backing is not None and seen.extended is None:
        return (Create(RESOURCE_CLAIM, namespace_of(pod), extended.claim_for(pod, best.backing.requests)),)
    unprotected = tuple(_protect(claim) for claim in seen.claims.values() if not _is_protected(claim))
    if unprotected:
        return unprotected
    reserving = (*_reservations(seen, best, now), *_mapped(seen, best))
    taken = [claim for claim in seen.claims.values() if (claim.get("status") or {}).get("allocation")]
    ready = readiness(taken, now)
    if ready.is_ready and not any(has_conditions(each) for each in best.allocations.values()):
        return (*reserving, _binding(pod, best.node), _scheduled(pod, best.node))
    if reserving:
        told = f"waiting for binding conditions for device on node {best.node}"
        return (*reserving, _event(pod, "Normal", "BindingConditionsPending", told))
    return (Again(max(0.0, ready.until - now) + 1.0),)


def _created(pod: Object, now: float) -> float:
    stamp = metadata(pod).get("creationTimestamp")
    return from_time(str(stamp)) if stamp else now


def _stale(seen: Seen, fitting: Sequence[Placement]) -> tuple[Action, ...]:
    """A claim for extended resources that asks for something else than the Pod needs now (a class came or went)."""
    claim = seen.extended
    if claim is None or metadata(claim).get("deletionTimestamp"):
        return ()
    has: Sequence[Fields] = ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ()
    wanted = [each.backing for each in fitting]
    if not fitting or any(each is not None and _asks(has) == _asks(each.requests) for each in wanted):
        return ()
    deletion = Deletion(Preconditions(uid=uid_of(claim)))
    return (*_cleared(seen), Delete(RESOURCE_CLAIM, namespace_of(claim), name_of(claim), deletion))


def _asks(requests: Sequence[Fields]) -> list[tuple[Any, ...]]:
    return [(each["name"], each["exactly"]["deviceClassName"], each["exactly"]["count"]) for each in requests]


def _mapped(seen: Seen, placement: Placement) -> tuple[Action, ...]:
    """The Pod's status says which request of its claim serves which container's extended resource."""
    pod = seen.pod
    if placement.backing is None or seen.extended is None:
        return ()
    told = {"requestMappings": list(placement.backing.mappings), "resourceClaimName": name_of(seen.extended)}
    if (pod.get("status") or {}).get("extendedResourceClaimStatus") == told:
        return ()
    fields = {"status": {"extendedResourceClaimStatus": told}}
    return (Patch(POD, namespace_of(pod), name_of(pod), fields, version_of(pod), "status", strategic=True),)


def _reservations(seen: Seen, placement: Placement, now: float) -> tuple[Action, ...]:
    """One write a claim: what it gets and that this Pod uses it. Already reserved ones need none."""
    pod, actions = seen.pod, []
    consumer = {"resource": "pods", "name": name_of(pod), "uid": uid_of(pod)}
    for name, claim in seen.claims.items():
        status: dict[str, Any] = {}
        reserved: Sequence[Fields] = (claim.get("status") or {}).get("reservedFor") or ()
        if name in placement.allocations:
            status["allocation"] = {**placement.allocations[name], "allocationTimestamp": to_time(now)}
        if not any(each.get("uid") == uid_of(pod) for each in reserved):
            status["reservedFor"] = [*reserved, consumer]
        if status:
            fields = {"status": status}
            actions.append(Patch(RESOURCE_CLAIM, namespace_of(claim), name, fields, version_of(claim), "status"))
    return tuple(actions)


def _cleared(seen: Seen) -> tuple[Action, ...]:
    """Give back what was allocated for this Pod alone, so that the next look may choose another node.

    It may be bound, and that not have been heard of: the first write changes nothing, and fails if it is not as seen.
    """
    pod = seen.pod
    cleared = [
        Patch(
            RESOURCE_CLAIM,
            namespace_of(claim),
            name,
            {"status": {"allocation": None, "reservedFor": None, "devices": None}},
            version_of(claim),
            "status",
        )
        for name, claim in seen.claims.items()
        if (claim.get("status") or {}).get("allocation") and is_ours_alone(claim, pod)
    ]
    return (Patch(POD, namespace_of(pod), name_of(pod), {}, version_of(pod)), *cleared) if cleared else ()


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
    return _event(pod, "Normal", "Scheduled", f"Successfully assigned {namespace_of(pod)}/{name_of(pod)} to {node}")


def _event(pod: Object, kind: Literal["Normal", "Warning"], reason: str, message: str) -> Event:
    return Event(POD, namespace_of(pod), name_of(pod), uid_of(pod), kind, reason, message)


def unschedulable(pod: Object, message: str) -> tuple[Action, ...]:
    return _told(pod, "Unschedulable", message)


def _told(pod: Object, reason: str, message: str) -> tuple[Action, ...]:
    """In the condition and an event, once."""
    patch = _condition(pod, reason, message)
    if not patch:
        return ()
    return (*patch, _event(pod, "Warning", "FailedScheduling", message))


def _condition(pod: Object, reason: str, message: str) -> tuple[Action, ...]:
    """PodScheduled False, written only when it says something new."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    for each in (pod.get("status") or {}).get("conditions") or ():
        if each.get("type") == "PodScheduled" and all(each.get(key) == value for key, value in condition.items()):
            return ()
    fields = {"status": {"conditions": [condition]}}
    return (Patch(POD, namespace_of(pod), name_of(pod), fields, version_of(pod), "status", strategic=True),)
