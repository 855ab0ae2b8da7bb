"""Pure decisions of the PolicyManager for one ResizePolicy: actions for containers, and its own status."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from headrace.api.amounts import Amounts, larger, minus, quantities, read, total
from headrace.api.kinds import POD, RESIZE_POLICY, RESOURCE_SCALING_ACTION
from headrace.api.objects import Object, key_of, marked_name, metadata, name_of, namespace_of, uid_of, version_of
from headrace.api.times import stamp, to_time
from headrace.ledger.pods import MANAGED_LABEL
from headrace.resize import workload
from headrace.resize.actions_plan import had_before
from headrace.resize.policy.decision import Container, Decision, Flag, Judged, Record, judge, words
from headrace.resize.policy.signals import shown, shown_threshold
from headrace.resize.policy.spec import Policy
from headrace.runtime.actions import Action, Create, Event, Patch

POLICY_LABEL = "headrace.dev/policy"
TARGETS_KEPT = 200

Found = list[tuple[Container, Judged]]
"""The containers of a policy in turn, each with what was made of it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """`pods` are all that the policy selects; `containers` those of them that run and may be resized.

    `unmanageable`: Pods that cannot become managed, with the ledger's words. `manages`: whether they become so at all.
    `elders`: Pods that it selects too and that an older policy has, each with that one's name.
    `unreadable`: Pods of which a quantity cannot be read, with which one, by uid; they are without it, and left alone.
    `outage`: why nothing is measured at present, or nothing. `silence`: metrics that never came, or nothing. `asked`:
    what actions that have not ended want, by container (namespace/pod/container).
    """

    object: Object
    policy: Policy
    pods: tuple[Object, ...]
    containers: tuple[Container, ...]
    unmanageable: Mapping[str, str]
    manages: bool = True
    outage: str = ""
    silence: str = ""
    asked: Mapping[str, Amounts] = field(default_factory=dict)
    elders: Mapping[str, str] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Misspelt:
    """A policy that nobody's admission has refused, and that cannot be followed: `why` names the fields."""

    object: Object
    why: str


def records(policy: Object) -> dict[str, Record]:
    found = {}
    for key, told in ((policy.get("status") or {}).get("targets") or {}).items():
        at = stamp(told.get("at"))
        found[key] = Record(read(told.get("first")), read(told.get("target")), at)
    return found


def _spoken_for(seen: Seen, pod: Object, container: str) -> Amounts:
    desired = workload.desired_limits(pod, container)
    return larger(desired, seen.asked.get(workload.workload_id(pod, container), {}))


def judged(seen: Seen, now: float) -> Found:
    """Each container in turn; what one is given, or waits for already, is taken off the quota of the next."""
    if seen.policy.mode == "Off":
        return []
    known = records(seen.object)
    everything = [
        _spoken_for(seen, pod, str(each["name"]))
        for pod in seen.pods
        for each in pod["spec"]["containers"]
        if seen.policy.includes(str(each["name"]))
    ]
    left = dict(minus(seen.policy.quota, total(everything)))
    left = {name: left.get(name, 0) for name in seen.policy.quota}
    found = []
    for container in seen.containers:
        answer = judge(container, seen.policy, _record(container, known), left, now)
        if answer.decision is not None:
            limits = workload.admitted_limits(container.pod, container.name)
            for name in left:
                left[name] -= answer.decision.target.get(name, limits.get(name, 0)) - limits.get(name, 0)
        found.append((container, answer))
    return found


def plan(seen: Seen, found: Found, now: float) -> tuple[Action, ...]:
    """What is to be done after `found` was judged."""
    actions: list[Action] = []
    if seen.policy.mode == "Auto":
        if seen.manages:
            actions += [_managed(pod) for pod in seen.pods if _is_to_be_managed(pod, seen)]
        for container, answer in found:
            if answer.decision is not None:
                actions += _acting(container, answer.decision, seen)
    return (*actions, *_status(seen, found, now))


def _is_to_be_managed(pod: Object, seen: Seen) -> bool:
    is_managed = (metadata(pod).get("labels") or {}).get(MANAGED_LABEL) == "true"
    return not is_managed and uid_of(pod) not in seen.unmanageable and uid_of(pod) not in seen.unreadable


