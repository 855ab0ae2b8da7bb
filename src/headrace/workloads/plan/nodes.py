"""Node lifecycle: a node whose Lease is not renewed is Unknown and tainted; its Pods leave after what they tolerate.

Silence and time under a taint are measured on the monotonic clock by who observes: a jump of the wall loses no node.
"""

from dataclasses import dataclass

from headrace.api.kinds import NODE, POD
from headrace.api.objects import Fields
from headrace.api.taints import tolerates
from headrace.api.times import to_time
from headrace.runtime.actions import Action, Again, Delete, Event, Patch
from headrace.store.protocol import Deletion, Preconditions

GRACE_SECONDS = 40.0  # kube-controller-manager's --node-monitor-grace-period of old; the agent renews every 10 s
TOLERATION_SECONDS = 300.0  # what Kubernetes' admission grants a Pod that says nothing of these two taints
UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"
OURS = (UNREACHABLE, NOT_READY)
EFFECTS = ("NoSchedule", "NoExecute")
JUDGED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
SILENT_REASON, SILENT_MESSAGE = "NodeStatusUnknown", "Kubelet stopped posting node status."


@dataclass(frozen=True, slots=True)
class Bound:
    """A Pod on the node that has not ended and is not being deleted."""

    namespace: str
    name: str
    uid: str
    tolerations: tuple[Fields, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """`silent_seconds` since the node was last heard of; `tainted_seconds` by taint key since it was first seen so."""

    name: str
    uid: str
    version: str
    conditions: tuple[Fields, ...]
    taints: tuple[Fields, ...]
    silent_seconds: float
    tainted_seconds: dict[str, float]
    pods: tuple[Bound, ...] = ()


def plan(seen: Seen, now: float) -> tuple[Action, ...]:
    ready = next((str(each.get("status")) for each in seen.conditions if each.get("type") == "Ready"), "Unknown")
    if seen.silent_seconds >= GRACE_SECONDS and ready != "Unknown":
        return (
            _silent(seen, now),
            _event(seen, "Normal", "NodeNotReady", f"Node {seen.name} status is now: NodeNotReady"),
        )
    tainted = _tainted(seen, ready, now)
    if tainted is not None:
        return (tainted,)
    evictions, wait = _evictions(seen)
    if seen.silent_seconds < GRACE_SECONDS:
        wait = min(wait, GRACE_SECONDS - seen.silent_seconds)
    return (*evictions, Again(wait)) if wait < float("inf") else tuple(evictions)


def _silent(seen: Seen, now: float) -> Patch:
    """Only conditions that are there, and Ready, become Unknown: nothing is known of them any more."""
    there = {str(each.get("type")) for each in seen.conditions}
    conditions = [
        {
            "type": name,
            "status": "Unknown",
            "reason": SILENT_REASON,
            "message": SILENT_MESSAGE,
            "lastTransitionTime": to_time(now),
        }
        for name in JUDGED
        if name == "Ready" or name in there
    ]
    fields = {"status": {"conditions": conditions}}
    return Patch(NODE, "", seen.name, fields, seen.version, "status", strategic=True)


def _tainted(seen: Seen, ready: str, now: float) -> Patch | None:
    key = {"True": None, "False": NOT_READY}.get(ready, UNREACHABLE)
    wanted = {(key, effect) for effect in EFFECTS} if key else set()
    there = {(each.get("key"), each.get("effect")) for each in seen.taints if each.get("key") in OURS}
    if there == wanted:
        return None
    taints = [
        dict(each) for each in seen.taints if each.get("key") not in OURS or (each["key"], each["effect"]) in wanted
    ]
    missing = [effect for effect in EFFECTS if key and (key, effect) not in there]
    taints += [{"key": key, "effect": effect, "timeAdded": to_time(now)} for effect in missing]
    return Patch(NODE, "", seen.name, {"spec": {"taints": taints or None}}, seen.version)


def _evictions(seen: Seen) -> tuple[list[Action], float]:
    """Who must leave now, and in how many seconds the next one must."""
    actions: list[Action] = []
    wait = float("inf")
    taints = [each for each in seen.taints if each.get("effect") == "NoExecute"]
    for pod in seen.pods if taints else ():
        remaining = min(
            tolerated_seconds(pod, taint) - seen.tainted_seconds.get(str(taint.get("key")), 0.0) for taint in taints
        )
        if remaining > 0:
            wait = min(wait, remaining)
            continue
        message = f"Marking for deletion Pod {pod.namespace}/{pod.name}"
        actions += [
            Event(POD, pod.namespace, pod.name, pod.uid, "Normal", "TaintManagerEviction", message),
            Delete(POD, pod.namespace, pod.name, Deletion(Preconditions(uid=pod.uid))),
        ]
    return actions, wait


def tolerated_seconds(pod: Bound, taint: Fields) -> float:
    """How long the Pod may stay under this taint: the shortest of the tolerations that match; 0 without any."""
    matching = [each for each in pod.tolerations if tolerates(each, taint)]
    if not matching:
        return TOLERATION_SECONDS if taint.get("key") in OURS else 0.0
    limits = [each["tolerationSeconds"] for each in matching if each.get("tolerationSeconds") is not None]
    return max(0.0, float(min(limits))) if limits else float("inf")


def _event(seen: Seen, type: str, reason: str, message: str) -> Event:
    return Event(NODE, "", seen.name, seen.uid, "Normal" if type == "Normal" else "Warning", reason, message)
