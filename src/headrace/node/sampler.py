"""Measures every container once a second through kept descriptors and hands the samples to Metrics.

It only reads: a container that is gone is dropped, and what its numbers mean is for the jobs to judge.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from headrace.metrics.protocol import Recorder
from headrace.node.cgroups.group import Meter

PERIOD_SECONDS = 1.0
RETRY_SECONDS = 5.0
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
        self._unmeasured: set[str] = set()  # what runs, as far as we know, and has no meter yet

    async def follow(self, runtime: Metered, log: FilteringBoundLogger) -> None:
        """Until cancelled: measure what runs. What cannot be measured is told, and tried again."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._retry(runtime, log), name="sampler retries")
            while True:
                try:
                    async for id in runtime.changes():
                        await self._take(runtime, id, log)
                except Exception as error:  # a runtime that is gone: what has a meter is measured on
                    log.warning("new containers are not measured", error=str(error) or type(error).__name__)
                await asyncio.sleep(RETRY_SECONDS)

    async def _retry(self, runtime: Metered, log: FilteringBoundLogger) -> None:
        while True:
            await asyncio.sleep(RETRY_SECONDS)
            for id in tuple(self._unmeasured):
                await self._take(runtime, id, log)

    async def _take(self, runtime: Metered, id: str, log: FilteringBoundLogger) -> None:
        try:
            found = await runtime.metered(id)
        except Exception as error:  # no descriptor is free, say: one container's trouble is not the others'
            if id not in self._unmeasured:
                self._unmeasured.add(id)
                log.warning("container is not measured", container=id, error=str(error) or type(error).__name__)
            return
        self._unmeasured.discard(id)
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
