"""The columns of Pods: one line that sums up what all containers of a Pod are doing."""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.api.objects import Object, metadata, name_of
from headrace.api.printers import AGE, NAME, Printer, TableColumn, age, since, wide

Status = Mapping[str, Any]

_COMPLETED = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


def _cells(pod: Object, now: float) -> list[Any]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    summary = Summary(spec, status)
    reason = summary.reason
    if metadata(pod).get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in _COMPLETED:
            reason = "Terminating"
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart:
        restarts = f"{summary.restarts} ({since(summary.last_restart, now)} ago)"
    addresses = status.get("podIPs") or [{}]
    return [
        name_of(pod),
        f"{summary.ready}/{summary.total}",
        reason,
        restarts,
        age(pod, now),
        addresses[0].get("ip") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        _readiness_gates(spec, status),
    ]


class Summary:
    """What the containers of a Pod come to: a reason, ready of total, restarts, and when the last one was."""

    def __init__(self, spec: Status, status: Status) -> None:
        self.reason = str(status.get("reason") or status.get("phase") or "")
        conditions: Sequence[Status] = status.get("conditions") or ()
        if any(c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in conditions):
            self.reason = "SchedulingGated"
        self._true = {c.get("type") for c in conditions if c.get("status") == "True"}
        initial: Sequence[Status] = spec.get("initContainers") or ()
        self._sidecars = {c.get("name") for c in initial if c.get("restartPolicy") == "Always"}
        self.total = len(spec.get("containers") or ()) + len(self._sidecars)
        self.ready = self.restarts = 0
        self.last_restart = ""
        initializing = self._read_initial(status.get("initContainerStatuses") or (), len(initial))
        if not initializing or "Initialized" in self._true:
            sidecars = [c for c in status.get("initContainerStatuses") or () if c.get("name") in self._sidecars]
            self.restarts, self.last_restart = 0, ""
            for container in sidecars:
                self._count(container)
            self._read_containers(status.get("containerStatuses") or ())

    def _count(self, container: Status) -> None:
        self.restarts += int(container.get("restartCount") or 0)
        ended = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        self.last_restart = max(self.last_restart, ended)

    def _read_initial(self, containers: Sequence[Status], count: int) -> bool:
        """Whether the Pod still initializes; the first container that is not through gives the reason."""
        for at, container in enumerate(containers):
            self._count(container)
            state = container.get("state") or {}
            ended, waiting = state.get("terminated"), state.get("waiting") or {}
            if ended is not None and not ended.get("exitCode"):
                continue
            if container.get("name") in self._sidecars and container.get("started"):
                self.ready += bool(container.get("ready"))
                continue
            if ended is not None:
                self.reason = "Init:" + _ending(ended)
            elif waiting.get("reason") not in (None, "", "PodInitializing"):
                self.reason = f"Init:{waiting['reason']}"
            else:
                self.reason = f"Init:{at}/{count}"
            return True
        return False

    def _read_containers(self, containers: Sequence[Status]) -> None:
        running, error = False, ""
        for container in reversed(containers):
            self._count(container)
            state = container.get("state") or {}
            ended, waiting = state.get("terminated"), state.get("waiting") or {}
            if waiting.get("reason"):
                self.reason = str(waiting["reason"])
            elif ended is not None:
                self.reason = _ending(ended)
                if ended.get("exitCode"):
                    error = self.reason
            elif container.get("ready") and state.get("running") is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            if running and "Ready" in self._true:
                self.reason = "Running"
            elif error:
                self.reason = error
            elif running:
                self.reason = "NotReady"


def _ending(ended: Status) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _readiness_gates(spec: Status, status: Status) -> str:
    gates = [gate.get("conditionType") for gate in spec.get("readinessGates") or ()]
    if not gates:
        return "<none>"
    true = {c.get("type") for c in status.get("conditions") or () if c.get("status") == "True"}
    return f"{sum(gate in true for gate in gates)}/{len(gates)}"


def _conditions(pod: Object) -> list[dict[str, str]]:
    phase = str((pod.get("status") or {}).get("phase", ""))
    if phase not in _COMPLETED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _COMPLETED[phase]}]


PRINTERS = {
    "pods": Printer(
        (
            NAME,
            TableColumn("Ready"),
            TableColumn("Status"),
            TableColumn("Restarts"),
            AGE,
            wide("IP"),
            wide("Node"),
            wide("Nominated Node"),
            wide("Readiness Gates"),
        ),
        _cells,
        _conditions,
    )
}
