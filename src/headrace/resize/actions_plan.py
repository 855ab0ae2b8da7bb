"""Pure decisions of the ActionController: what becomes of the ResourceScalingActions of one node.

One in flight per workload; the others of the node wait for nobody but the ledger, which a deferred one does not touch.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from headrace.api.amounts import CPU, MEMORY, PODS, Amounts, larger, read, written
from headrace.api.kinds import POD, RESOURCE_SCALING_ACTION
from headrace.api.objects import Fields, Object, metadata, name_of, namespace_of, uid_of, version_of
from headrace.api.times import past, to_micro_time, to_time
from headrace.ledger.node import Ledger, Shortfall
from headrace.ledger.pods import contribution
from headrace.resize import workload
from headrace.resize.plan import INFEASIBLE, PAGE_BYTES, RESIZED
from headrace.resize.sync import STATES, State
from headrace.resize.unchangeable import infeasible
from headrace.resize.workload import Judged, judge
from headrace.runtime.actions import RESIZE, Action, Again, Delete, Event, Patch

KEPT = 20  # finished actions of one workload that stay as its history
BRIEF_SECONDS = 1.0  # what an action passes through in less time after its start is not written down
PATIENCE_SECONDS = 5.0  # how long a Pod may be unknown to us that an action names
RESTORING: Final = frozenset(
    {workload.RUNTIME_FAILURE, workload.MEMORY_IN_USE, "InsufficientCPU", "InsufficientMemory", INFEASIBLE}
)
"""After these the workload wants again what it had; after the others what is admitted is applied when it can be."""


@dataclass(frozen=True, slots=True)
class Seen:
    """`node` is None for actions whose Pod is on none. `actions`: all of the node's, also finished ones.

    `most`: what no limit may grow beyond where only requests are charged. `unfit`: actions by name that are not carried
    out, and why.
    """

    node: Object | None
    ledger: Ledger
    pods: Mapping[str, Object]
    actions: tuple[Object, ...]
    most: Amounts = field(default_factory=dict)
    unfit: Mapping[str, str] = field(default_factory=dict)


def state_of(action: Fields) -> State:
    found: State = (action.get("status") or {}).get("state") or "Pending"
    return found


def is_finished(action: Fields) -> bool:
    return state_of(action) in ("Succeeded", "Failed")


def target_of(action: Fields) -> Amounts:
    """What is wanted, clamped to what there was."""
    return read((action.get("status") or {}).get("target") or action["spec"]["target"])


def had_before(action: Fields) -> Amounts:
    """What the workload had before: as the action says, and where it does not, as was seen when it began."""
    return {**read((action.get("status") or {}).get("before")), **read(action["spec"].get("current"))}


def pod_key(action: Fields) -> str:
    return f"{namespace_of(action)}/{str(action['spec']['workload']).partition('/')[0]}"


def container_name(action: Fields) -> str:
    return str(action["spec"]["workload"]).partition("/")[2]


def in_order(actions: Iterable[Object]) -> list[Object]:
    """Who is asked first: what runs already, then the higher priority, then the older."""
    return sorted(
        actions,
        key=lambda each: (
            state_of(each) != "Running",
            -int(each["spec"].get("priority") or 0),
            str(metadata(each).get("creationTimestamp")),
            name_of(each),
        ),
    )


def plan(seen: Seen, now: float) -> tuple[Action, ...]:
    actions: list[Action] = []
    busy: set[tuple[str, str]] = set()
    ledger = seen.ledger
    for action in in_order(each for each in seen.actions if not is_finished(each)):
        place = (pod_key(action), container_name(action))
        if place in busy:
            continue
        busy.add(place)
        found, ledger = _Look(seen, action, now).decide(ledger)
        actions += found
        if _is_deferred(action, found):
            busy.discard(place)  # a later one may want less
    for history in _histories(seen.actions).values():
        newest = history[-1]
        if (pod_key(newest), container_name(newest)) not in busy and state_of(newest) == "Failed":
            actions += _Look(seen, newest, now).recovered()
        actions += [_delete(each) for each in history[:-KEPT]]
    return tuple(actions)


def _is_deferred(action: Object, found: Iterable[Action]) -> bool:
    """After what was just decided: one that waited till now and starts is in flight from here on."""
    status = action.get("status") or {}
    for each in found:
        if isinstance(each, Patch) and each.kind == RESOURCE_SCALING_ACTION:
            status = each.fields["status"]
    return status.get("state") == "Pending" and status.get("reason") == "Deferred"


def refused(seen: Seen, patch: Patch, words: str, now: float) -> tuple[Action, ...]:
    """The API server refused a change of desired resources: that ends the action which asked for it, in its words."""
    names = {str(each["name"]) for given in (patch.fields.get("spec") or {}).values() for each in given}
    for action in in_order(each for each in seen.actions if not is_finished(each)):
        if pod_key(action) == f"{patch.namespace}/{patch.name}" and container_name(action) in names:
            short = _short_of(words)
            return tuple(_Look(seen, action, now)._failed(short or "ResourceValidationFailed", words))
    return ()


def _histories(actions: Iterable[Object]) -> dict[str, list[Object]]:
    """Finished ones by workload, oldest first."""
    found: dict[str, list[Object]] = {}
    for each in actions:
        if is_finished(each):
            found.setdefault(f"{namespace_of(each)}/{each['spec']['workload']}", []).append(each)
    for history in found.values():
        history.sort(key=ending)
    return found


def ending(action: Fields) -> tuple[bool, int, str]:
    """The order in which actions ended; what has not comes last. By the last write, since a clock may be set back."""
    version = version_of(action)
    return not is_finished(action), int(version) if version.isdigit() else 0, name_of(action)


@dataclass(frozen=True, slots=True)
class _Look:
    """One action with what it is about."""

    seen: Seen
    action: Object
    now: float

    @property
    def pod(self) -> Object | None:
        return self.seen.pods.get(pod_key(self.action))

    @property
    def name(self) -> str:
        return container_name(self.action)

    @property
    def status(self) -> Fields:
        return self.action.get("status") or {}

    def decide(self, ledger: Ledger) -> tuple[list[Action], Ledger]:
        pod = self.pod
        if name_of(self.action) in self.seen.unfit:
            return self._failed("ResourceValidationFailed", self.seen.unfit[name_of(self.action)]), ledger
        if pod is None or workload.container_of(pod, self.name) is None:
            return self._nothing_there(pod), ledger
        if workload.is_leaving(pod):
            return self._failed("NotRunning", f"{self._workload()} has ended or is being deleted"), ledger
        if workload.is_over(pod, self.name):
            return self._failed("NotRunning", f"{self._workload()} has ended and is not started again"), ledger
        if state_of(self.action) == "Pending":
            runtime = workload.runtime_of(self.seen.node).partition("://")[0]
            if why := infeasible(self.action["spec"]["target"], runtime):
                return self._failed(INFEASIBLE, why), ledger
            return self._start(pod, ledger)
        return self._follow(pod), ledger

    def recovered(self) -> list[Action]:
        """An action that failed for want of an agent begins again when the agent is back and has done its part."""
        if self.status.get("reason") != workload.AGENT_UNAVAILABLE or not workload.is_ready(self.seen.node):
            return []
        return self._moved(
            "cause gone", "PENDING", "CauseGone", "the node's agent is back", failingSince=None, attempts=0
        )

    # Pending

    def _start(self, pod: Object, ledger: Ledger) -> tuple[list[Action], Ledger]:
        target = read(self.action["spec"]["target"])
        judged = judge(pod, self.name, self.seen.node)
        wants = workload.desired_limits(pod, self.name)
        if all(wants.get(name) == amount for name, amount in target.items()):
            if judged.sync == "SYNCHRONIZED":
                return self._succeeded(pod, "nothing to do", "NotRequired"), ledger
            return self._started(pod, judged, {}), ledger
        after = self._wish(pod, target)
        if workload.changes_qos(pod, after):
            return self._failed(
                "ResourceValidationFailed", f"{workload.words(target)} would change the QoS class"
            ), ledger
        answer = self._admit(after, ledger)
        clamped: Fields = {}
        if isinstance(answer, Shortfall) and self._on_insufficient() == "Clamp":
            target = self._clamped(pod, target, answer, ledger)
            after = self._wish(pod, target)
            retried = self._admit(after, ledger)
            if isinstance(retried, Ledger) and self._grows(pod, target):
                answer, clamped = retried, _amounts(target)
        if isinstance(answer, Shortfall):
            if self._on_insufficient() == "Defer":
                return self._moved(None, "PENDING", "Deferred", str(answer)), ledger
            return self._failed(*_insufficient(answer)), ledger
        resources = (workload.container_of(after, self.name) or {})["resources"]
        return [self._resize(pod, resources), *self._started(pod, judged, clamped)], answer

    def _started(self, pod: Object, judged: Judged, clamped: Fields) -> list[Action]:
        more: dict[str, Any] = {"startTime": to_time(self.now), "failingSince": None, "attempts": 0}
        if clamped:
            more["target"] = clamped
        known = had_before(self.action)
        if not self.status.get("before") and any(name not in known for name in self.action["spec"]["target"]):
            more["before"] = _amounts(workload.admitted_limits(pod, self.name))
        return self._moved("started", "PENDING", "Started", "the desired state is recorded", **more)

    def _wish(self, pod: Object, target: Amounts) -> Object:
        return workload.with_resources(pod, self.name, workload.resized(pod, self.name, target))

    def _admit(self, after: Object, ledger: Ledger) -> Ledger | Shortfall:
        """The guard's own question, asked of the caches: a dry run."""
        pod = self.pod
        assert pod is not None
        wish = contribution(workload.as_admitted(after, self.name))
        holds = wish.wish(contribution(pod))
        answer = ledger.admit(wish.holder, {name: amount for name, amount in holds.items() if name != PODS})
        return self._within(after, answer)

    def _within(self, after: Object, answer: Ledger | Shortfall) -> Ledger | Shortfall:
        """No limit grows beyond what the node has to give at all, even where that is not what is charged."""
        pod, most = self.pod, self.seen.most
        assert pod is not None
        had, limits = workload.admitted_limits(pod, self.name), workload.desired_limits(after, self.name)
        over = {
            name: limits[name] - most[name]
            for name in limits
            if name in most and limits[name] > max(most[name], had.get(name, 0))
        }
        if not over:
            return answer
        if isinstance(answer, Shortfall):
            return replace(answer, missing=larger(answer.missing, over))
        node = self.seen.ledger.node
        told = (f"insufficient {name}: {written(name, limits[name])} of {written(name, most[name])}" for name in over)
        return Shortfall(over, node, words=f"node {node}: {'; '.join(told)} allocatable")

    def _clamped(self, pod: Object, target: Amounts, short: Shortfall, ledger: Ledger) -> Amounts:
        """What is missing is taken off the target, down to what it has."""
        has = workload.admitted_limits(pod, self.name)
        found = {}
        for name, amount in target.items():
            least = min(amount, has.get(name, amount))
            left = amount - short.missing.get(name, 0)
            if name == MEMORY and left < amount:
                left = left // PAGE_BYTES * PAGE_BYTES  # what is read back is whole pages
            found[name] = max(least, left)
        return found

    def _grows(self, pod: Object, target: Amounts) -> bool:
        has = workload.admitted_limits(pod, self.name)
        return any(amount > has.get(name, 0) for name, amount in target.items())

    # Running

    def _follow(self, pod: Object) -> list[Action]:
        target, wants = target_of(self.action), workload.desired_limits(pod, self.name)
        if any(wants.get(name) != amount for name, amount in target.items()):
            return self._failed(
                "Superseded", f"{self._workload()} was given other desired resources: {workload.words(wants)}"
            )
        judged = judge(pod, self.name, self.seen.node)
        match judged.sync:
            case "SYNCHRONIZED":
                return self._succeeded(pod, "synchronized", "Synchronized")
            case "PENDING" if judged.reason in ("Deferred", INFEASIBLE):
                return self._refused(pod, judged)
            case "FAILED" | "DRIFT_DETECTED":
                return self._failing(pod, judged)
            case _:
                left = BRIEF_SECONDS - (self.now - past(str(self.status.get("startTime")), self.now))
                if left > 0 and self.status.get("reason") == "Started":
                    return [Again(left)]
                return self._moved(None, judged.sync, judged.reason or judged.sync.capitalize(), judged.message)

    def _refused(self, pod: Object, judged: Judged) -> list[Action]:
        """The guard or the kubelet, which know more than the caches, refused what they had room for."""
        short = _short_of(judged.message)
        # Without a shortage: a shrink that waits for the agent's word.
        if judged.reason != INFEASIBLE and (short is None or self._on_insufficient() == "Defer"):
            return self._moved(None, "PENDING", judged.reason, judged.message)
        return [*self._restore(pod), *self._failed(short or INFEASIBLE, judged.message)]

    def _failing(self, pod: Object, judged: Judged) -> list[Action]:
        """Tried again (by the agent, which never stops) for a while; then it is told."""
        retry = self.action["spec"].get("retry") or {}
        count, seconds = int(retry.get("count", 3)), float(retry.get("seconds", 5))
        since = self.status.get("failingSince")
        started = (past(str(since), self.now) if since else 0.0) or self.now  # a stamp that lies ahead: begin again
        elapsed, attempts, pause = self.now - started, 0, seconds
        while attempts < count and elapsed >= pause:
            elapsed, attempts, pause = elapsed - pause, attempts + 1, pause * 2
        if attempts < count:
            more = {"failingSince": to_time(started), "attempts": attempts}
            told = workload.begun(judged.reason, judged.message, self.seen.node)
            moved = self._moved(None, judged.sync, judged.reason, told, **more)
            return [*moved, Again(pause - elapsed)]
        restore = self._restore(pod) if judged.reason in RESTORING else []
        return [*restore, *self._failed(judged.reason, judged.message, judged.sync, attempts=attempts)]

    def _restore(self, pod: Object) -> list[Action]:
        """The workload wants again what it had before."""
        had = had_before(self.action)
        back = {name: had[name] for name in target_of(self.action) if name in had}
        if not back:
            return []
        return [self._resize(pod, workload.resized(pod, self.name, back))]

    # What is written

    def _nothing_there(self, pod: Object | None) -> list[Action]:
        age = self.now - past(str(metadata(self.action).get("creationTimestamp")), self.now)
        if pod is None and age < PATIENCE_SECONDS:
            return [Again(PATIENCE_SECONDS - age)]
        return self._failed("NotFound", f"workload {self._workload()}: no such Pod or container")

    def _resize(self, pod: Object, resources: Fields) -> Patch:
        fields = {"spec": {workload.field_of(pod, self.name): [{"name": self.name, "resources": dict(resources)}]}}
        return Patch(POD, namespace_of(pod), name_of(pod), fields, version_of(pod), RESIZE, strategic=True)

    def _succeeded(self, pod: Object, why: str, reason: str) -> list[Action]:
        actual = workload.actual_limits(pod, self.name) or {}
        more = {"actual": _amounts(actual), "finishTime": to_micro_time(self.now), "failingSince": None}
        message = f"{workload.words(actual)} was read back"
        if self.status.get("target"):
            message += f"; clamped from {workload.words(read(self.action['spec']['target']))}"
        return [
            *self._moved(why, "SYNCHRONIZED", reason, message, **more),
            self._event("Normal", "ScalingSucceeded", f"{self._workload()}: {message}"),
        ]

    def _failed(self, reason: str, message: str, sync: str = "FAILED", **more: Any) -> list[Action]:
        told = workload.begun(reason, message, self.seen.node)
        pod = self.pod
        if pod is not None and (actual := workload.actual_limits(pod, self.name)):
            more["actual"] = _amounts(actual)
        why = "rejected" if state_of(self.action) == "Pending" else "failed"
        moved = self._moved(why, sync, reason, told, finishTime=to_micro_time(self.now), **more)
        return [*moved, self._event("Warning", "ScalingFailed", f"{self._workload()}: {told}")]

    def _moved(self, why: str | None, sync: str, reason: str, message: str, **more: Any) -> list[Action]:
        """At most one patch: nothing if all of that is told already. `why` names the arrow, None stays."""
        before = state_of(self.action)
        after = STATES[before, why] if why is not None else before
        status: dict[str, Any] = {"state": after, "syncState": sync, "reason": reason, "message": message, **more}
        status["observedGeneration"] = metadata(self.action).get("generation", 0)
        if all(self.status.get(name) == value for name, value in status.items()):
            return []
        done = after in ("Succeeded", "Failed")
        condition = {
            "type": "Complete",
            "status": "True" if after == "Succeeded" else "False",
            "reason": reason if done else after,
            "message": message,
            "observedGeneration": status["observedGeneration"],
            "lastTransitionTime": to_time(self.now),
        }
        status["conditions"] = [condition]
        action = self.action
        fields = {"status": status}
        return [
            Patch(RESOURCE_SCALING_ACTION, namespace_of(action), name_of(action), fields, version_of(action), "status")
        ]

    def _event(self, type: Any, reason: str, message: str) -> Event:
        action = self.action
        return Event(
            RESOURCE_SCALING_ACTION, namespace_of(action), name_of(action), uid_of(action), type, reason, message
        )

    def _workload(self) -> str:
        return f"{pod_key(self.action)}/{self.name}"

    def _on_insufficient(self) -> str:
        return str(self.action["spec"].get("onInsufficient") or "Reject")


def _insufficient(short: Shortfall) -> tuple[str, str]:
    """Memory is named first where both are short: it is what kills."""
    return ("InsufficientMemory" if MEMORY in short.missing else "InsufficientCPU"), str(short)


def _short_of(words: str) -> str | None:
    """The reason, where these words of the ledger, a kubelet or an API server tell of a shortage."""
    for name, reason in ((MEMORY, "InsufficientMemory"), (CPU, "InsufficientCPU")):
        if f"insufficient {name}" in words or ("have enough" in words and f"{name}, requested" in words):
            return reason
    return None


def _amounts(amounts: Amounts) -> dict[str, str]:
    return {name: written(name, amounts[name]) for name in RESIZED if name in amounts}


def _delete(action: Object) -> Delete:
    return Delete(RESOURCE_SCALING_ACTION, namespace_of(action), name_of(action))
