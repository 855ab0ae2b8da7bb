"""A simulated runtime: containers that start, exit, take limits, refuse to shrink below what they use, and drift.

It is the truth of its node: it outlives agents, and the laws read it, not what anybody reports of it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from random import Random

from headrace.node.runtimes.protocol import (
    ApplyFailed,
    Capabilities,
    ContainerSpec,
    ContainerState,
    Limits,
    MemoryInUse,
    NotRunning,
)

MEBIBYTE = 1024 * 1024


@dataclass(slots=True)
class Container:
    """`drifted`: somebody changed its limits by hand since they were last set."""

    spec: ContainerSpec
    state: ContainerState
    limits: Limits
    memory_used: int = 16 * MEBIBYTE
    drifted: bool = False
    demand_milli: int = 50
    cpu_seconds: float = 0.0
    periods: int = 0
    throttled_periods: int = 0

    @property
    def is_running(self) -> bool:
        return self.state.state == "running"


@dataclass(slots=True)
class Trouble:
    """How often (0 to 1) an operation is slow, and how often setting limits fails half way."""

    slow: float = 0.0
    fails: float = 0.0


@dataclass(slots=True)
class Machine:
    """What runs on one node."""

    random: Random
    wall: Callable[[], float]
    changed: Callable[[], None]
    containers: dict[str, Container] = field(default_factory=dict)
    started: dict[str, int] = field(default_factory=dict)
    trouble: Trouble = field(default_factory=Trouble)
    pids: int = 100
    listeners: list["asyncio.Queue[str]"] = field(default_factory=list)

    def running(self) -> list[Container]:
        return [each for each in self.containers.values() if each.is_running]

    def exit(self, id: str, code: int, signal: int | None = None) -> None:
        container = self.containers.get(id)
        if container is not None and container.is_running:
            state = replace(container.state, state="exited", finished_at=self.wall(), exit_code=code, signal=signal)
            container.state = state
            self.tell(id)

    def tell(self, id: str) -> None:
        self.changed()
        for listener in self.listeners:
            listener.put_nowait(id)

    def drift(self, id: str, limits: Limits) -> None:
        container = self.containers[id]
        container.limits, container.drifted = limits, True


class SimulatedRuntime:
    """The Runtime protocol over a Machine. Every call takes a moment; a dead agent's calls end where they are."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def capabilities(self) -> Capabilities:
        return Capabilities("enforced", "enforced", "simulated", "v1")

    async def start(self, spec: ContainerSpec) -> ContainerState:
        await self._moment()
        machine = self._machine
        known = machine.containers.get(spec.id)
        if known is not None:
            return known.state
        machine.started[spec.id] = machine.started.get(spec.id, 0) + 1
        machine.pids += 1
        state = ContainerState(spec.id, spec.pod_uid, spec.container, "running", machine.pids, 1, machine.wall())
        machine.containers[spec.id] = Container(spec, state, spec.limits)
        machine.tell(spec.id)
        await self._moment()
        return state

    async def signal(self, id: str, number: int) -> None:
        await self._moment()
        if id in self._machine.containers and self._machine.random.random() < 0.7:  # others wait to be killed
            asyncio.get_running_loop().call_later(0.2, self._machine.exit, id, 143, number)

    async def kill(self, id: str) -> None:
        await self._moment()
        if id in self._machine.containers:
            self._machine.exit(id, 137, 9)

    async def remove(self, id: str) -> None:
        await self._moment()
        container = self._machine.containers.get(id)
        if container is not None and container.is_running:
            raise OSError(f"container {id} runs")
        self._machine.containers.pop(id, None)
        self._machine.changed()

    async def list(self) -> list[ContainerState]:
        await self._moment()
        return [each.state for each in self._machine.containers.values()]

    async def apply(self, id: str, limits: Limits) -> Limits:
        await self._moment()
        container = self._found(id)
        if limits.memory_bytes is not None and limits.memory_bytes < container.memory_used:
            raise MemoryInUse(
                f"memory limit {limits.memory_bytes} is below {container.memory_used} in use",
                container.memory_used,
                limits.memory_bytes,
            )
        if self._machine.random.random() < self._machine.trouble.fails:
            raise ApplyFailed("cannot write cpu.max: the device is busy")
        container.limits, container.drifted = limits, False
        self._machine.changed()
        await self._moment()
        return container.limits

    async def read(self, id: str) -> Limits:
        await self._moment()
        return self._found(id).limits

    async def changes(self) -> AsyncIterator[str]:
        listener: asyncio.Queue[str] = asyncio.Queue()
        self._machine.listeners.append(listener)
        try:
            for id in tuple(self._machine.containers):  # whoever begins to listen hears first what there is
                yield id
            while True:
                yield await listener.get()
        finally:
            self._machine.listeners.remove(listener)

    def _found(self, id: str) -> Container:
        container = self._machine.containers.get(id)
        if container is None or not container.is_running:
            raise NotRunning(f"container {id} does not run")
        return container

    async def _moment(self) -> None:
        slow = self._machine.random.random() < self._machine.trouble.slow
        await asyncio.sleep(self._machine.random.uniform(1.0, 8.0) if slow else 0.002)
