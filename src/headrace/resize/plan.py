"""Pure decisions of the ResourceManager: which desired resources are admitted on a node, and what the others wait for.

Shrinks come first, then priority, QoS class and time; a wish that does not fit never stands in another one's way.
Source: KEP-1287 (in-place resize), and its order of retries.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from headrace.api.amounts import CPU, LIMITS, MEMORY, PODS, Amounts, read, written
from headrace.api.kinds import POD
from headrace.api.objects import Fields, Object, key_of, metadata, name_of, namespace_of, uid_of, version_of
from headrace.api.quantity import InvalidQuantity
from headrace.api.times import stamp, to_time
from headrace.ledger.node import Ledger, Shortfall
from headrace.ledger.pods import LISTS, contribution
from headrace.runtime.actions import Action, Event, Patch

PENDING = "PodResizePending"
IN_PROGRESS = "PodResizeInProgress"
DEFERRED: Final = "Deferred"
INFEASIBLE: Final = "Infeasible"
RESIZED = (CPU, MEMORY)
PAGE_BYTES = 4096  # the kernel keeps memory limits in whole pages
QOS_ORDER = {"Guaranteed": 0, "Burstable": 1, "BestEffort": 2}

Record = Mapping[str, str]
"""What allocatedResources holds: `cpu`, `memory` (requests), `limits.cpu`, `limits.memory`."""

Unenforced = Mapping[str, str]
"""Resources (cpu, memory) whose limits this node cannot set, each with why."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A Pod of the node that has not ended and is not being deleted.

    `refused`: the words in which the ledger refused just this wish, and it has not changed since.
    `completed`: a resize of it has ended since the last look. `unreadable`: which of its quantities cannot be read, so
    that nothing is decided for it but that this is told; `pod` is without them.
    """

    pod: Object
    refused: str | None = None
    completed: bool = False
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """`ledger` is the node's as the caches show it; the committer judges again by its own."""

    ledger: Ledger
    pods: tuple[Candidate, ...]
    unenforced: Unenforced


@dataclass(frozen=True, slots=True)
class Wish:
    """A Pod whose desired resources are not the admitted ones. `holds`: all that it would be charged."""

    candidate: Candidate
    holder: str
    holds: Amounts
    grows: bool
    since: float

    @property
    def pod(self) -> Object:
        return self.candidate.pod


@dataclass(frozen=True, slots=True)
class Verdict:
    reason: Literal["Deferred", "Infeasible"]
    message: str


def plan(seen: Seen, now: float) -> tuple[Action, ...]:
    """At most one status patch a Pod. A growth that is admitted here reduces what is left for the next."""
    readable = [each for each in seen.pods if not each.unreadable]
    wishes = in_order([_wish(each, seen.ledger, now) for each in readable if desired(each.pod) != admitted(each.pod)])
    admissions, waiting, ledger = _judged(wishes, seen.ledger, seen.unenforced)
    actions = _news(seen.pods)
    for wish in admissions:
        actions += _admission(wish.pod)
    for wish, verdict in waiting:
        if verdict is None:
            # In the words of the ledger as it is when all this is admitted, or the next look would find better ones.
            answer = ledger.admit(wish.holder, wish.holds)
            if isinstance(answer, Ledger):
                continue  # what was admitted after it has made room: the next look, which that causes, admits it
            verdict = Verdict(DEFERRED, str(answer))
        actions += _waiting(wish.pod, verdict, now)
    for candidate in readable:
        if desired(candidate.pod) == admitted(candidate.pod) and condition_of(candidate.pod, PENDING) is not None:
            actions.append(_patch(candidate.pod, {"conditions": [{"type": PENDING, "$patch": "delete"}]}))
    return tuple(actions)


def _news(pods: Iterable[Candidate]) -> list[Action]:
    """What only this look tells, so before any write: one that conflicts with another's ends the look."""
    found: list[Action] = []
    for each in pods:
        if each.unreadable:
            found.append(_event(each.pod, "Warning", "FailedValidation", each.unreadable))
        elif each.completed and desired(each.pod) == admitted(each.pod):
            found.append(_event(each.pod, "Normal", "ResizeCompleted", "Pod resize completed"))
    return found


