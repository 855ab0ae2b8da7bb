"""What an agent's runtime does with each change of limits that can be asked for: the rows of the measured table.

Written against the Runtime protocol, so that every runtime is asked the same.
"""

import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headrace.node.cgroups import files, hierarchy
from headrace.node.runtimes.protocol import ApplyFailed, ContainerState, Limits, MemoryInUse, NotRunning, Runtime
from tests.node.eventually import eventually

MEBIBYTE = 1 << 20
FIRST = Limits(500, 96 * MEBIBYTE, 100)
SLEEP = ("sleep", "600")


class Home(Protocol):
    """What the tests of each runtime have already."""

    @property
    def runtime(self) -> Runtime: ...

    async def start(self, id: str, *argv: str, **limits: int) -> ContainerState: ...

    async def ended(self, id: str) -> ContainerState: ...

    def log(self, id: str) -> list[str]: ...


@dataclass
class Bench:
    """`hold` and `cache` make commands that say `ready` once they hold, or have written to a file, 40 MiB."""

    home: Home
    hold: Sequence[str]
    cache: Sequence[str]

    async def start(self, argv: Sequence[str] = SLEEP) -> ContainerState:
        limits = {"cpu_milli": FIRST.cpu_milli, "memory_bytes": FIRST.memory_bytes, "cpu_shares_milli": 100}
        state = await self.home.start("a", *argv, **limits)
        if argv is not SLEEP:
            await eventually(lambda: "ready" in self.home.log("a"), 30)
        return state

    async def apply(self, limits: Limits) -> str:
        """What came of it, in the words of the table; what was refused has changed nothing, or this says so."""
        before = await self.read()
        try:
            found = await self.home.runtime.apply("a", limits)
        except NotRunning:
            return "refused: it has ended"
        except ApplyFailed as refused:
            in_use = isinstance(refused, MemoryInUse)
            words = "below the memory in use" if in_use else str(refused)
            same = await self.read() == before and refused.restored
            return f"refused, nothing changes: {words}" if same else f"refused, but changed: {words}"
        running = (await self.home.runtime.list())[0].state == "running"
        return "applied" if found == limits == await self.read() and running else f"applied as {found}"

    async def read(self) -> Limits | None:
        try:
            return await self.home.runtime.read("a")
        except NotRunning:
            return None


@dataclass(frozen=True)
class Operation:
    name: str
    measure: Callable[[Bench], Awaitable[str]]


def _apply(name: str, limits: Limits, program: Callable[[Bench], Sequence[str]] = lambda bench: SLEEP) -> Operation:
    async def measure(bench: Bench) -> str:
        await bench.start(program(bench))
        return await bench.apply(limits)

    return Operation(name, measure)


def _limits(cpu: int | None = 500, memory: int | None = 96 * MEBIBYTE, shares: int | None = 100) -> Limits:
    return Limits(cpu, memory, shares)


async def _stopped(bench: Bench) -> str:
    state = await bench.start()
    os.kill(state.pid, signal.SIGSTOP)
    return await bench.apply(_limits(250, 64 * MEBIBYTE))


async def _ended(bench: Bench) -> str:
    await bench.start()
    await bench.home.runtime.kill("a")
    await bench.home.ended("a")
    return await bench.apply(_limits(250))


def _place(pid: int, controller: str) -> Path:
    hierarchies = hierarchy.find()
    return hierarchies.places(pid)[hierarchy.UNIFIED if hierarchies.version == "v2" else controller]


async def _by_hand(bench: Bench) -> str:
    state = await bench.start()
    place = _place(state.pid, "cpu")
    name, value = ("cpu.max", "33000 100000") if (place / "cpu.max").exists() else ("cpu.cfs_quota_us", "33000")
    files.write(place / name, value)
    found = await bench.read()
    seen = "seen" if found is not None and found.cpu_milli == 330 else "not seen"
    back = "put back" if await bench.apply(FIRST) == "applied" else "not put back"
    return f"{seen}, {back}"


async def _others_limits(bench: Bench) -> str:
    state = await bench.start()
    pids = _place(state.pid, "pids") / "pids.max"
    files.write(pids, "1024")
    told = await bench.apply(_limits(memory=128 * MEBIBYTE))
    return f"{told}, the other {'stays' if files.read(pids) == '1024' else 'is lost'}"


OPERATIONS: Sequence[Operation] = (
    _apply("more CPU", _limits(1500)),
    _apply("less CPU", _limits(250)),
    _apply("5m of CPU", _limits(5)),
    _apply("0 of CPU", _limits(0)),
    _apply("99 CPUs", _limits(99_000)),
    _apply("no limit of CPU", _limits(None)),
    _apply("another CPU request", _limits(shares=400)),
    _apply("more memory", _limits(memory=256 * MEBIBYTE)),
    _apply("less memory, more than is in use", _limits(memory=64 * MEBIBYTE), lambda bench: bench.hold),
    _apply("less memory than is in use", _limits(memory=16 * MEBIBYTE), lambda bench: bench.hold),
    _apply("more CPU, and less memory than is in use", _limits(1500, memory=16 * MEBIBYTE), lambda bench: bench.hold),
    _apply("less memory than the page cache", _limits(memory=16 * MEBIBYTE), lambda bench: bench.cache),
    _apply("memory of no whole page", _limits(memory=100_000_001)),
    _apply("4096 bytes of memory", _limits(memory=4096)),
    _apply("no limit of memory", _limits(memory=None)),
    Operation("less of both while its processes are stopped", _stopped),
    Operation("any change after it has ended", _ended),
    Operation("a CPU limit changed by hand", _by_hand),
    Operation("more memory, beside a process limit set by hand", _others_limits),
)
