"""Law 8 of a policy's quota: at no growth do all limits that it selects exceed it, as far as it could know of them.

What others did in the last minutes may not have reached it: of each container the least counts that was so meanwhile.
So the law never blames a policy that had heard of nothing newer, and holds it to all that is older.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.api.objects import Object
from headrace.store.rows import Key, Write
from tests.simulation.harness.model import amount

KNOWN_SECONDS = 120.0  # a watch that is slow several times in a row, and a request that is late
Since = list[tuple[float, int]]
"""Millicores of cpu, and since when it is so many."""


@dataclass(slots=True)
class Selected:
    """A container that policies may select: those with this label, while its Pod is bound and goes on."""

    color: str
    limits: Since = field(default_factory=list)
    asked: dict[str, tuple[float, int]] = field(default_factory=dict)  # by action that has not ended

    def at_least(self, since: float) -> int:
        before = [limit for at, limit in self.limits if at <= since][-1:]
        least = min(before + [limit for at, limit in self.limits if at > since]) if before else 0
        return max([least, *(wants for at, wants in self.asked.values() if at <= since)]) if before else 0


@dataclass(slots=True)
class QuotaLaw:
    """`now` is monotonic. `deaf`: from when until when the controllers were cut off."""

    broken: Callable[[str], None]
    now: Callable[[], float]
    containers: dict[str, Selected] = field(default_factory=dict)
    deaf: list[tuple[float, float]] = field(default_factory=list)

    def cut_off(self, seconds: float) -> None:
        self.deaf.append((self.now(), self.now() + seconds))

    def healed(self) -> None:
        self.deaf = [(began, min(until, self.now())) for began, until in self.deaf]

    def _known(self) -> float:
        """Of all that is older, every decision of now has heard."""
        known = self.now() - KNOWN_SECONDS
        for began, until in sorted(self.deaf, reverse=True):
            if until > known:
                known = min(known, began - KNOWN_SECONDS)
        return known

    def pod_committed(self, write: Write) -> None:
        key, pod = write.key, write.object if write.body is not None else None
        prefix = f"{key.namespace}/{key.name}/"
        if pod is None or not _counts(pod):
            for name in [name for name in self.containers if name.startswith(prefix)]:
                del self.containers[name]
            return
        color = (pod["metadata"].get("labels") or {}).get("color", "")
        for container in pod["spec"]["containers"]:
            name = prefix + container["name"]
            found = self.containers.get(name)
            if found is None or found.color != color:
                found = self.containers[name] = Selected(color)
            limit = amount("cpu", ((container.get("resources") or {}).get("limits") or {}).get("cpu", "0"))
            if not found.limits or found.limits[-1][1] != limit:
                found.limits.append((self.now(), limit))

    def action_committed(self, key: Key, workload: str, action: Object | None, *, ended: bool) -> None:
        found = self.containers.get(workload)
        if found is None:
            return
        if action is None or ended:
            found.asked.pop(key.name, None)
        elif key.name not in found.asked:
            found.asked[key.name] = (self.now(), amount("cpu", action["spec"]["target"].get("cpu", "0")))

    def growth(self, workload: str, wants: int, color: str, quota: int) -> None:
        known = self._known()
        others = {
            name: each.at_least(known)
            for name, each in self.containers.items()
            if name != workload and name.startswith("default/") and each.color == color
        }
        if wants + sum(others.values()) > quota:
            self.broken(f"law 8: {workload} is to have {wants}m of cpu beside {_some(others)}, of a quota of {quota}m")


def _counts(pod: Object) -> bool:
    """Whether policies select it, where its labels are right."""
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return bool(pod["spec"].get("nodeName")) and not ended and "deletionTimestamp" not in pod["metadata"]


def _some(amounts: dict[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}
