"""The agent's side is killed again and again: what it started runs on, and nothing is lost, doubled or leaked."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from headrace.node.runtimes.process import ProcessRuntime
from tests.node.eventually import eventually
from tests.node.keeper.conftest import runs
from tests.node.runtimes.conftest import BOTH, Running, cgroups_of

pytestmark = pytest.mark.real_cgroups


async def live_and_die(data_dir: Path, count: int, mode: str, number: int) -> None:
    """One agent. Some die while they start containers, others while they look and resize."""
    agent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.node.runtimes.client", str(data_dir), str(count), mode),
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert agent.stdout is not None
    try:
        if number % 3 == 0:
            await asyncio.wait_for(agent.wait(), 0.15 + 0.01 * number)
        else:
            await asyncio.wait_for(agent.stdout.readline(), 30)
            await asyncio.wait_for(agent.wait(), 0.01 * (number % 7))
    except TimeoutError:
        os.killpg(agent.pid, signal.SIGKILL)  # all that an agent's or `up`'s process group would take along
    assert await agent.wait() == -signal.SIGKILL


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


async def survive(data_dir: Path, hierarchies, count: int, deaths: int) -> None:
    mode = "cgroups" if hierarchies is None else "approximate"
    first = Running(await ProcessRuntime.open(data_dir, hierarchies), data_dir)
    keeper = (await first.runtime._keeper.call("hello"))["pid"]
    baseline = descriptors(keeper)
    await first.runtime.close()
    pids: dict[str, int] = {}
    for number in range(deaths):
        await live_and_die(data_dir, count, mode, number)
        running = Running(await ProcessRuntime.open(data_dir, hierarchies), data_dir)
        for state in await running.runtime.list():
            assert state.state == "running"
            assert pids.setdefault(state.id, state.pid) == state.pid
        await running.runtime.close()
    assert len(pids) == count
    assert runs(keeper)

    last = Running(await ProcessRuntime.open(data_dir, hierarchies), data_dir)
    for id in pids:
        await last.runtime.signal(id, signal.SIGTERM)
    for number in range(count):
        state = await last.ended(f"c{number}")
        assert (state.pid, state.exit_code) == (pids[state.id], number)
        first_line, *lines = last.log(state.id)
        assert first_line == f"pid {state.pid}"
        assert [int(line) for line in lines] == list(range(len(lines)))
        assert lines
        await last.runtime.remove(state.id)
    assert not any(map(runs, pids.values()))
    for name in ("records", "fifos", "stage"):
        assert os.listdir(data_dir / "keeper" / name) == []
    parents = cgroups_of(last.runtime)
    assert all(not [entry for entry in parent.iterdir() if entry.is_dir()] for parent in parents)
    await last.runtime.close()
    await eventually(lambda: descriptors(keeper) == baseline)
    await last.runtime.stop_keeper()
    await eventually(lambda: not runs(keeper))
    assert not any(parent.exists() for parent in parents)


@pytest.mark.parametrize("hierarchies", BOTH)
async def test_containers_survive_the_agent(tmp_path: Path, hierarchies) -> None:
    await survive(tmp_path, hierarchies, count=4, deaths=4)


@pytest.mark.slow
@pytest.mark.parametrize("hierarchies", BOTH)
async def test_twenty_containers_survive_thirty_agents(tmp_path: Path, hierarchies) -> None:
    await survive(tmp_path, hierarchies, count=20, deaths=30)
