"""The power goes at any moment: every acknowledged write is there, and the file opens, whatever was not synced."""

import random

import pytest

from headrace.store.history import Retention
from headrace.store.protocol import StoreError
from headrace.store.rows import Key
from headrace.store.sqlite import open_rows
from tests.ledger.builders import container, node, pod
from tests.store import recording_vfs
from tests.store.builders import config_map, put, remove, write

WRITES = 250
FEW = Retention(revisions=20, seconds=0, most=20)
POD = Key("pods", "default", "web")


@pytest.fixture
async def recorded(tmp_path, monkeypatch, request):
    """The log of a run with checkpoints and compaction; with each acknowledgement, how long the log was then."""
    monkeypatch.setattr("headrace.store.connection.CHECKPOINT_PAGES", 30)
    disk = recording_vfs.RecordingDisk()
    rows = await open_rows(tmp_path / "rows.db", inline=True, retention=FEW, vfs=recording_vfs.NAME)
    rows._writing.pragma("synchronous", getattr(request, "param", "full"))
    acknowledged: list[tuple[int, int, dict[Key, int]]] = []
    state: dict[Key, int] = {}
    chance = random.Random(1)

    async def acknowledge(key, wish):
        revision = await rows.commit(wish)
        state.pop(key, None)
        if wish.body is not None:
            state[key] = revision
        acknowledged.append((len(disk.log), revision, dict(state)))

    await acknowledge(Key("nodes", "", "node-a"), write(Key("nodes", "", "node-a"), 0, node(cpu="99")))
    for turn in range(WRITES):
        key = config_map(f"object-{chance.randrange(6)}")
        found = state.get(key, 0)
        if turn % 10 == 0:
            gone = None if POD in state else pod("web", container(cpu="1"))
            await acknowledge(POD, write(POD, state.get(POD, 0), gone, confirmed=False))
        elif found and turn % 7 == 0:
            await acknowledge(key, remove(key.name, found))
        else:
            await acknowledge(key, put(key.name, found, "x" * chance.randrange(3000)))
    await rows.close()
    disk.unregister()
    return disk.log, acknowledged


async def problems(directory, log, acknowledged, states, seed):
    """What went wrong in each of `states` states, half of them cut next to a sync."""
    chance = random.Random(seed)
    syncs = [place for place, operation in enumerate(log, 1) if operation.kind == "sync"]
    for number in range(states):
        near_sync = number % 2 and syncs
        cut = chance.choice(syncs) - chance.randrange(2) if near_sync else chance.randrange(1, len(log))
        survival = recording_vfs.MODES[number // 2 % len(recording_vfs.MODES)]
        where = directory / f"state-{number}"
        where.mkdir()
        for name, content in recording_vfs.after_power_cut(log[:cut], survival, chance).items():
            (where / name).write_bytes(content)
        problem = await problem_of(where / "rows.db", [each for each in acknowledged if each[0] <= cut])
        if problem:
            yield f"cut at {cut} with {survival}: {problem}"


async def problem_of(path, acknowledged):
    try:
        rows = await open_rows(path, inline=True)
    except StoreError as error:
        return f"does not open: {error}"
    try:
        if rows._writing.execute("PRAGMA integrity_check").get != "ok":
            return "is not whole"
        if not acknowledged:
            return ""
        _, revision, state = acknowledged[-1]
        if rows.revision not in (revision, revision + 1):
            return f"is at revision {rows.revision}, {revision} was acknowledged"
        if rows.revision == revision:
            found = {row.key: row.revision for name in ("nodes", "pods", "configmaps") for row in rows.page(name).rows}
            return "" if found == state else "holds other objects than were acknowledged"
        return ""
    finally:
        await rows.close()


async def test_none_of_600_states_that_a_power_cut_can_leave_lost_anything(tmp_path, recorded):
    assert [each async for each in problems(tmp_path, *recorded, states=600, seed=1)] == []


@pytest.mark.parametrize("recorded", ["normal", "off"], indirect=True)
async def test_the_check_fails_when_commits_are_not_synced(tmp_path, recorded):
    """The control without which the others prove nothing."""
    assert [each async for each in problems(tmp_path, *recorded, states=80, seed=1)] != []
