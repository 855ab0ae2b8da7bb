"""What only the kernel's own limits can show: throttling, OOM kills, drift by a foreign hand."""

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from headrace.node.cgroups import directories, files, hierarchy
from headrace.node.runtimes.process import ProcessRuntime
from headrace.node.runtimes.protocol import ApplyFailed, Limits
from tests.node.eventually import eventually
from tests.node.keeper.conftest import runs
from tests.node.runtimes.conftest import MEBIBYTE, Running, needs_cgroups
from tests.node.runtimes.programs import HOLD, SPIN

pytestmark = [needs_cgroups, pytest.mark.real_cgroups]


def file_of(pid: int, controller: str, name: str) -> Path:
    """A file of the cgroup that really holds the process."""
    return hierarchy.find().places(pid)[controller] / name


async def test_it_is_found_in_its_own_group_from_the_first_instruction(enforced: Running) -> None:
    await enforced.start("a", "cat", "/proc/self/cgroup", cpu_milli=500)
    await enforced.ended("a")
    places = [line.split(":", 2) for line in enforced.log("a")]
    held = [path for _, name, path in places if name in ("cpu", "memory", "cpuacct", "pids", "freezer", "cpuset", "")]
    assert held
    assert all("/headrace/" in path and path.endswith("/a") for path in held)


async def test_an_oom_kill_is_recognised(enforced: Running) -> None:
    await enforced.start("a", *HOLD, "200", memory_bytes=40 * MEBIBYTE)
    state = await enforced.ended("a")
    assert (state.exit_code, state.signal, state.oom_killed) == (137, 9, True)


async def test_an_oom_kill_of_a_child_that_ends_the_container_is_recognised(enforced: Running) -> None:
    await enforced.start(
        "a", "sh", "-c", f"'{sys.executable}' -c 'x = b\"1\" * (200 << 20)'; exit $?", memory_bytes=40 * MEBIBYTE
    )
    state = await enforced.ended("a")
    assert (state.exit_code, state.signal, state.oom_killed) == (137, None, True)


async def test_a_kill_by_somebody_is_no_oom_kill(enforced: Running) -> None:
    state = await enforced.start("a", "sleep", "60", memory_bytes=40 * MEBIBYTE)
    os.kill(state.pid, 9)
    assert (await enforced.ended("a")).oom_killed is False


async def test_a_memory_limit_grows_and_shrinks_around_what_is_in_use(enforced: Running) -> None:
    await enforced.start("a", *HOLD, "60", memory_bytes=100 * MEBIBYTE)
    await enforced.says("a", "held")
    await enforced.runtime.apply("a", Limits(memory_bytes=300 * MEBIBYTE))
    with pytest.raises(ApplyFailed):
        await enforced.runtime.apply("a", Limits(memory_bytes=50 * MEBIBYTE))
    assert await enforced.runtime.apply("a", Limits(memory_bytes=90 * MEBIBYTE)) == Limits(memory_bytes=90 * MEBIBYTE)
    assert (await enforced.state("a")).state == "running"


async def test_the_page_cache_gives_way_to_a_smaller_limit(enforced: Running, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * (60 * MEBIBYTE))
    await enforced.start(
        "a", "sh", "-c", f"cp {tmp_path}/big {tmp_path}/copy; echo read; sleep 60", memory_bytes=200 * MEBIBYTE
    )
    await enforced.says("a", "read")
    assert (await enforced.runtime.apply("a", Limits(memory_bytes=20 * MEBIBYTE))).memory_bytes == 20 * MEBIBYTE


async def test_what_a_foreign_hand_wrote_is_read_and_repaired(enforced: Running) -> None:
    state = await enforced.start("a", "sleep", "60", cpu_milli=500)
    if enforced.runtime.capabilities().cgroup_version == "v2":
        file_of(state.pid, "", "cpu.max").write_text("33000 100000")
    else:
        file_of(state.pid, "cpu", "cpu.cfs_quota_us").write_text("33000")
    assert (await enforced.runtime.read("a")).cpu_milli == 330
    assert (await enforced.runtime.apply("a", Limits(500))).cpu_milli == 500


