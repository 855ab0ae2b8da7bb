"""What the kernel answers to each write that a resize could make, tried on a real group: rows of the measured table.

Outcomes are short words made from errno, from what is read back and from the kernel's count of killed processes.
"""

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.node.cgroups import files
from headrace.node.cgroups.group import Group
from headrace.node.runtimes.protocol import Limits
from tests.node.runtimes.programs import PYTHON

MEBIBYTE = 1 << 20
HELD_MEBIBYTES = 40

_HOLD = "held = bytearray(int(sys.argv[1]) << 20)\nfor at in range(0, len(held), 4096): held[at] = 1\n"
_CACHE = "file = open(sys.argv[2], 'wb')\nfor _ in range(int(sys.argv[1])): file.write(bytes(1 << 20))\nfile.flush()\n"
_CACHE += "import os; os.fsync(file.fileno())\n"  # dirty pages would have to be written before they can be dropped


@dataclass
class Bench:
    """A group without limits, and a place for a file."""

    group: Group
    version: str
    directory: Path

    def file(self, controller: str, name: str) -> Path:
        """On v2 there is one directory; on v1 that of the controller."""
        if self.version == "v2":
            return Path(self.group.directories[0], name)
        [place] = [path for path in map(Path, self.group.directories) if controller in path.parts[4].split(",")]
        return place / name

    def write(self, controller: str, name: str, value: str) -> str:
        """`taken`, `taken as OTHER`, or `refused: ERRNO`; with what became of the processes."""
        path = self.file(controller, name)
        try:
            files.write(path, value)
        except OSError as error:
            return f"refused: {errno.errorcode[error.errno or 0]}"
        found = files.read(path)
        taken = "taken" if found == value else f"taken as {found}"
        return f"{taken}; a process is killed" if self.group.oom_kills() else taken

    def run(self, program: str = "", *arguments: str) -> subprocess.Popen[str]:
        """A process of the group that has done what the program says and then waits."""
        text = f"import sys\nsys.stdin.readline()\n{program}print('ready')\nsys.stdin.readline()"
        process = subprocess.Popen(
            [*PYTHON, text, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, stderr=sys.stderr
        )
        self.group.attach(process.pid)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ready\n"
        return process

    def hold(self) -> None:
        """Memory that has nowhere to go."""
        if self.version == "v2":
            self.write("memory", "memory.swap.max", "0")
        self.run(_HOLD, str(HELD_MEBIBYTES))

    def cache(self) -> None:
        self.run(_CACHE, str(HELD_MEBIBYTES), str(self.directory / "cached"))


@dataclass(frozen=True)
class Operation:
    """Its row's first cell, and what it does on v1 and on v2; None: there is no such thing there."""

    name: str
    v1: Callable[[Bench], str] | None
    v2: Callable[[Bench], str] | None

    def measure(self, bench: Bench) -> str:
        attempt = self.v2 if bench.version == "v2" else self.v1
        return attempt(bench) if attempt is not None else "there is none"


def _write(
    controller: str, name: str, value: str, before: Callable[[Bench], object] | None = None
) -> Callable[[Bench], str]:
    def attempt(bench: Bench) -> str:
        if before is not None:
            before(bench)
        return bench.write(controller, name, value)

    return attempt


def _cpu(name: str, v1_file: str, v1_value: str, v2_value: str) -> Operation:
    return Operation(name, _write("cpu", v1_file, v1_value), _write("cpu", "cpu.max", v2_value))


def _memory(name: str, value: int, before: Callable[[Bench], object] | None = None) -> Operation:
    return Operation(
        name,
        _write("memory", "memory.limit_in_bytes", str(value), before),
        _write("memory", "memory.max", str(value), before),
    )


def _paired(bench: Bench) -> str:
    bench.group.apply(Limits(memory_bytes=64 * MEBIBYTE))
    name = "memory.max" if bench.version == "v2" else "memory.limit_in_bytes"
    return bench.write("memory", name, str(128 * MEBIBYTE))


def _frozen(bench: Bench) -> str:
    bench.run()
    name, freeze, thaw = ("cgroup.freeze", "1", "0") if bench.version == "v2" else ("freezer.state", "FROZEN", "THAWED")
    bench.write("freezer", name, freeze)
    file, value = ("cpu.max", "50000 100000") if bench.version == "v2" else ("cpu.cfs_quota_us", "50000")
    told = bench.write("cpu", file, value)
    bench.write("freezer", name, thaw)
    return told


def _handed_on(bench: Bench) -> str:
    bench.run()
    return bench.write("cpu", "cgroup.subtree_control", "+memory")


def _removed(bench: Bench) -> str:
    bench.run()
    try:
        os.rmdir(bench.file("memory", "."))
    except OSError as error:
        return f"refused: {errno.errorcode[error.errno or 0]}"
    return "taken"


OPERATIONS: Sequence[Operation] = (
    _cpu("CPU quota of 1000 µs in 100 ms (10m)", "cpu.cfs_quota_us", "1000", "1000 100000"),
    _cpu("CPU quota of 500 µs", "cpu.cfs_quota_us", "500", "500 100000"),
    _cpu("CPU quota of 0", "cpu.cfs_quota_us", "0", "0 100000"),
    _cpu("CPU quota of 99 CPUs", "cpu.cfs_quota_us", "9900000", "9900000 100000"),
    _cpu("CPU period of 1 s", "cpu.cfs_period_us", "1000000", "max 1000000"),
    _cpu("CPU period of 2 s", "cpu.cfs_period_us", "2000000", "max 2000000"),
    Operation("CPU share below the least", _write("cpu", "cpu.shares", "1"), _write("cpu", "cpu.weight", "0")),
    Operation("CPU set of CPU 4095", _write("cpuset", "cpuset.cpus", "4095"), _write("cpuset", "cpuset.cpus", "4095")),
    Operation("process limit below those that run", *(_write("pids", "pids.max", "0", Bench.run),) * 2),
    _memory("memory limit of 100000001 bytes", 100_000_001),
    _memory("memory limit of 1 PiB", 1 << 50),
    _memory("memory limit below what processes hold, no swap", 16 * MEBIBYTE, Bench.hold),
    _memory("memory limit below the page cache", 16 * MEBIBYTE, Bench.cache),
    Operation(
        "`memory.high` below what processes hold, no swap",
        None,
        _write("memory", "memory.high", str(16 * MEBIBYTE), Bench.hold),
    ),
    Operation("memory limit grown, limit with swap left as it is", _paired, _paired),
    Operation("any limit while the group is frozen", _frozen, _frozen),
    Operation("controllers handed on below a group with processes", None, _handed_on),
    Operation("group removed while a process is in it", _removed, _removed),
)
