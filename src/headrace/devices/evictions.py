"""Which Pods lose their devices to a taint with effect NoExecute, and when (pure).

A taint counts from its timeAdded, plus the shortest tolerationSeconds of the request's tolerations of it; a toleration
without seconds is for ever. Source: KEP-5055, the device taint eviction controller of kube-controller-manager 1.37.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.api.kinds import POD
from headrace.api.objects import Fields, Object, metadata, name_of, namespace_of, uid_of, version_of
from headrace.api.times import from_time, to_time
from headrace.devices.allocate.taints import tolerates
from headrace.devices.plan import FINAL_PHASES
from headrace.runtime.actions import Action, Again, Delete, Event, Patch
from headrace.store.protocol import Deletion, Preconditions

EFFECT = "NoExecute"
REASON = "DeletionByDeviceTaintManager"
MESSAGE = "Device Taint manager: deleting due to NoExecute taint"


@dataclass(frozen=True, slots=True)
class Seen:
    """`taints`: for each result of the claim's allocation, the taints of its device with where they come from."""

    claim: Object
    pods: Mapping[str, Object]
    taints: Sequence[Sequence[tuple[Fields, str]]]


def plan(seen: Seen, now: float) -> tuple[Action, ...]:
    due = due_at(seen, now)
    users = [pod for pod in seen.pods.values() if is_evictable(pod)]
    if due is None or not users:
        return ()
    when, why = due
    if when > now:
        return (Again(when - now),)
    return tuple(action for pod in users for action in _evict(pod, why, now))


def due_at(seen: Seen, now: float) -> tuple[float, str] | None:
    """When the claim's users go, and because of what; None: they may stay."""
    found: list[tuple[float, str]] = []
    results: Sequence[Fields] = ((seen.claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get(
        "results"
    ) or ()
    for result, taints in zip(results, seen.taints, strict=True):
        for taint, origin in taints:
            seconds = _tolerated(taint, result.get("tolerations") or ())
            if taint.get("effect") == EFFECT and seconds is not None:
                added = taint.get("timeAdded")
                found.append(((from_time(str(added)) if added else now) + seconds, origin))
    return min(found, default=None)


def _tolerated(taint: Fields, tolerations: Sequence[Fields]) -> float | None:
    """Seconds, 0 without a toleration; None: for ever."""
    matching = [each for each in tolerations if each.get("effect") == EFFECT and tolerates(each, taint)]
    if any(each.get("tolerationSeconds") is None for each in matching):
        return None
    return min((max(0.0, float(each["tolerationSeconds"])) for each in matching), default=0.0)


def is_tolerated_for_ever(taint: Fields, result: Fields) -> bool:
    """Whether the device of this allocation result is kept whatever the taint, were its effect NoExecute."""
    return _tolerated({**taint, "effect": EFFECT}, result.get("tolerations") or ()) is None


def is_evictable(pod: Fields) -> bool:
    placed = (pod.get("spec") or {}).get("nodeName")
    ended = (pod.get("status") or {}).get("phase") in FINAL_PHASES
    return bool(placed) and not ended and not metadata(pod).get("deletionTimestamp")


def _evict(pod: Object, why: str, now: float) -> tuple[Action, ...]:
    namespace, name, uid = namespace_of(pod), name_of(pod), uid_of(pod)
    event = Event(POD, namespace, name, uid, "Normal", "DeviceTaintManagerEviction", f"Marking for deletion: {why}")
    deletion = Delete(POD, namespace, name, Deletion(Preconditions(uid=uid)))
    for each in (pod.get("status") or {}).get("conditions") or ():
        if each.get("type") == "DisruptionTarget" and each.get("reason") == REASON:
            return (event, deletion)
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": REASON,
        "message": MESSAGE,
        "lastTransitionTime": to_time(now),
    }
    fields = {"status": {"conditions": [condition]}}
    told = Patch(POD, namespace, name, fields, version_of(pod), "status", strategic=True)
    return (event, told, deletion)