def _managed(pod: Object) -> Patch:
    """From now on it holds the larger of request and limit: a wish, that the ledger may refuse."""
    fields = {"metadata": {"labels": {MANAGED_LABEL: "true"}}}
    return Patch(POD, namespace_of(pod), name_of(pod), fields, version_of(pod))


def _acting(container: Container, decision: Decision, seen: Seen) -> list[Action]:
    pod, policy = container.pod, seen.policy
    before = name_of(container.history[-1]) if container.history else ""
    digest = hashlib.sha256(f"{uid_of(seen.object)}/{uid_of(pod)}/{container.name}/{before}".encode()).hexdigest()[:8]
    current = workload.admitted_limits(pod, container.name)
    cause: dict[str, Any] = {"reason": decision.reason, "policy": policy.name, "message": words(decision)}
    if decision.metric:
        cause |= {
            "metric": decision.metric,
            "value": shown(decision.value),
            "threshold": shown_threshold(decision.threshold),
        }
    action = {
        "apiVersion": RESOURCE_SCALING_ACTION.api_version,
        "kind": RESOURCE_SCALING_ACTION.kind,
        "metadata": {
            "name": marked_name(name_of(pod), f"{container.name}-{digest}"),
            "namespace": namespace_of(pod),
            "labels": {POLICY_LABEL: policy.name},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod)}],
        },
        "spec": {
            "workload": f"{name_of(pod)}/{container.name}",
            "node": str(pod["spec"].get("nodeName") or ""),
            "current": quantities(current),
            "target": quantities(decision.target),
            "cause": cause,
            "priority": policy.priority,
            "onInsufficient": "Clamp" if decision.direction == "oom" else policy.on_insufficient,
            "retry": dict(policy.retry),
        },
    }
    created: Action = Create(RESOURCE_SCALING_ACTION, namespace_of(pod), action)
    if decision.direction != "up":
        return [created]
    told = {
        "workload": workload.workload_id(pod, container.name),
        "metric": decision.metric,
        "value": shown(decision.value),
        "threshold": shown_threshold(decision.threshold),
        "status": "Degraded",
    }
    degraded = Event(
        POD, namespace_of(pod), name_of(pod), uid_of(pod), "Warning", "PerformanceDegraded", json.dumps(told)
    )
    return [created, degraded]


def _status(seen: Seen, found: Found, now: float) -> list[Action]:
    obj, before = seen.object, seen.object.get("status") or {}
    generation = metadata(obj).get("generation", 0)
    status: dict[str, Any] = {"observedGeneration": generation, "selected": len(seen.pods)}
    targets = _targets(obj, found)
    if targets != before.get("targets") and (targets or before.get("targets")):
        gone = {key: None for key in before.get("targets") or {} if key not in targets}
        status["targets"] = targets | gone
    decided = [(container, answer.decision) for container, answer in found if answer.decision is not None]
    events: list[Action] = []
    if decided:
        container, decision = decided[-1]
        said = f"{workload.workload_id(container.pod, container.name)} {words(decision)}"
        status["lastDecision"] = said
        if seen.policy.mode == "DryRun" and said != before.get("lastDecision"):
            at = (RESIZE_POLICY, namespace_of(obj), name_of(obj), uid_of(obj))
            events.append(Event(*at, "Normal", "WouldScale", said))
    conditions = _conditions(seen, found, before.get("conditions") or (), generation, now)
    if conditions != list(before.get("conditions") or ()):
        status["conditions"] = conditions
    if all(before.get(name) == value for name, value in status.items()):
        return events
    return [
        *events,
        Patch(RESIZE_POLICY, namespace_of(obj), name_of(obj), {"status": status}, version_of(obj), "status"),
    ]


