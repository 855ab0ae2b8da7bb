"""The keeper is killed: containers run on, their output goes on, and the next keeper knows them again."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from headrace.node.keeper import identity
from headrace.node.keeper.launch import ensure_keeper
from tests.node.eventually import eventually
from tests.node.keeper.conftest import Kept, runs

COUNTER = """
import itertools, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
for number in itertools.count():
    print(number, flush=True)
    time.sleep(0.002)
"""


async def kill_keeper(kept: Kept) -> None:
    pid = await kept.pid()
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: not runs(pid))


async def counter(kept: Kept, id: str) -> dict:
    state = await kept.start(id, sys.executable, "-c", COUNTER)
    await eventually(lambda: kept.lines(id))
    return state


def once(lines: list[str]) -> list[int]:
    """Numbers without what was written twice: a batch in flight at a keeper's death may be."""
    found: list[int] = []
    for line in lines:
        if int(line) > (found[-1] if found else -1):
            found.append(int(line))
    return found


async def test_containers_run_on_and_no_line_is_lost(kept: Kept) -> None:
    before = await asyncio.gather(*(counter(kept, id) for id in "abc"))
    for _ in range(5):
        await kill_keeper(kept)
        assert all(runs(state["pid"]) for state in before)
    after = await kept.client.call("list")
    assert [(state["pid"], state["state"]) for state in after] == [(state["pid"], "running") for state in before]
    for id in "abc":
        written = len(kept.lines(id))
        await eventually(lambda id=id, written=written: len(kept.lines(id)) > written)
        await kept.client.call("signal", {"id": id, "number": signal.SIGTERM})
        await kept.ended(id)
        numbers = once(kept.lines(id))
        assert numbers == list(range(len(numbers)))


async def test_the_exit_code_of_an_adopted_container_is_known_where_the_kernel_tells_it(kept: Kept) -> None:
    await counter(kept, "a")
    await kill_keeper(kept)
    await kept.client.call("signal", {"id": "a", "number": signal.SIGTERM})
    state = await kept.ended("a")
    assert state["exit_code"] in (7, None)
    assert kept.data_dir.joinpath("keeper/records/a.json").exists()


async def test_what_ended_without_a_keeper_is_told_without_an_exit_code(kept: Kept) -> None:
    state = await kept.start("a", "sh", "-c", "sleep 0.05; (setsid sleep 65 &); exit 4")
    await kill_keeper(kept)
    await eventually(lambda: not runs(state["pid"]))
    ended = await kept.ended("a")
    assert (ended["exit_code"], ended["signal"]) == (None, None)
    assert ended["finished_at"] is not None


async def test_an_exit_that_was_recorded_is_not_lost(kept: Kept) -> None:
    await kept.start("a", "sh", "-c", "exit 9")
    ended = await kept.ended("a")
    kept.log_path("a").unlink()
    await kill_keeper(kept)
    assert await kept.ended("a") == ended
    assert not kept.log_path("a").exists()


async def test_a_process_that_has_taken_the_pid_is_not_taken_for_the_container(kept: Kept) -> None:
    state = await kept.start("a", "sleep", "66")
    await kill_keeper(kept)
    other = await asyncio.create_subprocess_exec("sleep", "67")
    found = identity.stat(other.pid)
    assert found is not None
    rewrite(kept.data_dir / "keeper/records/a.json", pid=other.pid, start_ticks=found.start_ticks - 1)
    ended = await kept.ended("a")
    assert ended["exit_code"] is None
    assert runs(other.pid)
    other.kill()
    await other.wait()
    os.kill(state["pid"], signal.SIGKILL)


async def test_a_record_of_another_boot_says_nothing_about_todays_processes(kept: Kept) -> None:
    state = await kept.start("a", "sleep", "68")
    await kill_keeper(kept)
    rewrite(kept.data_dir / "keeper/records/a.json", boot="another")
    assert (await kept.ended("a"))["exit_code"] is None
    await eventually(lambda: not runs(state["pid"]))  # it carries the container's mark, so it is cleared away


@pytest.mark.parametrize("deaths", [15, pytest.param(100, marks=pytest.mark.slow)])
async def test_a_start_that_was_cut_short_ran_once_or_not_at_all(kept: Kept, tmp_path: Path, deaths: int) -> None:
    """Keepers die while containers are being started, and the records say what ran."""
    for number in range(deaths):
        id = f"c{number}"
        task = asyncio.create_task(kept.start(id, "sh", "-c", f"echo ran >> {tmp_path}/{id}; sleep 69"))
        pid = await kept.pid()
        await asyncio.sleep(number * 0.006 / deaths)
        os.kill(pid, signal.SIGKILL)
        state = await task  # the client repeats it with the next keeper
        assert state["state"] in ("running", "exited")
        if state["state"] == "running":
            await eventually((tmp_path / id).exists)
    for number in range(deaths):
        ran = tmp_path / f"c{number}"
        assert not ran.exists() or ran.read_text() == "ran\n"


async def test_a_keeper_without_containers_and_clients_goes_away_when_asked(kept: Kept) -> None:
    pid = await kept.pid()
    await kept.client.call("stop")
    await eventually(lambda: not runs(pid))
    assert not (kept.data_dir / "keeper/keeper.sock").exists()
    await ensure_keeper(kept.data_dir)
    assert await kept.pid() != pid


def rewrite(path: Path, **changes: object) -> None:
    record = json.loads(path.read_text())
    for name, value in changes.items():
        (record["state"] if name in record["state"] else record)[name] = value
    path.write_text(json.dumps(record))
