"""600 states that a power cut can leave of a run with checkpoints, compaction and a schema step in its middle.

What a sync covered is there; of the rest nothing, all, some or torn sectors. No state loses what was acknowledged, none
refuses to open, and each is brought to the newest schema.
"""

import random

import pytest

from headrace.store import schema, statements
from headrace.store.history import Retention
from headrace.store.rows import Key
from headrace.store.sqlite import open_rows
from tests.ledger.builders import container, node, pod
from tests.store import recording_vfs
from tests.store.builders import config_map, put, remove, write
from tests.store.test_power_loss import problems

pytestmark = pytest.mark.trust

STATES = 600
WRITES = 120  # before the schema step, and again after it
FEW = Retention(revisions=20, seconds=0, most=20)
POD = Key("pods", "default", "web")
NEXT_STEP = (
    "CREATE TABLE IF NOT EXISTS notes (revision INTEGER PRIMARY KEY, text TEXT NOT NULL)",
    "INSERT OR IGNORE INTO notes SELECT revision, name FROM changes",
    "CREATE INDEX IF NOT EXISTS notes_by_text ON notes (text)",
)


class Recording:
    """The log of the disk; with each acknowledgement, how long the log was then, and what was there."""

    def __init__(self, synchronous: str) -> None:
        self.disk = recording_vfs.RecordingDisk()
        self.acknowledged: list[tuple[int, int, dict[Key, int]]] = []
        self._synchronous = synchronous
        self._state: dict[Key, int] = {}
        self._chance = random.Random(3)

    async def write(self, path) -> None:
        rows = await open_rows(path, inline=True, retention=FEW, vfs=recording_vfs.NAME)
        rows._writing.pragma("synchronous", self._synchronous)
        key = Key("nodes", "", "node-a")
        if key not in self._state:
            await self._acknowledge(rows, key, write(key, 0, node(cpu="99")))
        for turn in range(WRITES):
            key = config_map(f"object-{self._chance.randrange(6)}")
            found = self._state.get(key, 0)
            if turn % 10 == 0:
                gone = None if POD in self._state else pod("web", container(cpu="1"))
                await self._acknowledge(rows, POD, write(POD, self._state.get(POD, 0), gone, confirmed=False))
            elif found and turn % 7 == 0:
                await self._acknowledge(rows, key, remove(key.name, found))
            else:
                await self._acknowledge(rows, key, put(key.name, found, "x" * self._chance.randrange(3000)))
        await rows.close()

    async def _acknowledge(self, rows, key, wish) -> None:
        revision = await rows.commit(wish)
        self._state.pop(key, None)
        if wish.body is not None:
            self._state[key] = revision
        self.acknowledged.append((len(self.disk.log), revision, dict(self._state)))


@pytest.fixture
async def recorded(tmp_path, monkeypatch, request):
    monkeypatch.setattr("headrace.store.connection.CHECKPOINT_PAGES", 30)
    recording = Recording(getattr(request, "param", "full"))
    await recording.write(tmp_path / "rows.db")
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, NEXT_STEP))
    await recording.write(tmp_path / "rows.db")
    recording.disk.unregister()
    return recording


async def test_none_of_600_states_lost_anything_or_stayed_at_the_old_schema(tmp_path, recorded):
    log = recorded.disk.log
    steps = [place for place, each in enumerate(log) if each.kind == "write" and b"notes_by_text" in each.data]
    found = [each async for each in problems(tmp_path, log, recorded.acknowledged, states=STATES, seed=2)]
    syncs = sum(each.kind == "sync" for each in log)
    print(f"\n{STATES} states of {len(log)} operations, {syncs} syncs, a schema step at {steps[0]}: {len(found)} bad")
    assert found == []


async def test_states_around_the_schema_step_are_carried_to_the_new_schema(tmp_path, recorded):
    log, chance = recorded.disk.log, random.Random(4)
    first = next(place for place, each in enumerate(log) if each.kind == "write" and b"notes_by_text" in each.data)
    for number in range(80):
        cut = min(len(log), max(1, first + chance.randrange(-20, 30)))
        where = tmp_path / f"around-{number}"
        where.mkdir()
        survival = recording_vfs.MODES[number % len(recording_vfs.MODES)]
        for name, content in recording_vfs.after_power_cut(log[:cut], survival, chance).items():
            (where / name).write_bytes(content)
        rows = await open_rows(where / "rows.db", inline=True)
        assert rows._writing.pragma("user_version") == len(schema.STEPS)
        noted = rows._writing.execute("SELECT count(*) FROM notes").get
        assert rows._writing.execute("SELECT count(*) FROM notes NOT INDEXED WHERE text != ''").get == noted
        assert rows._writing.execute(statements.LAST_REVISION).get >= 100
        await rows.close()


@pytest.mark.parametrize("recorded", ["normal", "off"], indirect=True)
async def test_control_when_commits_are_not_synced_states_lose_something(tmp_path, recorded):
    found = [each async for each in problems(tmp_path, recorded.disk.log, recorded.acknowledged, states=120, seed=2)]
    print(f"\nwithout FULL: {len(found)} of 120 states lost something")
    assert found != []
