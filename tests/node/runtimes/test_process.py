"""The process runtime, enforced and approximate: the same protocol, the same refusals."""

import asyncio
import os
import signal
from dataclasses import asdict
from pathlib import Path

import pytest

from headrace.node.keeper.client import KeeperRefused
from headrace.node.runtimes.process import ProcessRuntime
from headrace.node.runtimes.protocol import ApplyFailed, Limits, MemoryInUse, NotRunning, StartFailed
from tests.node.eventually import eventually
from tests.node.keeper.conftest import runs
from tests.node.runtimes.conftest import APPROXIMATE, BOTH, MEBIBYTE, Running
from tests.node.runtimes.programs import HOLD

pytestmark = pytest.mark.real_cgroups


async def test_a_container_starts_with_its_limits_and_reads_them_back(running: Running) -> None:
    limits = {"cpu_milli": 500, "memory_bytes": 200 * MEBIBYTE, "cpu_shares_milli": 100}
    state = await running.start("a", "sleep", "60", **limits)
    assert (state.state, state.pod_uid, state.container) == ("running", "uid", "c-a")
    assert await running.runtime.read("a") == Limits(**limits)


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(Limits(), id="nothing is limited"),
        pytest.param(Limits(1000, 256 * MEBIBYTE, 250), id="grow"),
        pytest.param(Limits(250, 64 * MEBIBYTE, 1), id="shrink"),
        pytest.param(Limits(5, None, None), id="less than the least quota at the usual period"),
        pytest.param(Limits(1, 100_000_001, 2), id="one millicore and no whole page"),
        pytest.param(Limits(None, 1 << 40, 100_000), id="more than the machine has"),
    ],
)
async def test_what_is_applied_is_what_is_read(running: Running, limits: Limits) -> None:
    await running.start("a", "sleep", "60", cpu_milli=500, memory_bytes=128 * MEBIBYTE)
    for wanted in (limits, Limits(500, 128 * MEBIBYTE, 100), limits):
        assert await running.runtime.apply("a", wanted) == wanted
        assert await running.runtime.read("a") == wanted


async def test_a_shrink_below_what_is_in_use_is_refused_and_nothing_changes(running: Running) -> None:
    await running.start("a", *HOLD, "80", cpu_milli=1000, memory_bytes=400 * MEBIBYTE)
    await running.says("a", "held")
    before = await running.runtime.read("a")
    with pytest.raises(MemoryInUse) as refused:
        await running.runtime.apply("a", Limits(500, 32 * MEBIBYTE, 50))
    assert refused.value.restored
    assert refused.value.limit_bytes == 32 * MEBIBYTE
    assert 80 * MEBIBYTE <= refused.value.usage_bytes <= 120 * MEBIBYTE
    assert str(32 * MEBIBYTE) in str(refused.value)
    assert str(refused.value.usage_bytes) in str(refused.value)
    assert await running.runtime.read("a") == before
    assert (await running.state("a")).state == "running"


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        pytest.param(Limits(cpu_milli=0), "cpu limit 0m: must be at least 1m", id="no CPU at all"),
        pytest.param(Limits(memory_bytes=0), "memory limit 0 bytes: must be at least", id="no memory at all"),
        pytest.param(Limits(cpu_shares_milli=-1), "cpu request -1m", id="a negative request"),
    ],
)
async def test_zero_is_not_unlimited(running: Running, limits: Limits, words: str) -> None:
    await running.start("a", "sleep", "60", cpu_milli=700)
    with pytest.raises(ApplyFailed, match=words):
        await running.runtime.apply("a", limits)
    assert (await running.runtime.read("a")).cpu_milli == 700
    with pytest.raises(StartFailed, match=words):
        await running.runtime.start(running.spec("b", "true", **asdict(limits)))


async def test_a_second_start_changes_nothing(running: Running) -> None:
    first = await running.start("a", "sleep", "60", cpu_milli=500)
    await running.runtime.apply("a", Limits(900))
    assert await running.start("a", "sleep", "60", cpu_milli=500) == first
    assert (await running.runtime.read("a")).cpu_milli == 900


async def test_a_failed_start_leaves_nothing(running: Running) -> None:
    with pytest.raises(StartFailed, match="executable file not found"):
        await running.start("a", "nosuchprogram", cpu_milli=500)
    assert await running.runtime.list() == []
    assert await running.runtime.strays([]) == {}


