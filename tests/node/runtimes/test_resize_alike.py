"""A resize means the same on cgroup v1 and v2: what users of other systems met, on whichever of the two is here."""

import os
import time
from pathlib import Path

import pytest

from headrace.node.cgroups import files, hierarchy
from headrace.node.cgroups.hierarchy import UNIFIED
from headrace.node.runtimes.process import ProcessRuntime
from headrace.node.runtimes.protocol import ApplyFailed, Limits, MemoryInUse
from tests.node.eventually import eventually
from tests.node.runtimes.conftest import MEBIBYTE, Running, needs_cgroups
from tests.node.runtimes.programs import HOLD, PYTHON, SPIN

pytestmark = [needs_cgroups, pytest.mark.real_cgroups]
VERSION = hierarchy.find().version
needs_v2 = pytest.mark.skipif(VERSION != "v2", reason="a test of v2")
HAS_PRESSURE = VERSION in ("v2", "hybrid") and Path("/proc/pressure/cpu").exists()
HAS_SWAP = len(Path("/proc/swaps").read_text(encoding="ascii").splitlines()) > 1

FILE = (
    *PYTHON,
    "import os, sys, time\n"
    "held = bytearray(b'x') * (20 << 20)\n"
    "with open(sys.argv[1], 'wb') as file:\n"
    "    for _ in range(100): file.write(bytes(1 << 20))\n"
    "    file.flush()\n"
    "    os.fsync(file.fileno())\n"
    "print('written')\n"
    "for _ in range(int(sys.argv[2])):\n"
    "    with open(sys.argv[1], 'rb') as file:\n"
    "        while file.read(1 << 20): pass\n"
    "print('hot')\n"
    "time.sleep(600)",
)
"""Its arguments: a file of 100 MiB, and how often it is read after it was written. It has 20 MiB of its own too."""


def place(pid: int, controller: str) -> Path:
    return hierarchy.find().places(pid)[UNIFIED if VERSION == "v2" else controller]


def cpu_files(pid: int) -> tuple[int, int]:
    """Quota and period in microseconds, as the kernel has them."""
    if VERSION == "v2":
        quota, period = files.read(place(pid, "cpu") / "cpu.max").split()
        return int(quota), int(period)
    names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    quota, period = (files.read_number(place(pid, "cpu") / name) for name in names)
    return quota, period


async def used_cpus(running: Running, seconds: float) -> float:
    """CPUs used on average over at least so long, by the kernel's own count and clock."""
    found = await running.runtime.metered("a")
    assert found is not None
    _, meter = found
    began = meter.read(time.monotonic())
    ended = await eventually(lambda: (seen := meter.read(time.monotonic())).at - began.at >= seconds and seen, 60)
    meter.close()
    return (ended.cpu_seconds - began.cpu_seconds) / (ended.at - began.at)


async def test_a_shrink_below_what_is_in_use_is_refused_in_the_same_words(running_77: Running) -> None:
    before = await running_77.runtime.read("a")
    with pytest.raises(MemoryInUse) as refused:
        await running_77.runtime.apply("a", Limits(1000, 32 * MEBIBYTE, 100))
    usage = refused.value.usage_bytes
    assert str(refused.value) == (
        f"memory limit {32 * MEBIBYTE} bytes is below the {usage} bytes in use: nothing was changed"
    )
    assert 77 * MEBIBYTE <= usage <= 100 * MEBIBYTE
    assert refused.value.restored
    assert await running_77.runtime.read("a") == before
    state = await running_77.state("a")
    assert (state.state, state.oom_killed) == ("running", False)


@pytest.fixture
async def running_77(enforced: Running) -> Running:
    await enforced.start("a", *HOLD, "77", cpu_milli=500, memory_bytes=256 * MEBIBYTE, cpu_shares_milli=100)
    await enforced.says("a", "held")
    return enforced


async def test_a_tiny_memory_limit_changes_neither_the_limit_nor_the_request(running_77: Running) -> None:
    before = await running_77.runtime.read("a")
    with pytest.raises(MemoryInUse):
        await running_77.runtime.apply("a", Limits(200, MEBIBYTE, 50))
    assert await running_77.runtime.read("a") == before


async def test_memory_grows_past_the_limit_of_memory_with_swap(running_77: Running) -> None:
    await running_77.runtime.apply("a", Limits(500, 100 * MEBIBYTE, 100))
    await running_77.runtime.apply("a", Limits(500, 400 * MEBIBYTE, 100))
    state = await running_77.state("a")
    directory = place(state.pid, "memory")
    if VERSION == "v2":
        assert files.read(directory / "memory.swap.max") == "0"
    elif (directory / "memory.memsw.limit_in_bytes").exists():
        assert files.read_number(directory / "memory.memsw.limit_in_bytes") >= 400 * MEBIBYTE