async def test_a_container_that_was_moved_away_is_not_limited_by_mistake(enforced: Running) -> None:
    state = await enforced.start("a", "sleep", "60", cpu_milli=500)
    controller = "" if enforced.runtime.capabilities().cgroup_version == "v2" else "cpu"
    top = file_of(os.getpid(), controller, "cgroup.procs")
    top.write_text(str(state.pid))
    with pytest.raises(ApplyFailed, match="was moved to"):
        await enforced.runtime.apply("a", Limits(100))
    await enforced.runtime.kill("a")


async def test_processes_without_a_record_are_strays_and_can_be_killed(enforced: Running) -> None:
    state = await enforced.start("a", "sleep", "60", cpu_milli=250, memory_bytes=64 * MEBIBYTE)
    pid = await enforced.runtime._keeper.call("hello")
    os.kill(pid["pid"], 9)
    (enforced.data_dir / "keeper/records/a.json").unlink()
    await eventually(lambda: not runs(pid["pid"]))
    assert await enforced.runtime.list() == []
    assert await enforced.runtime.strays([]) == {"a": Limits(250, 64 * MEBIBYTE, 2)}
    await enforced.runtime.kill("a")
    assert not runs(state.pid)
    assert await enforced.runtime.strays([]) == {}


async def test_groups_of_starts_that_were_cut_short_are_swept_away(enforced: Running) -> None:
    tree = enforced.runtime._tree
    assert tree is not None
    tree.group("left").create(Limits(100))
    assert set(tree.found(tree.parents)) == {"left"}
    again = await ProcessRuntime.open(enforced.data_dir)
    assert tree.found(tree.parents) == {}
    await again.close()


async def test_what_an_agent_left_in_another_place_is_found_and_cleared_away(enforced: Running) -> None:
    """Agents are started from different shells and services, each in a cgroup of its own."""
    tree = enforced.runtime._tree
    assert tree is not None
    elsewhere = [parent.parent.parent / "elsewhere/headrace/test" for parent in tree.parents]
    for number, (parent, real) in enumerate(zip(elsewhere, tree.parents, strict=True)):
        directories.make(parent / "left", real.parent.parent)
        directories.make(parent / f"empty{number}", real.parent.parent)
    enforced.runtime._parents.note(elsewhere)
    child = await asyncio.create_subprocess_exec("sleep", "60")
    for parent in elsewhere:
        files.write(parent / "left/cgroup.procs", str(child.pid))
    again = await ProcessRuntime.open(enforced.data_dir)
    assert [sorted(path.name for path in parent.iterdir() if path.is_dir()) for parent in elsewhere] == [
        ["left"] for _ in elsewhere
    ]
    assert (await again.strays([])).keys() == {"left"}
    await again.kill("left")
    await child.wait()
    await again.close()
    for parent in elsewhere:
        assert not parent.parent.exists()
        parent.parent.parent.rmdir()


async def test_usage_is_measured(enforced: Running) -> None:
    await enforced.start("a", *SPIN)
    await enforced.says("a", "spins")
    await enforced.runtime.apply("a", Limits(20))  # less than its share of any machine, so that it is throttled
    found = await enforced.runtime.metered("a")
    assert found is not None
    workload, meter = found
    assert workload == "default/pod/c-a"
    usage = await eventually(lambda: (seen := meter.read(time.time())).throttled_periods >= 2 and seen)
    meter.close()
    assert usage.cpu_seconds > 0
    assert usage.periods >= usage.throttled_periods
    assert MEBIBYTE < usage.working_set_bytes <= usage.memory_bytes < 50 * MEBIBYTE


@pytest.mark.slow
@pytest.mark.parametrize("milli", [100, 500, 1000])
async def test_a_cpu_limit_holds_and_follows_a_resize(enforced: Running, milli: int) -> None:
    await enforced.start("a", *SPIN, cpu_milli=1500)
    await enforced.says("a", "spins")
    await enforced.runtime.apply("a", Limits(milli))
    found = await enforced.runtime.metered("a")
    assert found is not None
    _, meter = found
    began = meter.read(time.monotonic())
    ended = await eventually(lambda: (seen := meter.read(time.monotonic())).at - began.at >= 3 and seen)
    meter.close()
    used = (ended.cpu_seconds - began.cpu_seconds) / (ended.at - began.at)
    assert used <= milli / 1000 * 1.1 + 0.05
