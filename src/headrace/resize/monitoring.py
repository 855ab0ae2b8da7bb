"""The MonitoringServer: takes samples of agents and metrics of applications in, and tells of degraded performance.

It judges nothing about resources. An agent is believed about the Pods that are bound to its node, and about no other.
"""

import asyncio
import json
import math
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter

from headrace.api.kinds import POD
from headrace.api.objects import Object, key_of, uid_of
from headrace.api.times import to_time
from headrace.metrics.memory import MemoryMetrics
from headrace.metrics.protocol import Usage
from headrace.resize.plan import RESIZED
from headrace.resize.policy.signals import shown, shown_threshold
from headrace.resize.workload import FIELDS, container_of
from headrace.runtime.cache import Informer, Informers

if TYPE_CHECKING:
    from headrace.wire.generated import agents_pb2 as wire

EVENTS_KEPT = 1000
NAMES = 32  # metrics of one application
NAME_CHARACTERS = 256
LARGEST = sys.float_info.max
WATCHER_BACKLOG = 256


class BadMetrics(ValueError):
    """What an application sent cannot be taken; the message says what would be right."""


class Monitoring:
    """One for a server. Before `attach` nothing is taken: nobody is known to run anywhere."""

    def __init__(self, metrics: MemoryMetrics, wall: Callable[[], float]) -> None:
        self.metrics = metrics
        self._outages: dict[str, str] = {}
        self._wall = wall
        self._pods: Informer | None = None
        self._drift_counter: Counter | None = None
        self._drifts: dict[str, int] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._degraded: dict[tuple[str, str], str] = {}
        self._events: deque[dict[str, Any]] = deque(maxlen=EVENTS_KEPT)
        self._watchers: set[asyncio.Queue[dict[str, Any]]] = set()

    def attach(self, informers: Informers, registry: CollectorRegistry) -> None:
        self._drift_counter = Counter(
            "headrace_resource_drifts_total",
            "Changes of limits by others that agents found and put right",
            ("node",),
            registry=registry,
        )
        self._pods = informers.of(POD)
        self._pods.subscribe(self._pod_changed)

    def listen(self, heard: Callable[[str], None]) -> None:
        """`heard` is told of each workload with new numbers; it must not wait."""
        self._listeners.append(heard)

    # In

    def samples(self, node: str, samples: "wire.Samples") -> None:
        """From the agent of a node."""
        self._count_drifts(node, samples.drifts)
        taken = [each for each in samples.samples if self._runs_on(each.workload, node) and _is_sane(each)]
        for sample in taken:
            self.metrics.record(sample.workload, _usage(sample))
        for sample in taken:
            self._tell(sample.workload)

    def _count_drifts(self, node: str, drifts: int) -> None:
        """Agents count from their own start."""
        before = self._drifts.get(node, 0)
        self._drifts[node] = drifts
        if self._drift_counter is not None:
            self._drift_counter.labels(node).inc(drifts - before if drifts >= before else drifts)

    def report(self, workload: str, metrics: Mapping[str, Any]) -> None:
        """From an application. Raises BadMetrics."""
        pod_name, _, container = workload.rpartition("/")
        pod = self._pods.get(pod_name) if self._pods is not None else None
        if pod is None:
            raise BadMetrics(f"workload {workload!r}: no such Pod; it is named namespace/pod/container")
        if container_of(pod, container) is None:
            raise BadMetrics(f"workload {workload!r}: the Pod has no such container")
        if not metrics or len(metrics) > NAMES:
            raise BadMetrics(f"metrics: must be 1 to {NAMES} numbers by name, not {len(metrics)}")
        for name, value in metrics.items():
            if not 0 < len(name) <= NAME_CHARACTERS:
                raise BadMetrics(f"metrics: a name must have 1 to {NAME_CHARACTERS} characters, not {len(name)}")
            if name in RESIZED:
                raise BadMetrics(f"metrics.{name}: is measured by the node, and cannot be reported")
            if isinstance(value, bool) or not isinstance(value, int | float) or not -LARGEST <= value <= LARGEST:
                raise BadMetrics(f"metrics.{name}: must be a finite number, not {str(value)[:32]!r}")
        now = self._wall()
        for name, value in metrics.items():
            self.metrics.record_value(workload, name, float(value), now)
        self._tell(workload)

    def measured(self, workload: str, usage: Usage) -> None:
        """From whoever measures for us on a cluster."""
        self.metrics.record(workload, usage)
        self._tell(workload)

    def valued(self, workload: str, name: str, value: float, at: float) -> None:
        """What somebody else knows of an application at a moment (wall seconds)."""
        self.metrics.record_value(workload, name, value, at)
        self._tell(workload)

    def cannot_measure(self, why: str, policy: str = "") -> bool:
        """Nothing comes any more, or nothing that this policy asks for, and why; an empty text: it does again.

        Answers whether that is news.
        """
        if why == self._outages.get(policy, ""):
            return False
        self._outages[policy] = why
        if not why:
            del self._outages[policy]
        self._tell("")
        return True

    @property
    def is_measuring(self) -> bool:
        """Else what is remembered is none of now."""
        return "" not in self._outages

    def outage_of(self, policy: str) -> str:
        """Why what this policy (namespace/name) looks at is not measured, or nothing."""
        return self._outages.get("") or self._outages.get(policy, "")

    # Out

    def judged(self, workload: str, metric: str, value: float, threshold: float, is_degraded: bool) -> None:
        """Tells when a workload's performance changes between Degraded and Normal."""
        status = "Degraded" if is_degraded else "Normal"
        before = self._degraded.get((workload, metric), "Normal")
        if status == before:
            return
        if is_degraded:
            self._degraded[workload, metric] = status
        else:
            self._degraded.pop((workload, metric), None)
        event = {
            "workload": workload,
            "metric": metric,
            "value": shown(value),
            "threshold": shown_threshold(threshold),
            "status": status,
            "time": to_time(self._wall()),
        }
        self._events.append(event)
        for watcher in list(self._watchers):
            if watcher.full():
                watcher.get_nowait()  # a slow reader misses the oldest
            watcher.put_nowait(event)

    async def events(self, workload: str = "") -> AsyncIterator[str]:
        """Performance events as JSON texts, as they happen; of one workload or of all."""
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(WATCHER_BACKLOG)
        self._watchers.add(queue)
        try:
            while True:
                event = await queue.get()
                if workload in ("", event["workload"]):
                    yield json.dumps(event)
        finally:
            self._watchers.discard(queue)

    def recent(self) -> list[dict[str, Any]]:
        """The latest performance events, oldest first."""
        return list(self._events)

    def usage(self) -> dict[str, dict[str, Any]]:
        """What each workload uses now, for people: `cpu` in millicores (None until two samples), `memory` in bytes."""
        found = {}
        for workload in self.metrics.workloads():
            samples = self.metrics.samples(workload, self._wall() - 10.0)
            if samples:
                cpu = millicores(samples[-2], samples[-1]) if len(samples) > 1 else None
                found[workload] = {"cpu": cpu, "memory": samples[-1].working_set_bytes, "at": samples[-1].at}
        return found

    def _runs_on(self, workload: str, node: str) -> bool:
        pod = self._pods.get(workload.rpartition("/")[0]) if self._pods is not None else None
        return pod is not None and (pod.get("spec") or {}).get("nodeName") == node

    def _tell(self, workload: str) -> None:
        for heard in self._listeners:
            heard(workload)

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        """What was measured of a Pod says nothing about another of its name."""
        if before is not None and (after is None or uid_of(after) != uid_of(before)):
            prefix = f"{key_of(before)}/"
            for field in FIELDS:
                for container in (before.get("spec") or {}).get(field) or ():
                    self.metrics.forget(f"{prefix}{container['name']}")
            for key in [key for key in self._degraded if key[0].startswith(prefix)]:
                del self._degraded[key]


def millicores(before: Usage, after: Usage) -> int | None:
    """CPU used between two samples; None across a restart."""
    seconds, used = after.at - before.at, after.cpu_seconds - before.cpu_seconds
    return round(used / seconds * 1000) if seconds > 0 and used >= 0 else None


def _is_sane(sample: "wire.Sample") -> bool:
    """Nothing can be decided by a number that is none."""
    told = (sample.at, sample.cpu_seconds, sample.pressure_cpu, sample.pressure_memory)
    return all(math.isfinite(each) for each in told)


def _usage(sample: "wire.Sample") -> Usage:
    return Usage(
        at=sample.at,
        cpu_seconds=sample.cpu_seconds,
        periods=sample.periods,
        throttled_periods=sample.throttled_periods,
        memory_bytes=sample.memory_bytes,
        working_set_bytes=sample.working_set_bytes,
        pressure_cpu=sample.pressure_cpu if sample.HasField("pressure_cpu") else None,
        pressure_memory=sample.pressure_memory if sample.HasField("pressure_memory") else None,
        oom_kills=sample.oom_kills,
    )
