"""What one container is to be given, and why: growth at once, shrinking after a quiet while, never beyond bounds."""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from headrace.api.amounts import CPU, MEMORY, Amounts
from headrace.api.objects import Fields, Object, metadata
from headrace.api.times import past, stamp
from headrace.metrics.protocol import Usage, Value
from headrace.objects.validation.resizing import LEAST_MEBIBYTES, LEAST_MILLICORES
from headrace.resize import workload
from headrace.resize.actions_plan import had_before, is_finished, target_of
from headrace.resize.plan import RESIZED
from headrace.resize.policy.signals import Reading, holds, limit_for, readings, shown, shown_threshold
from headrace.resize.policy.spec import RESOURCES_OF, Policy, Threshold, Trigger

MIB = 1024 * 1024
LEAST = {CPU: LEAST_MILLICORES, MEMORY: LEAST_MEBIBYTES * MIB}  # of what an action may ask for; a Pod may have less
MEMORY_MARGIN = 1.2  # a limit stays this far above what is in use
LONGEST_PAUSE_SECONDS = 300.0  # after failures
CHAIN_SECONDS = 600.0  # growths that did not help are held against a metric for so long
SLACK_SECONDS = 3.0

Direction = Literal["up", "down", "oom", "start"]
Flag = Literal[
    "Capped",
    "QuotaReached",
    "NoImprovement",
    "ConflictsWithHPA",
    "ConflictsWithVPA",
    "ChangedByOthers",
    "Insufficient",
    "ScalingFailed",
    "BeyondLimit",
]


@dataclass(frozen=True, slots=True)
class Record:
    """What a policy keeps of a container by its owner: its first limits, the last target and when it was reached."""

    first: Amounts = field(default_factory=dict)
    target: Amounts = field(default_factory=dict)
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Container:
    """`history`: its ResourceScalingActions, oldest first.

    `conflicts`: resources that an HPA judges; `applied`: those that a VPA changes. Both are left alone.
    """

    pod: Object
    name: str
    owner: str
    usage: Sequence[Usage] = ()
    values: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    history: tuple[Object, ...] = ()
    conflicts: frozenset[str] = frozenset()
    applied: frozenset[str] = frozenset()

    @property
    def others(self) -> frozenset[str]:
        """What others decide about."""
        return self.conflicts | self.applied

    def resized_at(self, now: float) -> float:
        """The last resize: what was measured before it says nothing about what is so now."""
        return max((_ended(each, now) for each in self.history[-2:] if is_finished(each)), default=0.0)

    @property
    def key(self) -> str:
        return f"{self.owner}/{self.name}"


