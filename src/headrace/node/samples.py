"""Samples on their way to the control plane: the newest of each container, dropped rather than queued."""

import asyncio
from collections.abc import Callable

from headrace.metrics.protocol import Usage
from headrace.wire.generated import agents_pb2 as wire

MOST = 2000


class Outgoing:
    """What the sampler records into. Only the newest sample of a workload waits."""

    def __init__(self) -> None:
        self.drifts: Callable[[], int] = lambda: 0
        self._waiting: dict[str, Usage] = {}
        self._measured = asyncio.Event()

    def record(self, workload: str, usage: Usage) -> None:
        if workload in self._waiting or len(self._waiting) < MOST:
            self._waiting[workload] = usage

    def measured(self) -> None:
        """A round is complete: it goes out now, not in a rhythm of its own."""
        self._measured.set()

    async def ready(self) -> None:
        """Returns when a round was completed since the last time."""
        await self._measured.wait()
        self._measured.clear()

    def take(self) -> wire.Samples | None:
        """All that waits, in one message; None if nothing does."""
        if not self._waiting:
            return None
        waiting, self._waiting = self._waiting, {}
        samples = [_sample(workload, usage) for workload, usage in waiting.items()]
        return wire.Samples(samples=samples, drifts=self.drifts())


def _sample(workload: str, usage: Usage) -> wire.Sample:
    return wire.Sample(
        workload=workload,
        at=usage.at,
        cpu_seconds=usage.cpu_seconds,
        periods=usage.periods,
        throttled_periods=usage.throttled_periods,
        memory_bytes=usage.memory_bytes,
        working_set_bytes=usage.working_set_bytes,
        pressure_cpu=usage.pressure_cpu,
        pressure_memory=usage.pressure_memory,
        oom_kills=usage.oom_kills,
    )
