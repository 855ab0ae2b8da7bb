"""cgroup v2. A memory.max below what is in use would kill at once, so the limit is first tried out as memory.high.

A trial that a killed agent left is not seen in any limit, and slows the container: `end_trial` takes it back.
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
        if limits.memory_bytes is not None and self._shrinks(limits.memory_bytes):
            usage = self._needed()
            if usage > limits.memory_bytes:
                self.end_trial()
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
        if not (self._path / "cpu.max").exists() and self._path.is_dir():
            return Limits()  # the root, or a cgroup to which no controllers were handed on: it limits nothing
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

    def end_trial(self) -> None:
        """Raises OSError."""
        high = self._path / "memory.high"
        if high.exists() and files.read(high) != "max":
            files.write(high, "max")

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

    def _shrinks(self, limit: int) -> bool:
        before = files.read(self._path / "memory.max")
        return before == "max" or int(before) > limit

    def _needed(self) -> int:
        """What no limit may go below: what is used, without what the kernel would drop first, and what is swapped out.

        A limit comes without swap, as on v1, where memory and swap have one limit together.
        """
        usage = files.read_number(self._path / "memory.current")
        dropped = files.read_field(self._path / "memory.stat", "inactive_file")
        swap = self._path / "memory.swap.current"
        return max(0, usage - dropped) + (files.read_number(swap) if swap.exists() else 0)

    def _apply_memory(self, update: files.Update, limit: int | None) -> None:
        maximum, high, swap = (self._path / f"memory.{name}" for name in ("max", "high", "swap.max"))
        if swap.exists():  # first: what is to be reclaimed must not go there
            update.write(swap, "max" if limit is None else "0")
        if limit is None:
            update.write(maximum, "max")
            update.write(high, "max")
            return
        value = str(amounts.pages(limit))
        if self._shrinks(limit) and files.read_number(self._path / "memory.current") > limit:
            update.write(high, value)
            self._await_reclaim(limit)
        update.write(maximum, value)
        update.write(high, "max")

    def _await_reclaim(self, limit: int) -> None:
        """The kernel now reclaims what it can; raises MemoryInUse when that is not enough."""
        for _ in range(int(RECLAIM_SECONDS / _LOOK_SECONDS)):
            if files.read_number(self._path / "memory.current") <= limit:
                return
            self._sleep(_LOOK_SECONDS)
        raise in_use(limit, files.read_number(self._path / "memory.current"))
