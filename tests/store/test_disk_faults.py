"""The disk fails: what was acknowledged is there, and after a failed sync nothing is acknowledged any more."""

import errno
import os
import subprocess

import pytest

from headrace.store.faults import Stopped
from headrace.store.protocol import DiskFull, StoreError, Unavailable
from headrace.store.sqlite import open_rows
from tests.store import faulty_vfs
from tests.store.builders import config_map, put, remove

WRITES = 60


@pytest.fixture
def disk():
    found = faulty_vfs.FaultyDisk()
    yield found
    found.unregister()


async def write_on(rows, count=WRITES):
    """Creates, updates and removes; the acknowledged state and the errors met."""
    state, errors = {}, []
    for number in range(count):
        name = f"object-{number % 7}"
        found = state.get(name, 0)
        try:
            if found and number % 3 == 0:
                await rows.commit(remove(name, found))
                del state[name]
            else:
                state[name] = await rows.commit(put(name, found, "x" * 3000))
        except StoreError as error:
            errors.append(error)
    return state, errors


async def reopened(path):
    rows = await open_rows(path)
    state = {row.key.name: row.revision for row in rows.page("configmaps").rows}
    assert rows._writing.execute("PRAGMA integrity_check").get == "ok"
    await rows.close()
    return state


STOPPING = [("sync", faulty_vfs.failed_sync), ("write", faulty_vfs.failed_write)]


@pytest.mark.parametrize("inline", [pytest.param(True, id="inline"), pytest.param(False, id="threaded")])
@pytest.mark.parametrize(("operation", "strike"), STOPPING, ids=["sync", "write"])
@pytest.mark.parametrize("nth", [1, 2, 3, 5, 8, 13, 21, 34])
async def test_nothing_is_acknowledged_after_a_failed(disk, tmp_path, operation, strike, nth, inline):
    path, fatal = tmp_path / "rows.db", []
    rows = await open_rows(path, inline=inline, on_fatal=fatal.append, vfs=faulty_vfs.NAME)
    disk.plan[operation, disk.counts[operation] + nth] = strike
    state, errors = await write_on(rows)
    assert errors, "the fault struck"
    assert all(isinstance(error, Stopped) for error in errors)
    assert len(fatal) == 1
    assert str(path) in fatal[0]
    with pytest.raises(Stopped):
        await rows.commit(put("late"))
    for name, revision in state.items():
        assert rows.get(config_map(name)).revision == revision
    disk.plan.clear()
    await rows.close()
    found = await reopened(path)
    lost = {name: revision for name, revision in state.items() if found.get(name, 0) < revision}
    assert not lost or len(lost) == 1, "only the write whose outcome is unknown may differ"
    for name in lost:
        assert name not in found, "it was a delete"


FULL = {"a full disk": (faulty_vfs.full, 0), "a quota that is used up": (faulty_vfs.failed_write, errno.EDQUOT)}


@pytest.mark.parametrize("inline", [pytest.param(True, id="inline"), pytest.param(False, id="threaded")])
@pytest.mark.parametrize("nth", [1, 2, 3, 5, 8, 13, 21, 34, 55])
@pytest.mark.parametrize(("strike", "system_error"), FULL.values(), ids=FULL)
async def test_a_full_disk_refuses_one_write_and_the_next_ones_go_on(disk, tmp_path, nth, inline, strike, system_error):
    path, fatal = tmp_path / "rows.db", []
    disk.system_error = system_error
    rows = await open_rows(path, inline=inline, on_fatal=fatal.append, vfs=faulty_vfs.NAME)
    disk.plan["write", disk.counts["write"] + nth] = strike
    state, errors = await write_on(rows)
    assert len(errors) == 1
    assert isinstance(errors[0], DiskFull)
    assert not fatal
    assert {row.key.name: row.revision for row in rows.page("configmaps").rows} == state
    await rows.close()
    assert await reopened(path) == state


async def test_reads_go_on_while_the_disk_is_full(disk, tmp_path):
    rows = await open_rows(tmp_path / "rows.db", vfs=faulty_vfs.NAME)
    revision = await rows.commit(put("a"))
    disk.lasting["write"] = faulty_vfs.full
    for _ in range(3):
        with pytest.raises(DiskFull, match=r"no space left for .*rows\.db: free some, writing resumes by itself"):
            await rows.commit(put("a", revision))
        assert rows.get(config_map("a")).revision == revision
        assert rows.page("configmaps", at=revision).rows[0].revision == revision
    disk.lasting.clear()
    assert await rows.commit(put("a", revision)) == revision + 1
    await rows.close()


async def test_a_quota_that_is_used_up_is_told_as_that(disk, tmp_path):
    rows = await open_rows(tmp_path / "rows.db", vfs=faulty_vfs.NAME)
    disk.system_error = errno.EDQUOT
    disk.lasting["write"] = faulty_vfs.failed_write
    with pytest.raises(DiskFull, match=r"the disk quota is used up for .*rows\.db: free some or raise it, writing res"):
        await rows.commit(put("a"))
    disk.lasting.clear()
    await rows.commit(put("a"))
    await rows.close()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte."""
    where = tmp_path / "small"
    where.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", where], capture_output=True).returncode:
        pytest.skip("mounting a small tmpfs takes root; the failing VFS above covers the rest")
    yield where
    subprocess.run(["umount", "-l", where], check=True)


async def test_a_really_full_disk_loses_nothing_and_recovers_by_itself(small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 200_000)
    fatal = []
    rows = await open_rows(small_disk / "rows.db", on_fatal=fatal.append)
    written = []

    async def fill():
        for number in range(1_000):
            await rows.commit(put(f"object-{number}", data="x" * 3000))
            written.append(f"object-{number}")

    with pytest.raises(DiskFull):
        await fill()
    assert all(rows.get(config_map(name)) for name in written)
    ballast.unlink()
    await rows.commit(put("again", data="x" * 3000))
    await rows.close()
    assert sorted(await reopened(small_disk / "rows.db")) == sorted([*written, "again"])
    assert not fatal


async def test_nobody_else_may_read_the_file_or_its_log(tmp_path):
    rows = await open_rows(tmp_path / "rows.db")
    await rows.commit(put("a"))
    for name in ("rows.db", "rows.db-wal", "rows.db-shm", "rows.db.lock"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600, name
    await rows.close()


async def test_a_file_that_cannot_be_opened_says_so(tmp_path):
    with pytest.raises(Unavailable, match=r"nowhere/rows\.db"):
        await open_rows(tmp_path / "nowhere" / "rows.db")
    assert os.listdir(tmp_path) == []
