"""What the kernel enforces on a container, looked up by the demo itself: it takes nobody's word for it."""

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MEBIBYTE = 1024 * 1024
PERIOD = 100_000  # microseconds


@dataclass(frozen=True, slots=True)
class Enforced:
    """`source` names where it was read. Amounts are None where nothing limits. `quota`: the file of the CPU limit."""

    source: str
    cpu_milli: int | None
    memory_bytes: int | None
    quota: Path | None = None


def told(found: Enforced) -> str:
    cpu = "no CPU limit" if found.cpu_milli is None else f"{found.cpu_milli}m CPU"
    memory = "no memory limit" if found.memory_bytes is None else f"{found.memory_bytes // MEBIBYTE}Mi memory"
    return f"{found.source}: {cpu}, {memory}"


def process_of(pod_uid: str) -> int:
    """The first process of a Pod's container, by the container id that the runtime put into its environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if b"HEADRACE_CONTAINER=" in environment and pod_uid.encode() in environment:
                found.append(int(entry.name))
    own = [pid for pid in found if _parent(pid) not in (*found, 0)]
    return own[0] if own else 0


def _parent(pid: int) -> int:
    """0 for one that has just ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def enforced(pid: int) -> Enforced:
    """From the process's cgroup, by /proc/PID/cgroup; without one, from its affinity and its rlimits."""
    groups = dict(line.split(":", 2)[1:] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines())
    cpu, memory = _v1("cpu", groups), _v1("memory", groups)
    if cpu is not None and memory is not None and "headrace" in str(cpu):
        quota, period = _number(cpu / "cpu.cfs_quota_us"), _number(cpu / "cpu.cfs_period_us")
        limit = _number(memory / "memory.limit_in_bytes")
        milli = None if quota is None or quota < 0 or period is None else quota * 1000 // period
        return Enforced("cgroup v1", milli, limit, cpu / "cpu.cfs_quota_us")
    unified = CGROUPS / groups.get("", "").lstrip("/")
    if (unified / "cpu.max").exists() and "headrace" in str(unified):
        quota_text, period_text = (unified / "cpu.max").read_text().split()
        milli = None if quota_text == "max" else int(quota_text) * 1000 // int(period_text)
        return Enforced("cgroup v2", milli, _number(unified / "memory.max"), unified / "cpu.max")
    soft, _ = resource.prlimit(pid, resource.RLIMIT_AS)
    space = None if soft == resource.RLIM_INFINITY else soft
    return Enforced("affinity and rlimit", len(os.sched_getaffinity(pid)) * 1000, space)


def limit_cpu_by_hand(quota: Path, milli: int) -> None:
    """Past headrace, as an administrator may do. The smallest quota of the kernel is 10m."""
    text = str(milli * PERIOD // 1000)
    quota.write_text(text if quota.name == "cpu.cfs_quota_us" else f"{text} {PERIOD}")


def limit_memory_by_hand(pid: int, limit_bytes: int) -> None:
    """The same where there are no cgroups."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_AS)
    resource.prlimit(pid, resource.RLIMIT_AS, (limit_bytes, hard))


def cpu_share(pid: int, seconds: float) -> float:
    """How many CPUs the process used over this time."""
    ticks = os.sysconf("SC_CLK_TCK")
    began, before = time.monotonic(), _ticks(pid)
    time.sleep(seconds)
    return (_ticks(pid) - before) / ticks / (time.monotonic() - began)


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _v1(controller: str, groups: dict[str, str]) -> Path | None:
    for names, path in groups.items():
        if controller in names.split(","):
            for mounted in (names, controller):
                place = CGROUPS / mounted / path.lstrip("/")
                if place.is_dir():
                    return place
    return None


def _number(file: Path) -> int | None:
    text = file.read_text().strip()
    return None if text == "max" else int(text)
