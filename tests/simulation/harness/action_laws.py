"""Laws of actions and policies: one in flight a workload, never beyond a policy's bounds, never within a cooldown."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from headrace.api.kinds import RESIZE_POLICY, RESOURCE_SCALING_ACTION
from headrace.api.objects import Object
from headrace.api.times import from_time
from headrace.resize.plan import admitted, desired
from headrace.store.rows import Key, Write
from tests.simulation.harness.containers import Machine
from tests.simulation.harness.model import amount
from tests.simulation.harness.quota_law import QuotaLaw

BY_POLICY = "headrace.dev/policy"
ENDED = ("Succeeded", "Failed")
SLACK_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class Ended:
    """The last action of a workload, if it was a growth: when it ended, by a wall clock that was set `jumps` times."""

    at: float
    jumps: int


@dataclass(slots=True)
class ActionLaws:
    """`wall` is the clock of all, `jumps` how often it was set."""

    broken: Callable[[str], None]
    wall: Callable[[], float]
    last: Mapping[Key, Object]
    jumps: int = 0
    policies: dict[str, Object] = field(default_factory=dict)
    running: dict[str, set[str]] = field(default_factory=dict)
    grown: dict[str, Ended] = field(default_factory=dict)
    by_policies: int = 0
    quota: QuotaLaw = field(init=False)

    def __post_init__(self) -> None:
        self.quota = QuotaLaw(self.broken, lambda: asyncio.get_running_loop().time())

    def policy_committed(self, write: Write) -> None:
        if write.body is not None:
            self.policies[write.key.name] = write.object

    def action_committed(self, write: Write, before: Object | None) -> None:
        action, name = write.object, write.key.name
        workload = f"{write.key.namespace}/{action['spec']['workload']}"
        running = self.running.setdefault(workload, set())
        running.discard(name)
        if write.body is None:
            self.quota.action_committed(write.key, workload, None, ended=True)
            return
        status = action.get("status") or {}
        if status.get("state") == "Running":
            running.add(name)
            if len(running) > 1:
                self.broken(f"one in flight a workload: {workload} has {sorted(running)} running at once")
        had = (before or {}).get("status") or {}
        if status.get("state") in ENDED and had.get("state") not in ENDED:
            self.grown.pop(workload, None)
            if status["state"] == "Succeeded" and self._grows(action):
                self.grown[workload] = Ended(from_time(str(status["finishTime"])), self.jumps)
        policy = self.policies.get((action["metadata"].get("labels") or {}).get(BY_POLICY, ""))
        if before is None and policy is not None:
            self.by_policies += 1
            self._is_within_bounds(workload, action, policy["spec"])
            self._is_not_too_early(workload, action, policy["spec"])
        self.quota.action_committed(write.key, workload, action, ended=status.get("state") in ENDED)

    @staticmethod
    def _grows(action: Object) -> bool:
        had, target = action["spec"].get("current") or {}, action["spec"]["target"]
        return any(amount(name, text) > amount(name, had.get(name, "0")) for name, text in target.items())

    def _is_within_bounds(self, workload: str, action: Object, policy: Object) -> None:
        had = action["spec"].get("current") or {}
        for name, text in action["spec"]["target"].items():
            wanted, has = amount(name, text), amount(name, had.get(name, "0"))
            most, least = amount(name, policy["max"][name]), amount(name, policy["min"][name])
            if wanted > most and wanted > has:
                self.broken(f"law 8: {workload} is to grow to {text} of {name}, beyond its policy's {policy['max']}")
            if wanted < least and wanted < has:
                self.broken(f"law 8: {workload} is to shrink to {text} of {name}, below its policy's {policy['min']}")
        quota, wants = (policy.get("quota") or {}).get("cpu"), action["spec"]["target"].get("cpu")
        if quota and wants and self._grows(action):
            color = policy["selector"]["matchLabels"]["color"]
            self.quota.growth(workload, amount("cpu", wants), color, amount("cpu", quota))

    def _is_not_too_early(self, workload: str, action: Object, policy: Object) -> None:
        ended = self.grown.get(workload)
        if ended is None or ended.jumps != self.jumps or not self._grows(action):
            return
        if (action["spec"].get("cause") or {}).get("reason") != "Degraded":
            return
        pause, cooldown = self.wall() - ended.at, policy["cooldownSeconds"]["up"]
        if pause < cooldown - SLACK_SECONDS:
            self.broken(f"cooldown: {workload} is to grow again after {pause:.3f} s, and not before {cooldown} s")

    # When all is quiet

    def starved(self, machines: Mapping[str, Machine], room: Mapping[str, tuple[int, int]]) -> Iterator[str]:
        """Law 6 of policies: nobody still needs more than its limit where its policy and its node have more to give.

        Not so a Pod that waits for a wish: it is admitted as a whole (`unsettled` asks why it waits).
        """
        policies = [obj for key, obj in self.last.items() if key.resource == RESIZE_POLICY.resource]
        for key, pod in self.last.items():
            if key.resource != "pods" or key.namespace != "default":
                continue
            color = (pod["metadata"].get("labels") or {}).get("color")
            mine = [each["spec"] for each in policies if each["spec"]["selector"]["matchLabels"]["color"] == color]
            node = pod["spec"].get("nodeName")
            if len(mine) != 1 or mine[0]["mode"] != "Auto" or "quota" in mine[0] or node not in room:
                continue
            if desired(pod) != admitted(pod):
                continue
            for container in machines[node].running():
                if container.spec.pod_uid != pod["metadata"]["uid"] or container.limits.cpu_milli is None:
                    continue
                limit = container.limits.cpu_milli
                more = min(2 * limit, amount("cpu", mine[0]["max"]["cpu"])) - limit
                fits = 0.1 * limit < more <= room[node][0]
                if (
                    container.demand_milli > 0.85 * limit
                    and fits
                    and not self._is_waiting(key, container.spec.container)
                ):
                    yield (
                        f"law 6: {key.name} {container.spec.container} needs {container.demand_milli}m of its {limit}m "
                        f"of cpu, its policy allows {more}m more and {node} has {room[node][0]}m"
                    )

    def is_asking(self, key: Key) -> bool:
        """Whether this is written because a policy's growth found no room: it is asked for again, ever more seldom."""
        asking = {
            f"{other.namespace}/{obj['spec']['workload'].partition('/')[0]}"
            for other, obj in self.last.items()
            if other.resource == RESOURCE_SCALING_ACTION.resource
            and BY_POLICY in (obj["metadata"].get("labels") or {})
            and str((obj.get("status") or {}).get("reason")).startswith("Insufficient")
        }
        if key.resource == RESOURCE_SCALING_ACTION.resource:
            return f"{key.namespace}/{self.last[key]['spec']['workload'].partition('/')[0]}" in asking
        if key.resource == RESIZE_POLICY.resource:
            return bool(asking)
        return key.resource == "pods" and f"{key.namespace}/{key.name}" in asking

    def _is_waiting(self, key: Key, container: str) -> bool:
        """For an action that has not ended (deferred), or after one that failed."""
        found = [
            (str((obj.get("status") or {}).get("finishTime") or "9"), (obj.get("status") or {}).get("state"))
            for other, obj in self.last.items()
            if other.resource == RESOURCE_SCALING_ACTION.resource
            and other.namespace == key.namespace
            and obj["spec"]["workload"] == f"{key.name}/{container}"
        ]
        return bool(found) and max(found)[1] != "Succeeded"
