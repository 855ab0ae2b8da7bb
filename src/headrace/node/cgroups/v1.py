"""cgroup v1, alone or with an empty v2 hierarchy beside it (hybrid), which gives pressure and cgroup.kill.

Memory and memory+swap are a pair of which the second may never be the smaller: it grows first and shrinks last.
"""

import errno
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.metrics.protocol import Usage
from headrace.node.cgroups import amounts, directories, files
from headrace.node.cgroups.group import failed, in_use
from headrace.node.cgroups.hierarchy import UNIFIED
from headrace.node.cgroups.meters import V1Meter
from headrace.node.keeper import members
from headrace.node.runtimes.protocol import ApplyFailed, Limits

CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "freezer", "pids", UNIFIED)
NEEDED = ("cpu", "memory")
UNLIMITED = "9223372036854771712"  # as the kernel prints it, so that writing it again is seen to change nothing


class V1Group:
    """`paths` are its directories by controller, `tops` the existing ones below which they may be made."""

    def __init__(self, paths: Mapping[str, Path], tops: Mapping[str, Path] | None = None) -> None:
        self._paths, self._tops = dict(paths), dict(tops or {})
        self._cpu, self._memory = self._paths["cpu"], self._paths["memory"]

    @property
    def directories(self) -> Sequence[str]:
        return tuple(dict.fromkeys(str(path) for path in self._paths.values()))

    def create(self, limits: Limits) -> None:
        try:
            for name, path in self._paths.items():
                directories.make(path, self._tops[name])
            self.apply(limits)
        except (OSError, ApplyFailed) as error:
            directories.remove(self._paths.values())
            raise failed(error, restored=True) if isinstance(error, OSError) else error from None

    def attach(self, pid: int) -> None:
        for directory in self.directories:
            files.write(Path(directory) / "cgroup.procs", str(pid))

    def apply(self, limits: Limits) -> Limits:
        amounts.check(limits)
        if limits.memory_bytes is not None and (usage := self._working_set()) > limits.memory_bytes:
            raise in_use(limits.memory_bytes, usage)
        update = files.Update()
        try:
            self._apply_memory(update, limits.memory_bytes)
            quota, period = amounts.quota(limits.cpu_milli) if limits.cpu_milli else (-1, amounts.PERIOD_MICROSECONDS)
            update.write(self._cpu / "cpu.cfs_quota_us", str(quota))
            update.write(self._cpu / "cpu.cfs_period_us", str(period))
            update.write(self._cpu / "cpu.shares", str(amounts.shares(limits.cpu_shares_milli)))
            found = self.read()
        except OSError as error:
            restored = update.undo()
            if error.errno == errno.EBUSY and limits.memory_bytes is not None and restored:
                raise in_use(limits.memory_bytes, self._with_swap()) from None
            raise failed(error, restored) from None
        if found != self.kept(limits):
            raise ApplyFailed(f"{self._cpu}: asked for {limits}, read back {found}", restored=update.undo())
        return found

    def read(self) -> Limits:
        quota, period, shares, memory = (
            files.read_number(path)
            for path in (
                self._cpu / "cpu.cfs_quota_us",
                self._cpu / "cpu.cfs_period_us",
                self._cpu / "cpu.shares",
                self._memory / "memory.limit_in_bytes",
            )
        )
        return Limits(
            cpu_milli=amounts.milli_of_quota(quota, period),
            memory_bytes=memory if memory < amounts.UNLIMITED_BYTES else None,
            cpu_shares_milli=amounts.milli_of_shares(shares),
        )

    def kept(self, limits: Limits) -> Limits:
        return Limits(
            cpu_milli=limits.cpu_milli,
            memory_bytes=amounts.pages(limits.memory_bytes) if limits.memory_bytes is not None else None,
            cpu_shares_milli=amounts.milli_of_shares(amounts.shares(limits.cpu_shares_milli)),
        )

    def kill(self) -> bool:
        return members.kill_all(self.directories, -1, "", None)

    def remove(self) -> None:
        directories.remove(self._paths.values())

    def oom_kills(self) -> int:
        """Falls back to the number of failed charges on kernels before 4.13, which do not count the killed."""
        text = files.read(self._memory / "memory.oom_control")
        if "oom_kill " in text:
            return int(text.rpartition("oom_kill ")[2])
        return files.read_number(self._memory / "memory.failcnt")

    def meter(self) -> V1Meter:
        return V1Meter(self._paths)

    def usage(self, at: float) -> Usage:
        meter = self.meter()
        try:
            return meter.read(at)
        finally:
            meter.close()

    def _working_set(self) -> int:
        usage = files.read_number(self._memory / "memory.usage_in_bytes")
        return max(0, usage - files.read_field(self._memory / "memory.stat", "total_inactive_file"))

    def _with_swap(self) -> int:
        """All that the kernel could not press below a limit of memory and swap together."""
        both, memory = self._memory / "memory.memsw.usage_in_bytes", self._memory / "memory.usage_in_bytes"
        return files.read_number(both if both.exists() else memory)

    def _apply_memory(self, update: files.Update, limit: int | None) -> None:
        memory, both = self._memory / "memory.limit_in_bytes", self._memory / "memory.memsw.limit_in_bytes"
        value = str(amounts.pages(limit)) if limit is not None else UNLIMITED
        current = files.read_number(memory)
        pair = [memory, both] if limit is not None and limit < current else [both, memory]
        for path in pair:
            if path is memory or path.exists():  # without swap accounting there is one file
                update.write(path, value)