def _conditions(seen: Seen, found: Found, known: Any, generation: int, now: float) -> list[dict[str, Any]]:
    mode = seen.policy.mode
    wanted = [("Active", mode == "Auto", mode, _selection(seen))]
    for flag in get_args(Flag):
        names = [workload.workload_id(each.pod, each.name) for each, answer in found if flag in answer.flags]
        if names or any(each["type"] == flag for each in known):
            wanted.append((flag, bool(names), flag if names else "NotSo", ", ".join(names[:5])))
    refused = sorted(seen.unmanageable.items())
    if refused or any(each["type"] == "Unmanageable" for each in known):
        said = "; ".join(message for _, message in refused[:3])
        wanted.append(("Unmanageable", bool(refused), "InsufficientCapacity" if refused else "NotSo", said))
    missing = seen.outage or seen.silence
    if missing or any(each["type"] == "MetricsUnavailable" for each in known):
        reason = "NoAnswer" if seen.outage else "NotReported" if seen.silence else "NotSo"
        wanted.append(("MetricsUnavailable", bool(missing), reason, missing))
    return _written_conditions(wanted, known, generation, now)


def _selection(seen: Seen) -> str:
    """What people should know of whom it is about."""
    told = []
    if seen.elders:
        theirs = ", ".join(f"{pod} ({policy})" for pod, policy in sorted(seen.elders.items())[:5])
        told.append(f"of several policies that select a Pod the oldest has it: {theirs}")
    elif not seen.pods:
        told.append("no Pod is selected")
    odd = [f"{key_of(pod)}: {seen.unreadable[uid_of(pod)]}" for pod in seen.pods if uid_of(pod) in seen.unreadable]
    return "; ".join([*told, *odd[:3]])


def plan_misspelt(seen: Misspelt, now: float) -> tuple[Action, ...]:
    """Nothing is done for it; that is told once."""
    obj = seen.object
    generation, known = metadata(obj).get("generation", 0), (obj.get("status") or {}).get("conditions") or ()
    conditions = _written_conditions([("Active", False, "Invalid", seen.why)], known, generation, now)
    if conditions == list(known):
        return ()
    status = {"observedGeneration": generation, "conditions": conditions}
    at = (RESIZE_POLICY, namespace_of(obj), name_of(obj))
    return (
        Patch(*at, {"status": status}, version_of(obj), "status"),
        Event(*at, uid_of(obj), "Warning", "InvalidPolicy", seen.why),
    )


def _written_conditions(
    wanted: list[tuple[str, bool, str, str]], known: Any, generation: int, now: float
) -> list[dict[str, Any]]:
    by_type = {each["type"]: each for each in known}
    conditions = []
    for type, so, reason, message in wanted:
        status = "True" if so else "False"
        before = by_type.get(type, {})
        moved = before.get("status") != status
        condition: dict[str, Any] = {"type": type, "status": status, "reason": reason, "message": message}
        condition["observedGeneration"] = generation
        condition["lastTransitionTime"] = to_time(now) if moved else before.get("lastTransitionTime")
        conditions.append(condition)
    return conditions


def _targets(policy: Object, found: Found) -> dict[str, Any]:
    """What is remembered by owner and container: the first limits, and what the last action that succeeded reached."""
    known: dict[str, Any] = dict((policy.get("status") or {}).get("targets") or {})
    for container, _ in found:
        told = dict(known.get(container.key) or {})
        told["first"] = {**quantities(_first(container)), **(told.get("first") or {})}
        for action in container.history:
            status = action.get("status") or {}
            ours = (metadata(action).get("labels") or {}).get(POLICY_LABEL) == name_of(policy)
            ended = str(status.get("finishTime") or "")
            if ours and status.get("state") == "Succeeded" and ended > str(told.get("at") or ""):
                told |= {"target": dict(status.get("actual") or {}), "at": ended}
        known[container.key] = told
    kept = sorted(known.items(), key=lambda pair: (str(pair[1].get("at") or "9"), pair[0]))[-TARGETS_KEPT:]
    return dict(sorted(kept))


def _first(container: Container) -> Amounts:
    """The limits before the oldest resize that is known, of each resource."""
    found = dict(workload.admitted_limits(container.pod, container.name))
    for action in reversed(container.history):
        found |= had_before(action)
    return found


def _record(container: Container, known: Mapping[str, Record]) -> Record:
    record = known.get(container.key, Record())
    return replace(record, first={**_first(container), **record.first})