@dataclass(frozen=True, slots=True)
class Decision:
    """New limits, and the cause as a ResourceScalingAction records it."""

    direction: Direction
    target: Amounts
    reason: str
    metric: str = ""
    value: float = 0.0
    threshold: float = 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an up threshold is crossed, for the performance event."""

    metric: str
    value: float
    threshold: float
    is_degraded: bool


@dataclass(frozen=True, slots=True)
class Judged:
    decision: Decision | None = None
    flags: frozenset[Flag] = frozenset()
    verdicts: tuple[Verdict, ...] = ()


def judge(container: Container, policy: Policy, record: Record, quota_left: Amounts, now: float) -> Judged:
    """`quota_left`: by how much all that the policy selects may still grow."""
    return _Look(container, policy, record, quota_left, now).judge()


@dataclass(frozen=True, slots=True)
class _Look:
    container: Container
    policy: Policy
    record: Record
    quota_left: Amounts
    now: float

    @property
    def limits(self) -> Amounts:
        return workload.admitted_limits(self.container.pod, self.container.name)

    @property
    def since(self) -> float:
        return self.container.resized_at(self.now)

    def judge(self) -> Judged:
        limits = self.limits
        flags: set[Flag] = set()
        verdicts = tuple(self._verdicts(limits))
        if any(not is_finished(each) for each in self.container.history):
            return Judged(verdicts=verdicts)
        flags.update(self._last_failure())
        decision = self._start(limits, flags) or self._oom(limits, flags) or self._up(limits, flags)
        if decision is None:
            decision = self._down(limits)
        decision = _possible(decision)
        ours = {name for each in self.policy.triggers for name in each.resources}
        if self.container.conflicts & ours:
            flags.add("ConflictsWithHPA")
        if self.container.applied & ours:
            flags.add("ConflictsWithVPA")
        if self._was_changed():
            flags.add("ChangedByOthers")
        if any(each.metric == CPU and self._is_beyond(each.up) for each in self.policy.triggers):
            flags.add("BeyondLimit")
        return Judged(decision, frozenset(flags), verdicts)

    def _is_beyond(self, up: Threshold | None) -> bool:
        """More CPUs than it can ever use: a bare 80 is 80 of them, which was to be 80%."""
        most = self._at_most(CPU, sys.maxsize)
        return up is not None and up.side == "above" and not up.share and CPU in self.limits and up.amount >= most

    def _recent(self, metric: str) -> list[Reading]:
        since = self.since
        usage = [each for each in self.container.usage if each.at > since]
        values = {name: [each for each in series if each.at > since] for name, series in self.container.values.items()}
        return readings(metric, usage, values)

    def _latest(self, trigger: Trigger) -> list[Reading]:
        """As many readings as a trigger looks at: cheap, for it is asked with every sample."""
        count, since = trigger.of + 1, self.since
        usage = [each for each in self.container.usage[-count:] if each.at > since]
        values = [each for each in self.container.values.get(trigger.metric, ())[-count:] if each.at > since]
        return readings(trigger.metric, usage, {trigger.metric: values})

    def _verdicts(self, limits: Amounts) -> list[Verdict]:
        found = []
        for trigger in self.policy.triggers:
            latest = self._latest(trigger)
            if trigger.up is None or not latest:
                continue
            limit = limit_for(trigger.metric, limits)
            degraded = holds(latest, trigger.up, trigger, limit)
            if not degraded and trigger.up.is_crossed(latest[-1].value, limit):
                continue  # not enough readings to say either
            found.append(Verdict(trigger.metric, latest[-1].value, trigger.up.at(limit), degraded))
        return found

    def _last_failure(self) -> Iterator[Flag]:
        """How the last action ended, where it ended badly."""
        last = self.container.history[-1]["status"] if self.container.history else {}
        if last.get("state") == "Failed":
            yield "Insufficient" if str(last.get("reason")).startswith("Insufficient") else "ScalingFailed"

    def _was_changed(self) -> bool:
        """Somebody else has desired other limits since the last action: theirs are taken as they are."""
        last = self.container.history[-1] if self.container.history else {}
        if not last or last["status"].get("state") != "Succeeded":
            return False
        wants = workload.desired_limits(self.container.pod, self.container.name)
        return any(wants.get(name) != amount for name, amount in target_of(last).items())

    # A replaced Pod starts with what its predecessor had

    def _start(self, limits: Amounts, flags: set[Flag]) -> Decision | None:
        created = stamp(metadata(self.container.pod).get("creationTimestamp"))
        # A Pod's creation is told in whole seconds.
        if self.container.history or not self.record.target or created < math.floor(self.record.at):
            return None
        target: dict[str, int] = {}
        for name, amount in self.record.target.items():
            if name in limits and name not in self.container.others:
                bounded = self._within_quota(name, limits[name], self._at_most(name, amount), flags)
                if bounded != limits[name]:
                    target[name] = bounded
        return Decision("start", target, "LastTarget") if target else None

    # Growth

    def _oom(self, limits: Amounts, flags: set[Flag]) -> Decision | None:
        if MEMORY not in limits or MEMORY in self.container.others or not self._was_killed():
            return None
        limit = limits[MEMORY]
        wanted = max(math.ceil(limit * self.policy.oom_factor), limit + self.policy.oom_step_bytes)
        target = self._bounded(MEMORY, limit, wanted, flags)
        if target <= limit:
            return None
        return Decision("oom", {MEMORY: target}, "OutOfMemory", MEMORY, float(limit), float(limit))

    def _was_killed(self) -> bool:
        """For want of memory, since the last resize."""
        since = self.since
        usage = [each for each in self.container.usage if each.at > since]
        if any(after.oom_kills > before.oom_kills for before, after in pairwise(usage)):
            return True
        told = workload.status_of(self.container.pod, self.container.name)
        ends = [(told.get(state) or {}).get("terminated") or {} for state in ("state", "lastState")]
        return any(each.get("reason") == "OOMKilled" and stamp(each.get("finishedAt")) > since for each in ends)

    def _up(self, limits: Amounts, flags: set[Flag]) -> Decision | None:
        cause: tuple[Trigger, Reading] | None = None
        target: dict[str, int] = {}
        for trigger in self.policy.triggers:
            latest = self._latest(trigger)
            if not holds(latest, trigger.up, trigger, limit_for(trigger.metric, limits)):
                continue
            if trigger.metric not in RESOURCES_OF and self._does_not_help(trigger, latest[-1].value):
                flags.add("NoImprovement")
                continue
            for resource in trigger.resources:
                if resource in limits and resource not in self.container.others:
                    wanted = max(math.ceil(limits[resource] * self.policy.up_factor), LEAST[resource])
                    bounded = self._bounded(resource, limits[resource], wanted, flags)
                    if bounded > limits[resource] * (1 + self.policy.tolerance):
                        target[resource] = bounded
                        cause = cause or (trigger, latest[-1])
        if cause is None or self.now < self._may_grow_at():
            return None
        trigger, reading = cause
        assert trigger.up is not None
        edge = trigger.up.at(limit_for(trigger.metric, limits))
        return Decision("up", target, "Degraded", trigger.metric, reading.value, edge)

    def _bounded(self, resource: str, limit: int, wanted: int, flags: set[Flag]) -> int:
        target = self._at_most(resource, wanted)
        if target < wanted and target <= limit:
            flags.add("Capped")
        target = self._within_quota(resource, limit, target, flags)
        return _rounded_down(resource, target) if target > limit else target

    def _within_quota(self, resource: str, limit: int, target: int, flags: set[Flag]) -> int:
        """What of a growth the quota leaves; a shrink is left as it is."""
        left = self.quota_left.get(resource)
        if left is None or target <= limit + max(0, left):
            return target
        flags.add("QuotaReached")
        return max(limit, _rounded_down(resource, limit + max(0, left)))

    def _at_most(self, resource: str, wanted: int) -> int:
        first = self.record.first.get(resource) or self.limits.get(resource, wanted)
        return min(wanted, self.policy.most.get(resource, max(2 * first, LEAST[resource])))

    def _may_grow_at(self) -> float:
        """The cooldown after a growth; after failures twice as long each time."""
        wait, failures = 0.0, 0
        for action in reversed(self.container.history):
            at = _ended(action, self.now)
            if action["status"].get("state") == "Failed":
                failures += 1
                continue
            if failures == 0 and _grew(action):
                wait = at + self.policy.up_cooldown_seconds
            break
        if failures:
            last = _ended(self.container.history[-1], self.now)
            pause = max(1.0, self.policy.up_cooldown_seconds) * 2 ** min(failures, 16)
            wait = last + min(LONGEST_PAUSE_SECONDS, pause)
        return wait

    def _does_not_help(self, trigger: Trigger, value: float) -> bool:
        """The latest growths were all for this metric, and it is no better than before them."""
        count = self.policy.stop_after_ups
        chain = self.container.history[-count:] if count else ()
        if not count or len(chain) < count or self.now - self.since > CHAIN_SECONDS:
            return False
        causes = [each["spec"].get("cause") or {} for each in chain]
        if any(
            cause.get("metric") != trigger.metric or not _grew(each) for cause, each in zip(causes, chain, strict=True)
        ):
            return False
        before = float(causes[0].get("value") or 0.0)
        assert trigger.up is not None
        if trigger.up.side == "above":
            return value > before * (1 - self.policy.tolerance)
        return value < before * (1 + self.policy.tolerance)

    # Shrinking

    def _down(self, limits: Amounts) -> Decision | None:
        since = self.since
        usage = [each for each in self.container.usage if each.at > since]
        window = self.policy.stabilization_seconds
        quiet_since = max(since, self._last_shrink() + self.policy.down_cooldown_seconds - window)
        if not usage or usage[0].at > self.now - window + SLACK_SECONDS or self.now - quiet_since < window:
            return None
        target: dict[str, int] = {}
        cause: tuple[Trigger, Reading] | None = None
        for resource in RESIZED:
            if resource not in limits or resource in self.container.others:
                continue
            triggers = [each for each in self.policy.triggers if resource in each.resources and each.down is not None]
            if not triggers or not all(self._is_idle(each, limits) for each in triggers):
                continue
            least = max(self._least(resource), self._in_use(resource), LEAST[resource])
            wanted = max(math.floor(limits[resource] * self.policy.down_factor), least)
            if wanted < limits[resource] * (1 - self.policy.tolerance):
                target[resource] = _rounded_up(resource, wanted)
                cause = cause or (triggers[0], self._latest(triggers[0])[-1])
        if cause is None:
            return None
        trigger, reading = cause
        assert trigger.down is not None
        edge = trigger.down.at(limit_for(trigger.metric, limits))
        return Decision("down", target, "Idle", trigger.metric, reading.value, edge)

    def _is_idle(self, trigger: Trigger, limits: Amounts) -> bool:
        latest, limit = self._latest(trigger), limit_for(trigger.metric, limits)
        return holds(latest, trigger.down, trigger, limit) and not holds(latest, trigger.up, trigger, limit)

    def _least(self, resource: str) -> int:
        return self.policy.least.get(resource) or self.record.first.get(resource) or self.limits.get(resource, 0)

    def _in_use(self, resource: str) -> int:
        """What the peak of the window needs, so that the smaller limit is not outgrown at once."""
        recent = [each for each in self._recent(resource) if each.at >= self.now - self.policy.stabilization_seconds]
        peak = max((each.value for each in recent), default=0.0)
        margin = 1 / self.policy.share_of(resource)
        return math.ceil(peak * (max(margin, MEMORY_MARGIN) if resource == MEMORY else margin))

    def _last_shrink(self) -> float:
        ends = [
            _ended(each, self.now)
            for each in self.container.history
            if each["status"].get("state") == "Succeeded" and not _grew(each)
        ]
        return max(ends, default=0.0)


def _ended(action: Fields, now: float) -> float:
    text = action["status"].get("finishTime")
    return past(str(text), now) if text else 0.0


def _grew(action: Fields) -> bool:
    """What nobody knows to have been less before did not grow."""
    had = had_before(action)
    return any(name in had and amount > had[name] for name, amount in target_of(action).items())


def _possible(decision: Decision | None) -> Decision | None:
    """Without what no action may ask for, which would be refused again and again."""
    if decision is None:
        return None
    target = {name: amount for name, amount in decision.target.items() if amount >= LEAST.get(name, 0)}
    return replace(decision, target=target) if target else None


def _rounded_down(resource: str, amount: int) -> int:
    return amount // MIB * MIB if resource == MEMORY and amount >= MIB else amount


def _rounded_up(resource: str, amount: int) -> int:
    return -(-amount // MIB) * MIB if resource == MEMORY else amount


def words(decision: Decision) -> str:
    """`up to cpu 4, memory 2Gi: latency 450 above 300`."""
    if decision.reason == "LastTarget":
        return f"to {workload.words(decision.target)}: what its predecessor had"
    if decision.direction == "oom":
        return f"up to {workload.words(decision.target)}: killed for want of memory"
    side = "below" if decision.value < decision.threshold else "above"
    value, threshold, unit = decision.value, decision.threshold, {CPU: "m", MEMORY: "Mi"}.get(decision.metric, "")
    if decision.metric == MEMORY:
        value, threshold = round(value / MIB, 1), round(threshold / MIB, 1)
    why = f"{decision.metric} {shown(value)}{unit} {side} {shown_threshold(threshold)}{unit}"
    return f"{decision.direction} to {workload.words(decision.target)}: {why}"
