"""Runs controllers together: informers first, then workers; at the end the workers stop before the caches do.

All tasks belong to one TaskGroup: when one fails for good, all stop and the failure is raised.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from structlog.typing import FilteringBoundLogger

from headrace.runtime.cache import Informers
from headrace.runtime.clock import Clock
from headrace.runtime.controller import Controller, Job
from headrace.runtime.events import Recorder
from headrace.runtime.metrics import ControllerMetrics
from headrace.store.protocol import Store

S = TypeVar("S")
DRAIN_SECONDS = 10.0


class ControllerManager:
    """Put together by whoever starts the process; controllers get their informers from `informers`."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        random: Callable[[], float],
        metrics: ControllerMetrics,
        log: FilteringBoundLogger,
        ordered: bool = True,
    ) -> None:
        """`ordered`: whether this home's resourceVersions are numbers of one counter and may be compared."""
        self._store, self._clock, self._random, self._metrics, self._log = store, clock, random, metrics, log
        self.informers = Informers(store, clock=clock, random=random, log=log, ordered=ordered)
        self.recorder = Recorder(store, clock=clock, log=log, dropped=metrics.events_dropped.inc)
        self._controllers: list[Controller[Any]] = []
        self._stopping = asyncio.Event()

    def add(self, job: Job[S], *, workers: int = 2) -> Controller[S]:
        controller = Controller(
            job,
            self._store,
            clock=self._clock,
            random=self._random,
            recorder=self.recorder,
            metrics=self._metrics.of(job.name),
            log=self._log,
            workers=workers,
        )
        self._controllers.append(controller)
        return controller

    async def wait_until_synced(self) -> None:
        await self.informers.wait_until_synced()

    def stop(self) -> None:
        """Ask `run` to end gracefully."""
        self._stopping.set()

    async def run(self) -> None:
        """Until `stop`, which lets keys in work finish for up to DRAIN_SECONDS, or until cancelled (no drain)."""
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(self.informers.run(), name="informers"),
                tasks.create_task(self.recorder.run(), name="events"),
            ]
            working = [tasks.create_task(each.run(), name=each.name) for each in self._controllers]
            await self._stopping.wait()
            for controller, task in zip(self._controllers, working, strict=True):
                controller.stop()
                if not controller.is_started:
                    task.cancel()
            if working:
                _, late = await asyncio.wait(working, timeout=DRAIN_SECONDS)
                for task in late:
                    self._log.warning("controller did not stop in time", controller=task.get_name())
                    task.cancel()
            try:
                async with asyncio.timeout(DRAIN_SECONDS):
                    await self.recorder.flush()
            except TimeoutError:
                self._log.warning("events not written in time")
            for task in background:
                task.cancel()
