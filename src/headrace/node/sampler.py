"""Measures every container once a second through kept descriptors and hands the samples to Metrics.

It only reads: a container that is gone is dropped, and what its numbers mean is for the jobs to judge.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from headrace.metrics.protocol import Recorder
from headrace.node.cgroups.group import Meter

PERIOD_SECONDS = 1.0
SLICE = 20  # containers read at one go, so that the event loop is never held for long


class Metered(Protocol):
    """A runtime whose containers can be measured."""

    def changes(self) -> AsyncIterator[str]: ...

    async def metered(self, id: str) -> tuple[str, Meter] | None:
        """The workload (namespace/pod/container) and a new meter; None when the container does not run."""
        ...


class Sampler:
    """Run `follow` and `run` side by side. Time and sleep come from outside; `measured` is told of each full round."""

    def __init__(
        self,
        metrics: Recorder,
        clock: Callable[[], float],
        period_seconds: float = PERIOD_SECONDS,
        measured: Callable[[], None] = lambda: None,
    ) -> None:
        self._metrics, self._clock, self._period, self._measured = metrics, clock, period_seconds, measured
        self._meters: dict[str, tuple[str, Meter]] = {}

    async def follow(self, runtime: Metered) -> None:
        """Until cancelled: measure what runs."""
        async for id in runtime.changes():
            found = await runtime.metered(id)
            if found is None:
                self.remove(id)
            elif id not in self._meters:
                self._meters[id] = found
            else:
                found[1].close()

    async def run(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Sample until cancelled; then all descriptors are closed."""
        try:
            while True:
                began = self._clock()
                await self.sample()
                self._measured()
                took = self._clock() - began
                await sleep(min(self._period, max(0.0, self._period - took)))  # whatever the clock was set to meanwhile
        finally:
            for id in list(self._meters):
                self.remove(id)

    async def sample(self) -> None:
        """One round over all containers, at one moment of time."""
        at = self._clock()
        for number, (id, (workload, meter)) in enumerate(list(self._meters.items())):
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            if id not in self._meters:  # removed while we waited; its descriptors are closed
                continue
            try:
                usage = meter.read(at)
            except OSError:  # ENODEV: its cgroup is gone
                self.remove(id)
                continue
            self._metrics.record(workload, usage)

    def remove(self, id: str) -> None:
        found = self._meters.pop(id, None)
        if found is not None:
            found[1].close()