def _judged(
    wishes: list[Wish], ledger: Ledger, unenforced: Unenforced
) -> tuple[list[Wish], list[tuple[Wish, Verdict | None]], Ledger]:
    """Who is admitted, who waits (and why, unless it is for want of room), and the ledger after that."""
    admissions: list[Wish] = []
    waiting: list[tuple[Wish, Verdict | None]] = []
    for wish in wishes:
        verdict = _impossible(wish, ledger, unenforced) or _too_early(wish.pod, ledger.node)
        if verdict is None and wish.candidate.refused is not None:
            verdict = Verdict(DEFERRED, wish.candidate.refused)
        answer = ledger.admit(wish.holder, wish.holds) if verdict is None else verdict
        if isinstance(answer, Ledger):
            admissions.append(wish)
            ledger = answer
        else:
            waiting.append((wish, verdict))
    return admissions, waiting, ledger


def in_order(wishes: list[Wish]) -> list[Wish]:
    """Who asks first: what does not grow, then priority, QoS class, time pending; the name last, to have one order."""
    return sorted(
        wishes,
        key=lambda wish: (
            wish.grows,
            -int((wish.pod.get("spec") or {}).get("priority") or 0),
            QOS_ORDER.get(str((wish.pod.get("status") or {}).get("qosClass")), len(QOS_ORDER)),
            wish.since,
            key_of(wish.pod),
        ),
    )


def desired(pod: Fields) -> dict[str, dict[str, Amounts]]:
    """By field and container, what the spec asks for, under the keys of allocatedResources."""
    return {field: {str(each["name"]): read(record_of(each)) for each in _containers(pod, field)} for field, _ in LISTS}


def admitted(pod: Fields) -> dict[str, dict[str, Amounts]]:
    """The same of what is admitted: what is recorded, and the spec where nothing is."""
    found: dict[str, dict[str, Amounts]] = {}
    for field, statuses in LISTS:
        told = {each.get("name"): each for each in (pod.get("status") or {}).get(statuses) or ()}
        found[field] = {
            str(each["name"]): read((told.get(each["name"]) or {}).get("allocatedResources") or record_of(each))
            for each in _containers(pod, field)
        }
    return found


def wishes(pod: Fields) -> bool:
    """Whether there is anything to decide or to take back: without it, and without an end to tell, no plan acts."""
    try:
        return desired(pod) != admitted(pod) or condition_of(pod, PENDING) is not None
    except InvalidQuantity:
        return True  # that is to be told


def record_of(container: Fields) -> Record:
    """A container's resources as allocatedResources records them. A request that is not given is the limit's."""
    resources = container.get("resources") or {}
    limits: Fields = resources.get("limits") or {}
    requests: Fields = {**limits, **(resources.get("requests") or {})}
    found = {name: str(requests[name]) for name in RESIZED if name in requests}
    return found | {f"{LIMITS}{name}": str(limits[name]) for name in RESIZED if name in limits}


def is_settled(pod: Fields) -> bool:
    """Whether desired, admitted and actual limits are known to be the same and nobody says that a resize goes on."""
    try:
        return _is_settled(pod)
    except InvalidQuantity:
        return False


def _is_settled(pod: Fields) -> bool:
    if desired(pod) != admitted(pod) or condition_of(pod, IN_PROGRESS) is not None:
        return False
    for field, statuses in LISTS:
        for told in (pod.get("status") or {}).get(statuses) or ():
            record = told.get("allocatedResources")
            if not record or is_met(read(record), read((told.get("resources") or {}).get("limits"))):
                continue
            if not has_ended(pod, field, str(told.get("name"))):
                return False
    return True


