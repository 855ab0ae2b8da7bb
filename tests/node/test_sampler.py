"""The sampler: each running container once a period, at one moment, without holding the loop."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog

from headrace.metrics.memory import MemoryMetrics
from headrace.metrics.protocol import Usage
from headrace.node.cgroups import directories, hierarchy
from headrace.node.cgroups.group import Meter
from headrace.node.cgroups.tree import plant
from headrace.node.runtimes.protocol import Limits, RuntimeUnavailable, Unreadable
from headrace.node.sampler import PERIOD_SECONDS, RETRY_SECONDS, Sampler
from headrace.node.samples import Outgoing
from tests.node.eventually import eventually
from tests.node.runtimes.conftest import BOTH, Running, needs_cgroups, opened
from tests.node.runtimes.programs import SPIN

LOG = structlog.get_logger()


class Gauge:
    """A meter that shows how often it was read; it fails from the given reading on."""

    def __init__(self, readings: int = 10**9) -> None:
        self.left, self.closed = readings, 0

    def read(self, at: float) -> Usage:
        if not self.left:
            raise OSError(19, "No such device")
        self.left -= 1
        return Usage(at, at, 0, 0, 0, 0, None, None, 0)

    def close(self) -> None:
        self.closed += 1


class Source:
    """A runtime that tells of what is put into it."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[str] = asyncio.Queue()
        self.meters: dict[str, Gauge] = {}

    async def changes(self) -> AsyncIterator[str]:
        while True:
            yield await self.told.get()
            self.told.task_done()

    async def metered(self, id: str) -> tuple[str, Meter] | None:
        meter = self.meters.get(id)
        return (f"default/{id}/c", meter) if meter is not None else None

    async def tell(self, id: str) -> None:
        self.told.put_nowait(id)
        await self.told.join()


@pytest.mark.looptime
async def test_what_runs_is_measured_each_second_until_it_ends() -> None:
    source, metrics = Source(), MemoryMetrics()
    sampler = Sampler(metrics, asyncio.get_running_loop().time)
    tasks = [asyncio.create_task(sampler.follow(source, LOG)), asyncio.create_task(sampler.run())]
    first = source.meters["a"] = Gauge()
    await source.tell("a")
    await asyncio.sleep(10 * PERIOD_SECONDS + 0.5)
    assert [sample.at for sample in metrics.samples("default/a/c", 0)] == pytest.approx(range(11))
    del source.meters["a"]
    await source.tell("a")
    assert first.closed == 1
    await asyncio.sleep(5)
    assert len(metrics.samples("default/a/c", 0)) == 11
    second = source.meters["a"] = Gauge(readings=3)
    await source.tell("a")
    await asyncio.sleep(10)
    assert len(metrics.samples("default/a/c", 0)) == 14
    assert second.closed == 1  # its cgroup went away before anybody told
    last = source.meters["b"] = Gauge()
    await source.tell("b")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert last.closed == 1


class Failing(Source):
    """`ending` ends its changes once; the meters of `odd` cannot be had."""

    def __init__(self) -> None:
        super().__init__()
        self.ending: Exception | None = None
        self.odd: set[str] = set()

    async def changes(self) -> AsyncIterator[str]:
        if self.ending is not None:
            ending, self.ending = self.ending, None
            raise ending
        async for id in super().changes():
            yield id

    async def metered(self, id: str) -> tuple[str, Meter] | None:
        if id in self.odd:
            raise Unreadable(f"container {id}: memory.stat: Too many open files")
        return await super().metered(id)