async def test_it_ends_by_signal_and_by_kill_and_is_removed(running: Running) -> None:
    await running.start("a", "sleep", "60")
    await running.runtime.signal("a", signal.SIGTERM)
    state = await running.ended("a")
    assert (state.exit_code, state.signal, state.oom_killed) == (143, signal.SIGTERM, False)
    await running.runtime.signal("a", signal.SIGTERM)  # it has exited: no error
    await running.runtime.kill("a")
    for call in (running.runtime.read("a"), running.runtime.apply("a", Limits())):
        with pytest.raises(NotRunning):
            await call
    await running.runtime.remove("a")
    await running.runtime.remove("a")
    assert await running.runtime.list() == []
    await running.runtime.signal("a", signal.SIGTERM)
    await running.runtime.kill("a")
    with pytest.raises(NotRunning, match="does not exist"):
        await running.runtime.read("a")


async def test_a_running_container_is_not_removed(running: Running) -> None:
    state = await running.start("a", "sleep", "60")
    with pytest.raises(KeeperRefused, match="has not exited"):
        await running.runtime.remove("a")
    assert runs(state.pid)


async def test_changes_tell_of_start_and_end(running: Running) -> None:
    seen: list[str] = []

    async def follow() -> None:
        async for id in running.runtime.changes():
            seen[len(seen) :] = [id]

    await running.start("before", "sleep", "60")
    task = asyncio.create_task(follow())
    await eventually(lambda: seen == ["before"])
    await running.start("a", "true")
    await eventually(lambda: seen[-1:] == ["a"])
    await running.ended("a")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_strays_are_what_runs_and_is_not_wanted(running: Running) -> None:
    for id in ("a", "b"):
        await running.start(id, "sleep", "60", cpu_milli=2000 if id == "b" else 300, memory_bytes=64 * MEBIBYTE)
    await running.start("c", "true")
    await running.ended("c")
    strays = await running.runtime.strays(["b"])
    assert strays.keys() == {"a"}
    assert strays["a"].memory_bytes == 64 * MEBIBYTE


@pytest.mark.parametrize("hierarchies", BOTH)
async def test_a_data_directory_that_does_not_exist_is_made(tmp_path: Path, hierarchies) -> None:
    runtime = await ProcessRuntime.open(tmp_path / "new/deep", hierarchies)
    assert await runtime.list() == []
    await runtime.stop_keeper()


@pytest.mark.parametrize("hierarchies", BOTH)
async def test_the_next_runtime_knows_the_containers_of_the_last(tmp_path: Path, hierarchies) -> None:
    first = Running(await ProcessRuntime.open(tmp_path, hierarchies), tmp_path)
    state = await first.start("a", "sleep", "60", cpu_milli=300, memory_bytes=64 * MEBIBYTE)
    await first.runtime.apply("a", Limits(1000, 100 * MEBIBYTE))
    await first.runtime.close()
    second = Running(await ProcessRuntime.open(tmp_path, hierarchies), tmp_path)
    assert await second.runtime.list() == [state]
    assert (await second.runtime.read("a")).memory_bytes == 100 * MEBIBYTE
    await second.clear()


async def test_the_approximation_says_so(approximate: Running) -> None:
    told = approximate.runtime.capabilities()
    assert (told.cpu, told.memory, told.cgroup_version) == ("approximate", "approximate", "none")
    assert "no cgroup hierarchy is mounted" in told.detail


async def test_an_approximate_cpu_limit_is_whole_cpus(approximate: Running) -> None:
    state = await approximate.start("a", "sleep", "60", cpu_milli=500)
    assert len(os.sched_getaffinity(state.pid)) == 1
    assert (await approximate.runtime.read("a")).cpu_milli == 500
    await approximate.runtime.apply("a", Limits(cpu_milli=64_000))
    assert os.sched_getaffinity(state.pid) == os.sched_getaffinity(0)


async def test_an_approximate_memory_limit_stops_growth(approximate: Running) -> None:
    await approximate.start("a", *HOLD, "200", memory_bytes=100 * MEBIBYTE)
    state = await approximate.ended("a")
    assert state.exit_code == 1
    assert "MemoryError" in approximate.log("a")[-1]


async def test_a_missing_cgroup_tree_is_no_reason_to_fail(tmp_path: Path) -> None:
    runtime = await ProcessRuntime.open(tmp_path, APPROXIMATE)
    assert runtime.capabilities().cgroup_version == "none"
    await runtime.stop_keeper()
