"""What the agent asks of a runtime: start, stop, limit, read back. Actual values are always read, never echoed."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from headrace.api.amounts import MEMORY, written

Enforcement = Literal["enforced", "approximate", "none"]


@dataclass(frozen=True, slots=True)
class Limits:
    """None is unlimited. `cpu_shares_milli` is the request, which becomes cpu.shares or cpu.weight."""

    cpu_milli: int | None = None
    memory_bytes: int | None = None
    cpu_shares_milli: int | None = None

    def __str__(self) -> str:
        """`cpu 500m, memory 64Mi`, for messages."""
        cpu = "unlimited" if self.cpu_milli is None else f"{self.cpu_milli}m"
        memory = "unlimited" if self.memory_bytes is None else written(MEMORY, self.memory_bytes)
        return f"cpu {cpu}, memory {memory}"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What this runtime can do here, told on the Node: how each limit is enforced, and why not better.

    `name` and `version` are the runtime's own; an empty version is headrace's. `images`: it runs images.
    """

    cpu: Enforcement
    memory: Enforcement
    detail: str
    cgroup_version: Literal["v1", "hybrid", "v2", "none"]
    name: str = "process"
    version: str = ""
    images: bool = False


@dataclass(frozen=True, slots=True)
class Mount:
    """A bind mount. `flags`: of nosuid, nodev and noexec."""

    source: str
    target: str
    read_only: bool = False
    flags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """A device node of the machine and where the container sees it; `permissions` of the devices cgroup: r, w, m."""

    source: str
    path: str
    permissions: str = "rwm"


@dataclass(frozen=True, slots=True)
class PullSecret:
    """A Secret that a Pod pulls its images with."""

    name: str
    type: str
    data: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """`id` is unique for ever: Pod uid, container name and attempt. The process is started exactly once for an id.

    Only for runtimes with images: `image`, `pull_policy` (empty: Kubernetes' default), `pull_secrets`,
    `image_entrypoint` (`argv` are arguments of the image's own entrypoint), `non_root`, and an empty `working_dir`,
    which is the image's. A device of `devices` is also among the mounts unless the container sees it where the machine
    has it. `adopted` is the runtime's id of a container that runs already and is taken over; `on_delete` is Stop, or it
    is let go instead of stopped.
    """

    id: str
    pod_uid: str
    pod: str  # namespace/name, for logs and messages
    container: str
    argv: Sequence[str]
    env: Mapping[str, str]
    working_dir: str
    log_path: str
    limits: Limits
    mounts: Sequence[Mount] = ()
    uid: int | None = None
    gid: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    pull_policy: str = ""
    pull_secrets: Sequence[PullSecret] = ()
    image_entrypoint: bool = False
    non_root: bool = False
    devices: Sequence[Device] = ()
    adopted: str = ""
    on_delete: str = ""


@dataclass(frozen=True, slots=True)
class ContainerState:
    """`pid` and `start_ticks` together are the process's identity. Times are wall seconds.

    `exit_code` is 128 + `signal` for a killed process, and None when it ended while nobody was there to see it.
    """

    id: str
    pod_uid: str
    container: str
    state: Literal["running", "exited"]
    pid: int
    start_ticks: int
    started_at: float
    finished_at: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    oom_killed: bool = False


class StartFailed(Exception):
    """The process could not be started, in a container runtime's words; nothing was executed and nothing is left.

    `reason` is that of the container's waiting state.
    """

    def __init__(self, message: str, reason: str = "RunContainerError") -> None:
        super().__init__(message)
        self.reason = reason


class RuntimeUnavailable(Exception):
    """The runtime does not answer; containers run on. To be tried again."""


class ApplyFailed(Exception):
    """The limits could not be set; the previous ones are in force again unless `restored` is false.

    `answered` is false where the call may take effect yet: only a later one that is answered tells what is so.
    """

    def __init__(self, message: str, *, restored: bool = True, answered: bool = True) -> None:
        super().__init__(message)
        self.restored, self.answered = restored, answered


class MemoryInUse(ApplyFailed):
    """The new memory limit lies below what is in use; nothing was changed."""

    def __init__(self, message: str, usage_bytes: int, limit_bytes: int) -> None:
        super().__init__(message)
        self.usage_bytes, self.limit_bytes = usage_bytes, limit_bytes


class NotRunning(ApplyFailed):
    """There is no running process with this id to which limits could apply."""


class Unreadable(ApplyFailed):
    """What is in force cannot be read: it may be anything, though nothing was changed."""


class Runtime(Protocol):
    def capabilities(self) -> Capabilities: ...

    async def start(self, spec: ContainerSpec) -> ContainerState:
        """Idempotent by id: a second call answers the state of the first. Raises StartFailed."""
        ...

    async def signal(self, id: str, number: int) -> None:
        """Sent to the container's main process; a container that has exited is no error."""
        ...

    async def kill(self, id: str) -> None:
        """SIGKILL to every process of the container."""
        ...

    async def remove(self, id: str) -> None:
        """Forget an exited container: cgroup, records. Its log stays."""
        ...

    async def list(self) -> list[ContainerState]: ...

    async def apply(self, id: str, limits: Limits) -> Limits:
        """Converge to these limits in a safe order, read back, answer what is so.

        Raises ApplyFailed, of which MemoryInUse and NotRunning are kinds.
        """
        ...

    async def read(self, id: str) -> Limits:
        """What enforces this container now, read from the cgroup found by /proc/PID/cgroup. Raises NotRunning."""
        ...

    def changes(self) -> AsyncIterator[str]:
        """Ids of containers whose state changed (started, exited, OOM); all of them when some may have been missed."""
        ...


@runtime_checkable
class Releases(Protocol):
    """A runtime that can take over containers which it has not started."""

    def release(self, id: str) -> bool:
        """Let go of it if it was adopted to be let go; it runs on. False: it is to be stopped like others."""
        ...


@runtime_checkable
class Executes(Protocol):
    """A runtime whose containers see another machine than the agent, so that a probe must run inside."""

    async def execute(self, id: str, argv: Sequence[str], output_bytes: int, seconds: float) -> tuple[int, str]:
        """Exit code and the beginning of the output. Cancelled, or after these seconds of its own, the command ends.

        Raises TimeoutError, OSError when it cannot be run, RuntimeUnavailable when nobody knows.
        """
        ...