@pytest.mark.looptime
async def test_whatever_a_runtime_does_measuring_goes_on() -> None:
    source, metrics = Failing(), MemoryMetrics()
    source.ending = RuntimeUnavailable("nobody answers")
    sampler = Sampler(metrics, asyncio.get_running_loop().time)
    tasks = [asyncio.create_task(sampler.follow(source, LOG)), asyncio.create_task(sampler.run())]
    source.meters |= {"a": Gauge(), "b": Gauge()}
    source.odd = {"a"}
    await source.tell("a")
    await source.tell("b")
    await asyncio.sleep(3 * PERIOD_SECONDS)
    assert metrics.samples("default/b/c", 0)
    assert not metrics.samples("default/a/c", 0)
    source.odd.clear()
    await asyncio.sleep(RETRY_SECONDS + 2 * PERIOD_SECONDS)
    assert metrics.samples("default/a/c", 0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.looptime
async def test_each_round_goes_out_as_soon_as_it_is_measured_and_the_newest_sample_counts() -> None:
    source, samples = Source(), Outgoing()
    now = asyncio.get_running_loop().time
    sampler = Sampler(samples, now, 5.0, samples.measured)
    source.meters["a"] = Gauge()
    tasks = [asyncio.create_task(sampler.follow(source, LOG)), asyncio.create_task(sampler.run())]
    await source.tell("a")
    await asyncio.sleep(0.1)  # the round of the start is out
    await samples.ready()
    samples.take()
    for moment in (5.0, 10.0):
        await samples.ready()
        assert now() == pytest.approx(moment)
        batch = samples.take()
        assert batch is not None
        assert [(each.workload, each.at) for each in batch.samples] == [("default/a/c", pytest.approx(moment))]
    await asyncio.sleep(11)  # nobody has taken two rounds
    await samples.ready()
    batch = samples.take()
    assert batch is not None
    assert [each.at for each in batch.samples] == [pytest.approx(20.0)]
    assert samples.take() is None
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.looptime
async def test_a_clock_that_is_set_back_by_an_hour_stops_no_sampling() -> None:
    """The next round is at most one period away, whatever the wall clock says meanwhile."""
    now, rounds = asyncio.get_running_loop().time, list[float]()
    back = 0.0

    def measured() -> None:
        rounds.append(now())

    class SetBack:
        def record(self, workload: str, usage: Usage) -> None:
            nonlocal back
            back = 3600.0

    sampler = Sampler(SetBack(), lambda: now() - back, measured=measured)
    sampler._meters["a"] = ("default/a/c", Gauge())
    task = asyncio.create_task(sampler.run())
    await asyncio.sleep(3.5)
    assert rounds == pytest.approx([0, 1, 2, 3])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(params=BOTH)
async def running(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Running]:
    async for running in opened(tmp_path, request.param):
        yield running


async def test_a_real_container_is_measured(running: Running) -> None:
    metrics = MemoryMetrics()
    sampler = Sampler(metrics, time.time, period_seconds=0.05)
    tasks = [asyncio.create_task(sampler.follow(running.runtime, LOG)), asyncio.create_task(sampler.run())]
    await running.start("a", *SPIN, cpu_milli=300)

    def look() -> bool:
        samples = metrics.samples("default/pod/c-a", 0)
        return len(samples) >= 5 and samples[-1].cpu_seconds > samples[0].cpu_seconds

    await eventually(look)
    latest = metrics.latest("default/pod/c-a")
    assert latest is not None
    assert latest.working_set_bytes > 0
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.slow
@needs_cgroups
async def test_five_hundred_containers_cost_at_most_three_percent_of_a_core() -> None:
    tree = plant(hierarchy.find(), "sampler-test")
    groups = [tree.group(f"g{number}") for number in range(500)]
    for group in groups:
        group.create(Limits(100, 64 << 20, 100))
    sampler = Sampler(MemoryMetrics(), time.time)
    source = Source()
    try:
        for number, group in enumerate(groups):
            sampler._meters[str(number)] = (f"default/{number}/c", group.meter())
        await sampler.sample()
        began = time.process_time()
        for _ in range(5):
            await sampler.sample()
        used = (time.process_time() - began) / 5
    finally:
        for number, group in enumerate(groups):
            sampler.remove(str(number))
            group.remove()
        directories.prune(tree.parents)
    assert not source.meters
    assert used <= 0.03 * PERIOD_SECONDS, f"{used * 1000:.1f} ms a round"
