"""kill -9 under load: acknowledged writes are there, no revision was given twice, file and books are whole."""

import asyncio
import os
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest

from headrace.ledger.books import GUARDED, Books
from headrace.store import statements
from headrace.store.rows import Key
from headrace.store.sqlite import open_rows

SCRIPT = Path(__file__).with_name("crashing_writer.py")
ROOT = Path(__file__).parents[2]


@dataclass
class Told:
    """What was acknowledged in all lives of the writer."""

    last: dict[Key, tuple[int, bool]] = field(default_factory=dict)
    revisions: set[int] = field(default_factory=set)

    def hear(self, line: bytes) -> None:
        resource, name, revision, what = line.decode().split()
        assert int(revision) not in self.revisions, f"revision {revision} was given out twice"
        self.revisions.add(int(revision))
        key = Key(resource, "" if resource == "nodes" else "default", name)
        if int(revision) > self.last.get(key, (0, False))[0]:
            self.last[key] = (int(revision), what == "remove")


async def life(path: Path, told: Told, seed: int, *, kill_after: int | None = None, nth_sync: int | None = None) -> int:
    """Start the writer and let it die; returns how many writes it acknowledged."""
    arguments = [str(path), str(seed), *([str(nth_sync)] if nth_sync else [])]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SCRIPT), *arguments, stdout=asyncio.subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    heard = 0
    while line := await process.stdout.readline():
        if not line.endswith(b"\n"):
            break  # it died while telling
        told.hear(line)
        heard += 1
        if heard == kill_after:
            process.kill()
    assert await process.wait() == -9
    return heard


async def check(path: Path, told: Told) -> None:
    rows = await open_rows(path)
    connection = rows._writing
    assert connection.execute("PRAGMA integrity_check").get == "ok"
    assert rows.revision >= max(told.revisions)
    for key, (revision, removed) in told.last.items():
        row = rows.get(key)
        if removed:
            assert row is None or row.revision > revision, f"{key}: the removal at {revision} is lost"
        else:
            assert row is not None or key.resource == "pods", f"{key}: revision {revision} is lost"
            assert row is None or row.revision >= revision, f"{key}: revision {revision} is lost"
    objects = ((row.key, orjson.loads(row.body)) for resource in sorted(GUARDED) for row in rows.page(resource).rows)
    departed = (
        (revision, resource, orjson.loads(body))
        for revision, _, resource, _, _, _, body in connection.execute(statements.EVERY_DEPARTED)
    )
    assert rows.books.difference(Books.fold(objects, departed)) == ()
    assert all(amount >= 0 for ledger in rows.ledgers.values() for amount in ledger.available().values())
    await rows.close()


async def killed_at_random(path: Path, lives: int, seed: int) -> Told:
    told, chance = Told(), random.Random(seed)
    for number in range(lives):
        await life(path, told, seed + number, kill_after=chance.randrange(1, 400))
        await check(path, told)
    return told


async def test_kill_9_at_50_random_moments_loses_nothing_acknowledged(tmp_path):
    told = await killed_at_random(tmp_path / "rows.db", lives=50, seed=1)
    assert len(told.revisions) > 1_000


async def test_the_check_fails_on_an_acknowledgement_that_was_never_written(tmp_path):
    """The control without which the others prove nothing."""
    told = await killed_at_random(tmp_path / "rows.db", lives=1, seed=3)
    told.last[Key("configmaps", "default", "0-0")] = (10**6, False)
    with pytest.raises(AssertionError, match="is lost"):
        await check(tmp_path / "rows.db", told)


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 7, 12])
async def test_kill_9_just_before_a_sync_loses_nothing_acknowledged(tmp_path, nth):
    told = Told()
    for seed in range(2):
        await life(tmp_path / "rows.db", told, seed, nth_sync=nth)
    if told.revisions:
        await check(tmp_path / "rows.db", told)


@pytest.mark.slow
async def test_kill_9_just_before_each_of_the_first_50_syncs_loses_nothing_acknowledged(tmp_path):
    told = Told()
    for nth in range(1, 51):
        await life(tmp_path / "rows.db", told, nth, nth_sync=nth)
        if told.revisions:
            await check(tmp_path / "rows.db", told)
