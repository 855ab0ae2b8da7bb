"""How containers of Pods are named towards a runtime, and what the agent remembers of each between two looks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from headrace.node.pod import Container, Pod
from headrace.node.runtimes.protocol import ContainerState

LOST_EXIT_CODE = 137
MESSAGE_CHARACTERS = 1024


def container_id(pod_uid: str, container: str, attempt: int) -> str:
    """Unique for ever: a restart is a new attempt, and neither uids nor attempts come back."""
    return f"{pod_uid}_{container}_{attempt}"


def attempt_of(id: str) -> int:
    return int(id.rpartition("_")[2])


def pod_uid_of(id: str) -> str:
    return id.rsplit("_", 2)[0]


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt of a container. `lost`: its record is gone (the machine restarted), how it ended is unknown."""

    attempt: int
    state: ContainerState
    lost: bool = False

    @property
    def is_running(self) -> bool:
        return self.state.state == "running"

    @property
    def succeeded(self) -> bool:
        return not self.is_running and self.state.exit_code == 0 and not self.lost

    @property
    def seconds(self) -> float:
        return (self.state.finished_at or self.state.started_at) - self.state.started_at


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a container cannot start: the reason of its waiting state, a sentence, and since when (wall seconds).

    The sentence may be a driver's or Podman's, of any length: a Pod has no room for more than the beginning.
    """

    reason: str
    message: str
    at: float = 0.0

    def __post_init__(self) -> None:
        if len(self.message) > MESSAGE_CHARACTERS:
            object.__setattr__(self, "message", f"{self.message[:MESSAGE_CHARACTERS]}…")


@dataclass(frozen=True, slots=True)
class Memory:
    """Of one container. `short_runs` in a row (None: not known, since the agent started after them).

    `ready` and `started` are probes' verdicts on attempt `judged`; `unhealthy` is why it must be restarted.
    """

    short_runs: int | None = None
    problem: Problem | None = None
    failures: int = 0
    judged: int = -1
    ready: bool = False
    started: bool = False
    unhealthy: str = ""
    terminated: Mapping[str, float] = field(default_factory=dict)  # container id: when SIGTERM was sent
    killed: Mapping[str, float] = field(default_factory=dict)  # container id: when SIGKILL was sent last


@dataclass(frozen=True, slots=True)
class Setup:
    """Whether volumes are there and devices prepared, and if not, why, after how many failures in a row."""

    state: Literal["needed", "ready", "torn down"] = "needed"
    problem: Problem | None = None
    failures: int = 1


def runs_of(pod: Pod, container: str, states: Iterable[ContainerState]) -> list[Run]:
    """Every known attempt, oldest first. What only the status remembers is lost: nothing tells how it ended."""
    runs = {attempt_of(state.id): Run(attempt_of(state.id), state) for state in states if state.container == container}
    status = pod.container_status(container)
    told = status.get("state") or {}
    last = status.get("lastState") or {}
    attempt = int(status.get("restartCount") or 0)
    if attempt not in runs and ("running" in told or "terminated" in told or "terminated" in last):
        ended = told.get("terminated") or last.get("terminated")
        runs[attempt] = Run(attempt, _remembered(pod, container, attempt, ended), lost=True)
    return [runs[number] for number in sorted(runs)]


def is_started(container: Container, run: Run | None, memory: Memory) -> bool:
    """Without a startup probe a running container has started."""
    if run is None or not run.is_running:
        return False
    return container.startup_probe is None or (memory.judged == run.attempt and memory.started)


def is_ready(container: Container, run: Run | None, memory: Memory) -> bool:
    """Without a readiness probe a started container is ready."""
    if run is None or not is_started(container, run, memory):
        return False
    return container.readiness_probe is None or (memory.judged == run.attempt and memory.ready)


def _remembered(pod: Pod, container: str, attempt: int, ended: Mapping[str, object] | None) -> ContainerState:
    code = ended.get("exitCode") if ended else None
    return ContainerState(
        id=container_id(pod.uid, container, attempt),
        pod_uid=pod.uid,
        container=container,
        state="exited",
        pid=0,
        start_ticks=0,
        started_at=0.0,
        finished_at=0.0,
        exit_code=code if isinstance(code, int) else LOST_EXIT_CODE,
    )