async def test_a_file_that_is_read_again_and_again_counts_as_in_use(enforced: Running) -> None:
    await enforced.start("a", *FILE, str(enforced.data_dir / "file"), "3", memory_bytes=300 * MEBIBYTE)
    await eventually(lambda: "hot" in enforced.log("a"), 60)
    found = await enforced.runtime.metered("a")
    assert found is not None
    usage = found[1].read(time.time())
    found[1].close()
    assert 110 * MEBIBYTE <= usage.working_set_bytes <= usage.memory_bytes
    with pytest.raises(MemoryInUse):
        await enforced.runtime.apply("a", Limits(memory_bytes=60 * MEBIBYTE))


async def test_five_millicores_are_a_quota_that_the_kernel_takes(enforced: Running) -> None:
    state = await enforced.start("a", "sleep", "60", cpu_milli=500)
    assert (await enforced.runtime.apply("a", Limits(5))).cpu_milli == 5
    assert cpu_files(state.pid) == (5000, 1_000_000)
    assert (await enforced.runtime.read("a")).cpu_milli == 5


@pytest.mark.slow
async def test_cpu_that_is_raised_and_lowered_again_is_throttled(enforced: Running) -> None:
    burner = 'trap "kill 0" TERM; while :; do :; done & while :; do :; done'
    state = await enforced.start("a", "sh", "-c", f"echo spins; {burner}", cpu_milli=500)
    await enforced.says("a", "spins")
    await enforced.runtime.apply("a", Limits(1500))
    assert cpu_files(state.pid) == (150_000, 100_000)
    await enforced.runtime.apply("a", Limits(500))
    assert cpu_files(state.pid) == (50_000, 100_000)
    assert await used_cpus(enforced, 3) <= 0.55


async def test_throttling_and_pressure_are_measured(enforced: Running) -> None:
    await enforced.start("a", *SPIN, memory_bytes=64 * MEBIBYTE)
    await enforced.says("a", "spins")
    await enforced.runtime.apply("a", Limits(20, 64 * MEBIBYTE))  # less than its share of any machine
    found = await enforced.runtime.metered("a")
    assert found is not None
    _, meter = found
    usage = await eventually(lambda: (seen := meter.read(time.time())).throttled_periods >= 5 and seen, 30)
    meter.close()
    assert usage.periods >= usage.throttled_periods
    assert (usage.pressure_cpu is not None, usage.pressure_memory is not None) == (HAS_PRESSURE, HAS_PRESSURE)


@needs_v2
async def test_the_trial_of_a_killed_agent_is_ended_by_the_next(enforced: Running) -> None:
    state = await enforced.start("a", *HOLD, "77", memory_bytes=256 * MEBIBYTE)
    await enforced.says("a", "held")
    high = place(state.pid, "memory") / "memory.high"
    files.write(high, str(32 * MEBIBYTE))
    again = await ProcessRuntime.open(enforced.data_dir)
    assert files.read(high) == "max"
    await again.close()


@needs_v2
async def test_a_smaller_limit_drops_the_page_cache_and_leaves_no_trial_behind(enforced: Running) -> None:
    state = await enforced.start("a", *FILE, str(enforced.data_dir / "file"), "0", memory_bytes=300 * MEBIBYTE)
    await eventually(lambda: "written" in enforced.log("a"), 60)
    directory = place(state.pid, "memory")
    await enforced.runtime.apply("a", Limits(memory_bytes=48 * MEBIBYTE))
    assert files.read_number(directory / "memory.current") <= 48 * MEBIBYTE
    assert files.read_field(directory / "memory.events", "oom_kill") == 0
    assert files.read(directory / "memory.high") == "max"
    assert (await enforced.state("a")).state == "running"


@needs_v2
@pytest.mark.skipif(not HAS_SWAP, reason="there is no swap")
async def test_what_is_swapped_out_is_in_use(enforced: Running) -> None:
    state = await enforced.start("a", *HOLD, "77")
    await enforced.says("a", "held")
    directory = place(state.pid, "memory")
    files.write(directory / "memory.reclaim", str(40 * MEBIBYTE))
    assert files.read_number(directory / "memory.swap.current") >= 30 * MEBIBYTE
    assert files.read_number(directory / "memory.current") < 60 * MEBIBYTE
    with pytest.raises(MemoryInUse) as refused:
        await enforced.runtime.apply("a", Limits(memory_bytes=64 * MEBIBYTE))
    assert refused.value.usage_bytes >= 77 * MEBIBYTE
    assert files.read(directory / "memory.swap.max") == "max"
    assert (await enforced.runtime.apply("a", Limits(memory_bytes=128 * MEBIBYTE))).memory_bytes == 128 * MEBIBYTE
    assert files.read(directory / "memory.swap.max") == "0"


@needs_v2
async def test_a_container_that_was_moved_to_the_root_is_limited_by_nothing(enforced: Running) -> None:
    state = await enforced.start("a", "sleep", "60", cpu_milli=500)
    files.write(hierarchy.find().mounted[UNIFIED].mount_point / "cgroup.procs", str(state.pid))
    assert await enforced.runtime.read("a") == Limits()
    with pytest.raises(ApplyFailed, match="was moved to"):
        await enforced.runtime.apply("a", Limits(500))
    os.kill(state.pid, 9)
