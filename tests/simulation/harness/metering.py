"""What is measured of the simulated containers, and how it reaches the MonitoringServer: samples that are lost, late or
doubled, and an application's own latency behind an endpoint that the real Scraper reads.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from random import Random
from typing import Any

from headrace.resize.monitoring import Monitoring
from headrace.resize.scraper import Scraper
from headrace.wire.generated import agents_pb2 as wire
from tests.simulation.harness.containers import Container, Machine

PERIOD_SECONDS = 10.0
LOST, DOUBLED = 0.03, 0.02
BEST_LATENCY, PORT = 100.0, 9000


class Metering:
    """`monitoring` and `scraper` are those of the controllers that run now, None while there are none."""

    def __init__(self, machines: Mapping[str, Machine], wall: Callable[[], float], random: Random) -> None:
        self.monitoring: Monitoring | None = None
        self.scraper: Scraper | None = None
        self._machines, self._wall, self._random = machines, wall, random
        self._measured_at = 0.0

    async def run(self, is_heard: Callable[[str], bool]) -> None:
        """Until cancelled. `is_heard`: whether packets of this node reach the server now."""
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            now = asyncio.get_running_loop().time()
            seconds, self._measured_at = now - self._measured_at, now
            for node, machine in self._machines.items():
                samples = [_sample(each, self._wall(), seconds) for each in machine.running()]
                heard = is_heard(node) and self._random.random() >= LOST
                if self.monitoring is not None and heard:
                    for _ in range(2 if self._random.random() < DOUBLED else 1):
                        self.monitoring.samples(node, wire.Samples(samples=samples))
            if self.scraper is not None:
                await self.scraper.scrape(_Web(self._running()))  # type: ignore[arg-type]

    def _running(self) -> dict[str, Container]:
        """By what an endpoint's URL has of its Pod."""
        found = {}
        for machine in self._machines.values():
            for each in machine.running():
                found.setdefault(f"/{each.spec.pod}", each)
        return found


def annotations(namespace: str, name: str) -> dict[str, str]:
    """Of a Pod that shows its latency."""
    path = f"/{namespace}/{name}"
    return {"prometheus.io/scrape": "true", "prometheus.io/port": str(PORT), "prometheus.io/path": path}


def _sample(container: Container, at: float, seconds: float) -> wire.Sample:
    """Of the last `seconds`: it uses what it needs, up to its limit."""
    limit = container.limits.cpu_milli or container.demand_milli
    container.cpu_seconds += min(container.demand_milli, limit) / 1000 * seconds
    container.periods += round(seconds * 10)
    container.throttled_periods += round(seconds * 10) if container.demand_milli > limit else 0
    return wire.Sample(
        workload=f"{container.spec.pod}/{container.spec.container}",
        at=at,
        cpu_seconds=container.cpu_seconds,
        periods=container.periods,
        throttled_periods=container.throttled_periods,
        memory_bytes=container.memory_used,
        working_set_bytes=container.memory_used,
    )


class _Web:
    """As much of an HTTP client as the Scraper uses."""

    def __init__(self, running: Mapping[str, Container]) -> None:
        self._running = running

    def get(self, url: str, **options: Any) -> "_Answer":
        return _Answer(self._running.get("/" + url.split("/", 3)[3]))


class _Answer:
    def __init__(self, container: Container | None) -> None:
        self._container = container
        self.status = 200 if container is not None else 404
        self.content = self
        self.headers: dict[str, str] = {}

    async def __aenter__(self) -> "_Answer":
        return self

    async def __aexit__(self, *error: object) -> None:
        return None

    async def iter_any(self) -> AsyncIterator[bytes]:
        assert self._container is not None
        limit = self._container.limits.cpu_milli or self._container.demand_milli
        latency = BEST_LATENCY * max(1.0, self._container.demand_milli / limit)
        yield f"latency {latency}\n".encode()
