"""Without cgroups: whole CPUs by affinity, address space by RLIMIT_AS of each process. Reported as approximate.

Only the soft limit is set, so that it can grow again; a process may raise it itself, and each of several processes has
the whole of it. A container's processes are those of its session.
"""

import os
import resource
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from headrace.metrics.protocol import Usage
from headrace.node.cgroups import amounts
from headrace.node.cgroups.group import failed, in_use
from headrace.node.keeper import identity, members
from headrace.node.runtimes.protocol import ApplyFailed, Limits

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Census:
    """Processes by session, counted once for all meters that are read at one moment."""

    def __init__(self) -> None:
        self._at = float("nan")
        self._sessions: dict[int, list[identity.Stat]] = {}

    def session(self, session: int, at: float) -> list[identity.Stat]:
        if at != self._at:
            self._at, self._sessions = at, {}
            for name in os.listdir("/proc"):
                if name.isdigit() and (found := identity.stat(int(name))) is not None:
                    self._sessions.setdefault(found.session, []).append(found)
        return self._sessions.get(session, [])


class ApproximateGroup:
    """`main` is the container's first process and the number of its session."""

    directories: Sequence[str] = ()

    def __init__(self, main: int, marker: str, census: Census, cpus: Sequence[int]) -> None:
        self._main, self._marker, self._census, self._cpus = main, marker, census, cpus

    def create(self, limits: Limits) -> None:
        amounts.check(limits)

    def attach(self, pid: int) -> None:
        """Nothing to join: a process belongs to the session it was started in."""

    def apply(self, limits: Limits) -> Limits:
        amounts.check(limits)
        pids = members.marked(self._marker, self._main)
        usage = sum(process.resident_pages for pid in pids if (process := identity.stat(pid)) is not None) * _PAGE
        if limits.memory_bytes is not None and usage > limits.memory_bytes:
            raise in_use(limits.memory_bytes, usage)
        before = self.read()
        try:
            self._set(pids, limits)
        except OSError as error:
            raise failed(error, self._restored(pids, before)) from None
        found = self.read()
        if found != self.kept(limits):
            restored = self._restored(pids, before)
            raise ApplyFailed(f"process {self._main}: asked for {limits}, read back {found}", restored=restored)
        return found

    def read(self) -> Limits:
        allowed = len(os.sched_getaffinity(self._main))
        soft, _ = resource.prlimit(self._main, resource.RLIMIT_AS)
        return Limits(
            cpu_milli=allowed * 1000 if allowed < len(self._cpus) else None,
            memory_bytes=soft if soft != resource.RLIM_INFINITY else None,
        )

    def kept(self, limits: Limits) -> Limits:
        chosen = cpus(limits.cpu_milli, os.path.basename(self._marker), self._cpus)
        return Limits(len(chosen) * 1000 if len(chosen) < len(self._cpus) else None, limits.memory_bytes)

    def kill(self) -> bool:
        return members.kill_all((), self._main, self._marker, self._main)

    def remove(self) -> None:
        """Nothing was made."""

    def oom_kills(self) -> int:
        return 0

    def meter(self) -> "ApproximateMeter":
        return ApproximateMeter(self._main, self._census)

    def usage(self, at: float) -> Usage:
        return self.meter().read(at)

    def _set(self, pids: Iterable[int], limits: Limits) -> None:
        soft = limits.memory_bytes if limits.memory_bytes is not None else resource.RLIM_INFINITY
        chosen = cpus(limits.cpu_milli, os.path.basename(self._marker), self._cpus)
        for pid in pids:
            for task in _tasks(pid):
                _unless_gone(lambda task=task: os.sched_setaffinity(task, chosen))  # type: ignore[misc]
            _unless_gone(lambda pid=pid: _limit_address_space(pid, soft))  # type: ignore[misc]

    def _restored(self, pids: Iterable[int], before: Limits) -> bool:
        try:
            self._set(pids, replace(before, cpu_shares_milli=None))
        except OSError:
            return False
        return self.read() == before


class ApproximateMeter:
    """Memory is what is resident, counted per process; pressure, throttling and OOM kills are not known."""

    def __init__(self, session: int, census: Census) -> None:
        self._session, self._census = session, census

    def read(self, at: float) -> Usage:
        found = self._census.session(self._session, at)
        if not found:
            raise ProcessLookupError(3, f"session {self._session} has no processes")
        memory = sum(process.resident_pages for process in found) * _PAGE
        cpu = sum(process.cpu_ticks for process in found) / _TICKS
        return Usage(at, cpu, 0, 0, memory, memory, None, None, 0)

    def close(self) -> None:
        """Nothing is kept open."""


def cpus(milli: int | None, id: str, allowed: Sequence[int]) -> list[int]:
    """As many whole CPUs as the limit begins, spread over the containers by their names."""
    count = len(allowed) if milli is None else min(len(allowed), -(-milli // 1000))
    first = zlib.crc32(id.encode()) % len(allowed)
    return sorted(allowed[(first + step) % len(allowed)] for step in range(count))


def _tasks(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except FileNotFoundError:
        return []


def _limit_address_space(pid: int, soft: int) -> None:
    _, hard = resource.prlimit(pid, resource.RLIMIT_AS)
    resource.prlimit(pid, resource.RLIMIT_AS, (soft, hard))


def _unless_gone(call: Callable[[], None]) -> None:
    try:
        call()
    except ProcessLookupError:
        return