def has_ended(pod: Fields, field: str, name: str) -> bool:
    """Whether the container, which is in that field of the spec, has terminated and is never started again."""
    statuses: Iterable[Fields] = (pod.get("status") or {}).get(dict(LISTS)[field]) or ()
    found = [(each.get("state") or {}).get("terminated") for each in statuses if each.get("name") == name]
    terminated = found[0] if found else None
    if terminated is None:
        return False
    policy = (pod.get("spec") or {}).get("restartPolicy", "Always")
    if field == "initContainers":
        of_its_own = [each.get("restartPolicy") for each in _containers(pod, field) if each.get("name") == name]
        if of_its_own == ["Always"]:
            return False  # a sidecar
        policy = "Never" if policy == "Never" else "OnFailure"
    return bool(policy == "Never" or (policy == "OnFailure" and terminated.get("exitCode") == 0))


def is_met(record: Amounts, limits: Amounts) -> bool:
    return record.get(f"{LIMITS}{CPU}") == limits.get(CPU) and (
        record.get(f"{LIMITS}{MEMORY}", 0) // PAGE_BYTES == limits.get(MEMORY, 0) // PAGE_BYTES
    )


def _containers(pod: Fields, field: str) -> list[Fields]:
    return list((pod.get("spec") or {}).get(field) or ())


def _wish(candidate: Candidate, ledger: Ledger, now: float) -> Wish:
    pod = candidate.pod
    before = contribution(pod)
    holds = contribution({**pod, "status": _with_records(pod)}).wish(before)
    has = ledger.holders.get(before.holder, {})
    pending = condition_of(pod, PENDING)
    since = stamp(pending["lastTransitionTime"]) if pending and pending.get("lastTransitionTime") else now
    grows = any(amount > has.get(name, 0) for name, amount in holds.items())
    return Wish(candidate, before.holder, holds, grows, since)


def _with_records(pod: Object) -> dict[str, Any]:
    """The Pod's status as it would be with all that is desired admitted."""
    status = dict(pod.get("status") or {})
    for statuses, records in _records(pod).items():
        told = {each.get("name"): each for each in status.get(statuses) or ()}
        for record in records:
            told[record["name"]] = {**told.get(record["name"], {}), **record}
        status[statuses] = list(told.values())
    return status


def _records(pod: Object) -> dict[str, list[dict[str, Any]]]:
    """What an admission writes: by field of the status, the containers whose record changes."""
    wanted, has = desired(pod), admitted(pod)
    found: dict[str, list[dict[str, Any]]] = {}
    for field, statuses in LISTS:
        changed = [
            {"name": each["name"], "allocatedResources": dict(record_of(each))}
            for each in _containers(pod, field)
            if wanted[field][each["name"]] != has[field][each["name"]]
        ]
        if changed:
            found[statuses] = changed
    return found


def _impossible(wish: Wish, ledger: Ledger, unenforced: Unenforced) -> Verdict | None:
    """What this node can never give, however empty it were."""
    wanted, has = desired(wish.pod), admitted(wish.pod)
    for name, why in sorted(unenforced.items()):
        key = f"{LIMITS}{name}"
        for field in wanted:
            for container, amounts in wanted[field].items():
                if amounts.get(key) != has[field][container].get(key):
                    message = f"container {container}: node {ledger.node} cannot change the {name} limit: {why}"
                    return Verdict(INFEASIBLE, message)
    if not wish.grows:
        return None
    empty = Ledger(ledger.total, ledger.reserved, node=ledger.node)
    amounts = {name: amount for name, amount in wish.holds.items() if name != PODS}
    answer = empty.admit(wish.holder, amounts)
    if not isinstance(answer, Shortfall):
        return None
    told = (
        f"insufficient {name}: {written(name, amounts[name])} wanted, "
        f"{written(name, answer.available[name])} allocatable of {written(name, answer.total[name])}"
        for name in sorted(answer.missing)
    )
    return Verdict(INFEASIBLE, f"node {ledger.node}: {'; '.join(told)}")


