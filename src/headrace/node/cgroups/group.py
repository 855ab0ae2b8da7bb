"""What a container's limits are set on: the one interface over cgroup v1, v2 and the approximation."""

from collections.abc import Sequence
from typing import Protocol

from headrace.metrics.protocol import Usage
from headrace.node.runtimes.protocol import ApplyFailed, Limits, MemoryInUse


class Meter(Protocol):
    """Reads one container's usage again and again through kept descriptors."""

    def read(self, at: float) -> Usage:
        """Raises OSError when the container is gone."""
        ...

    def close(self) -> None: ...


class Group(Protocol):
    @property
    def directories(self) -> Sequence[str]:
        """The cgroup directories that a process joins, before it executes anything."""
        ...

    def create(self, limits: Limits) -> None:
        """Make it and set its first limits. Raises ApplyFailed, with nothing left behind."""
        ...

    def attach(self, pid: int) -> None: ...

    def apply(self, limits: Limits) -> Limits:
        """Set all in a safe order, read back. Raises MemoryInUse, ApplyFailed: the previous limits are in force."""
        ...

    def read(self) -> Limits: ...

    def kept(self, limits: Limits) -> Limits:
        """What will be read back when these limits are in force: whole pages, whole CPUs, steps of weight."""
        ...

    def kill(self) -> bool:
        """SIGKILL to all members; true when there is none. To be repeated until then."""
        ...

    def remove(self) -> None:
        """Raises OSError (EBUSY) while it has members."""
        ...

    def oom_kills(self) -> int: ...

    def meter(self) -> Meter: ...

    def usage(self, at: float) -> Usage: ...


def in_use(limit: int, usage: int) -> MemoryInUse:
    """The one wording of this refusal, on every version."""
    return MemoryInUse(
        f"memory limit {limit} bytes is below the {usage} bytes in use: nothing was changed", usage, limit
    )


def failed(error: OSError, restored: bool) -> ApplyFailed:
    """A kernel's refusal in words: which file, and why."""
    where = f"{error.filename}: " if error.filename else ""
    return ApplyFailed(f"{where}{error.strerror}", restored=restored)
