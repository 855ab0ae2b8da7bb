"""A flipped bit or a cut in the file or its log: found at the start with the file named, or nothing is different."""

import random
import shutil
from pathlib import Path

import pytest

from headrace.store.history import Retention
from headrace.store.protocol import StoreError
from headrace.store.rows import Key
from headrace.store.sqlite import open_rows
from tests.ledger.builders import container, node, pod
from tests.store.builders import put, write

pytestmark = pytest.mark.trust

DAMAGES = 200
OBJECTS = 60
KEEP = Retention(revisions=10_000, seconds=10_000, most=100_000)
FILE = "rows.db"


@pytest.fixture
async def killed(tmp_path, monkeypatch):
    """A file and its log, as kill -9 leaves them, with all that they hold: part of it in each."""
    monkeypatch.setattr("headrace.store.connection.CHECKPOINT_PAGES", 150)
    folder = tmp_path / "alive"
    folder.mkdir()
    rows = await open_rows(folder / FILE, inline=True, retention=KEEP)
    await rows.commit(write(Key("nodes", "", "node-a"), 0, node(cpu="99")))
    chance = random.Random(5)
    held: dict[str, int] = {}
    for number in range(250):
        name = f"object-{chance.randrange(OBJECTS)}"
        held[name] = await rows.commit(put(name, held.get(name, 0), "x" * chance.randrange(2500)))
        if number % 25 == 0:
            await rows.commit(write(Key("pods", "default", f"p{number}"), 0, pod(f"p{number}", container(cpu="1"))))
    left = tmp_path / "killed"
    shutil.copytree(folder, left, ignore=shutil.ignore_patterns("*-shm", "*.lock"))
    assert (left / f"{FILE}-wal").stat().st_size > 100_000
    expected = await everything(rows)
    await rows.close()
    return left, expected


async def everything(rows) -> tuple:
    """All that a caller can see: objects, their history, books."""
    objects = [(row.key, row.revision, row.body) for name in NAMES for row in rows.page(name).rows]
    changes = []
    for name in NAMES:
        compacted = rows._reader._compacted()
        since = compacted
        while since < rows.revision:
            found, since = rows._reader.replay(name, "", since, rows.revision)
            changes += found
    return objects, changes, rows.revision, rows.ledgers


NAMES = ("nodes", "pods", "configmaps")


def damage(path: Path, chance: random.Random) -> str:
    """Of one file: a flipped bit, or its end cut off."""
    target = path.with_name(chance.choice([FILE, f"{FILE}-wal"]))
    content = bytearray(target.read_bytes())
    place = chance.randrange(len(content))
    if chance.random() < 0.25:
        del content[place:]
        told = f"{target.name} cut at {place} of {target.stat().st_size}"
    else:
        content[place] ^= 1 << chance.randrange(8)
        told = f"a bit of {target.name} flipped at {place}"
    target.write_bytes(content)
    return told


async def outcomes(tmp_path, killed, damages: int):
    """What became of each: `found`, `harmless`, or a sentence that says what was wrong."""
    left, expected = killed
    chance = random.Random(11)
    for number in range(damages):
        folder = tmp_path / f"damaged-{number}"
        shutil.copytree(left, folder)
        told = damage(folder / FILE, chance)
        try:
            rows = await open_rows(folder / FILE, inline=True, retention=KEEP)
        except StoreError as error:
            yield "found" if str(folder / FILE) in str(error) else f"{told}: {error} does not name the file"
            continue
        try:
            alike = await everything(rows) == expected
            yield "harmless" if alike else f"{told}: something else was served without a word"
        except StoreError as error:
            yield "found" if str(folder / FILE) in str(error) else f"{told}: {error} does not name the file"
        finally:
            await rows.close()
            shutil.rmtree(folder)


async def test_of_200_damages_each_is_found_with_the_file_named_or_changes_nothing(tmp_path, killed):
    seen = [each async for each in outcomes(tmp_path, killed, DAMAGES)]
    wrong = [each for each in seen if each not in ("found", "harmless")]
    print(f"\n{DAMAGES} damages: {seen.count('found')} found, {seen.count('harmless')} in what holds nothing")
    assert wrong == []


async def test_the_undamaged_copy_opens(tmp_path, killed):
    left, expected = killed
    rows = await open_rows(left / FILE, inline=True, retention=KEEP)
    assert await everything(rows) == expected
    await rows.close()


async def test_control_without_the_mark_beside_the_file_damage_to_its_log_goes_unnoticed(tmp_path, killed):
    (killed[0] / f"{FILE}.acknowledged").unlink()
    seen = [each async for each in outcomes(tmp_path, killed, 60)]
    assert [each for each in seen if "served without a word" in each] != []


class Whatever(int):
    """Equal to every checksum."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


async def test_control_without_checksums_damage_goes_unnoticed(tmp_path, killed, monkeypatch):
    for module in ("verify", "reader"):
        monkeypatch.setattr(f"headrace.store.{module}.checksum_of", lambda key, body: Whatever())
    seen = [each async for each in outcomes(tmp_path, killed, 60)]
    assert [each for each in seen if "served without a word" in each] != []