def _too_early(pod: Object, node: str) -> Verdict | None:
    """A shrink releases what is held only if the node has told that it has all of that, or has seen this wish.

    Until then an agent may be about to start or to grow the container to what was admitted before: it has not heard of
    the shrink yet, and what it told last is smaller than what will be so in a moment. Once it has seen the wish (which
    it tells when nothing that it has begun can grow the container any more), it applies no growth beyond it.
    """
    if _is_seen(pod):
        return None
    wanted, has = desired(pod), admitted(pod)
    for field, statuses in LISTS:
        told = {each.get("name"): each for each in (pod.get("status") or {}).get(statuses) or ()}
        for container, amounts in wanted[field].items():
            if has_ended(pod, field, container):
                continue
            resources = (told.get(container) or {}).get("resources") or {}
            for name, amount in has[field][container].items():
                if amounts.get(name, 0) < amount and not _is_told(resources, name, amount):
                    message = (
                        f"container {container}: node {node} has not told yet that it has {written(name, amount)} of "
                        f"{name}, or that it will not apply it any more, so none of it can be released"
                    )
                    return Verdict(DEFERRED, message)
    return None


def _is_seen(pod: Object) -> bool:
    """Whether the node has told that it has seen all that is desired."""
    generation = int(metadata(pod).get("generation") or 0)
    return 0 < generation <= int((pod.get("status") or {}).get("observedGeneration") or 0)


def _is_told(resources: Fields, name: str, amount: int) -> bool:
    """Whether what the node read back is at least this much. No limit at all is more than any."""
    bound = name.startswith(LIMITS)
    told = read(resources.get("limits" if bound else "requests"))
    resource = name.removeprefix(LIMITS)
    if resource not in told:
        return bound and bool(resources)
    unit = PAGE_BYTES if resource == MEMORY else 1
    return told[resource] // unit >= amount // unit


def _admission(pod: Object) -> list[Action]:
    """One write records all that was desired, and ends the waiting. What was merged in it is removed key by key."""
    status: dict[str, Any] = {}
    for statuses, records in _records(pod).items():
        told = {each.get("name"): each for each in (pod.get("status") or {}).get(statuses) or ()}
        for record in records:
            dropped = set((told.get(record["name"]) or {}).get("allocatedResources") or ()) - set(
                record["allocatedResources"]
            )
            record["allocatedResources"] |= dict.fromkeys(sorted(dropped))
        status[statuses] = records
    if condition_of(pod, PENDING) is not None:
        status["conditions"] = [{"type": PENDING, "$patch": "delete"}]
    return [_patch(pod, status), _event(pod, "Normal", "ResizeStarted", "Pod resize started")]


def _waiting(pod: Object, verdict: Verdict, now: float) -> list[Action]:
    before = condition_of(pod, PENDING)
    condition = {
        "type": PENDING,
        "status": "True",
        "reason": verdict.reason,
        "message": verdict.message,
        "observedGeneration": metadata(pod).get("generation", 0),
    }
    if before is not None and all(before.get(name) == value for name, value in condition.items()):
        return []
    if before is None or before.get("status") != "True":
        condition["lastTransitionTime"] = to_time(now)
    patch = _patch(pod, {"conditions": [condition]})
    if before is not None and before.get("reason") == verdict.reason:
        return [patch]
    return [patch, _event(pod, "Warning", f"Resize{verdict.reason}", verdict.message)]


def _patch(pod: Object, status: Fields) -> Patch:
    fields = {"status": status}
    return Patch(POD, namespace_of(pod), name_of(pod), fields, version_of(pod), "status", strategic=True)


def _event(pod: Object, type: Literal["Normal", "Warning"], reason: str, message: str) -> Event:
    return Event(POD, namespace_of(pod), name_of(pod), uid_of(pod), type, reason, message)


def condition_of(pod: Fields, type: str) -> Fields | None:
    found = (pod.get("status") or {}).get("conditions") or ()
    return next((each for each in found if each.get("type") == type), None)
