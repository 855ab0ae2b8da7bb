"""cgroup v2. A memory.max below what is in use would kill at once, so the limit is first tried out as memory.high.

Tested on recorded trees of files: no machine of the project's has v2 with cpu and memory yet.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.metrics.protocol import Usage
from headrace.node.cgroups import amounts, directories, files
from headrace.node.cgroups.group import failed, in_use
from headrace.node.cgroups.meters import V2Meter
from headrace.node.keeper import members
from headrace.node.runtimes.protocol import ApplyFailed, Limits

NEEDED = ("cpu", "memory")
WANTED = ("cpu", "memory", "cpuset", "pids")
RECLAIM_SECONDS = 2.0
_LOOK_SECONDS = 0.01


class V2Group:
    """One directory. Its parents have cpu and memory in their cgroup.subtree_control."""

    def __init__(self, path: Path, sleep: Callable[[float], None] = time.sleep) -> None:
        self._path, self._sleep = path, sleep

    @property
    def directories(self) -> Sequence[str]:
        return (str(self._path),)

    def create(self, limits: Limits) -> None:
        try:
            self._path.mkdir(exist_ok=True)
            self.apply(limits)
        except (OSError, ApplyFailed) as error:
            directories.remove([self._path])
            raise failed(error, restored=True) if isinstance(error, OSError) else error from None

    def attach(self, pid: int) -> None:
        files.write(self._path / "cgroup.procs", str(pid))

    def apply(self, limits: Limits) -> Limits:
        amounts.check(limits)
        if limits.memory_bytes is not None and (usage := self._working_set()) > limits.memory_bytes:
            raise in_use(limits.memory_bytes, usage)
        update = files.Update()
        try:
            self._apply_memory(update, limits.memory_bytes)
            quota, period = (
                amounts.quota(limits.cpu_milli) if limits.cpu_milli else ("max", amounts.PERIOD_MICROSECONDS)
            )
            update.write(self._path / "cpu.max", f"{quota} {period}")
            update.write(self._path / "cpu.weight", str(amounts.weight(limits.cpu_shares_milli)))
            found = self.read()
        except OSError as error:
            raise failed(error, update.undo()) from None
        except ApplyFailed as error:
            error.restored = update.undo()
            raise
        if found != self.kept(limits):
            raise ApplyFailed(f"{self._path}: asked for {limits}, read back {found}", restored=update.undo())
        return found

    def read(self) -> Limits:
        quota, _, period = files.read(self._path / "cpu.max").partition(" ")
        memory = files.read(self._path / "memory.max")
        return Limits(
            cpu_milli=None if quota == "max" else amounts.milli_of_quota(int(quota), int(period)),
            memory_bytes=None if memory == "max" else int(memory),
            cpu_shares_milli=amounts.milli_of_weight(files.read_number(self._path / "cpu.weight")),
        )

    def kept(self, limits: Limits) -> Limits:
        return Limits(
            cpu_milli=limits.cpu_milli,
            memory_bytes=amounts.pages(limits.memory_bytes) if limits.memory_bytes is not None else None,
            cpu_shares_milli=amounts.milli_of_weight(amounts.weight(limits.cpu_shares_milli)),
        )

    def kill(self) -> bool:
        return members.kill_all(self.directories, -1, "", None)

    def remove(self) -> None:
        directories.remove([self._path])

    def oom_kills(self) -> int:
        return files.read_field(self._path / "memory.events", "oom_kill")

    def meter(self) -> V2Meter:
        return V2Meter(self._path)

    def usage(self, at: float) -> Usage:
        meter = self.meter()
        try:
            return meter.read(at)
        finally:
            meter.close()

    def _working_set(self) -> int:
        usage = files.read_number(self._path / "memory.current")
        return max(0, usage - files.read_field(self._path / "memory.stat", "inactive_file"))

    def _apply_memory(self, update: files.Update, limit: int | None) -> None:
        swap = self._path / "memory.swap.max"
        if limit is None:
            update.write(self._path / "memory.max", "max")
            if swap.exists():
                update.write(swap, "max")
            return
        value = str(amounts.pages(limit))
        before = files.read(self._path / "memory.max")
        if (before == "max" or int(before) > limit) and files.read_number(self._path / "memory.current") > limit:
            update.write(self._path / "memory.high", value)
            self._await_reclaim(limit)
        update.write(self._path / "memory.max", value)
        update.write(self._path / "memory.high", "max")
        if swap.exists():
            update.write(swap, "0")

    def _await_reclaim(self, limit: int) -> None:
        """The kernel now reclaims what it can; raises MemoryInUse when that is not enough."""
        for _ in range(int(RECLAIM_SECONDS / _LOOK_SECONDS)):
            if files.read_number(self._path / "memory.current") <= limit:
                return
            self._sleep(_LOOK_SECONDS)
        raise in_use(limit, files.read_number(self._path / "memory.current"))
