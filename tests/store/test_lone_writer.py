"""Who writes alone is committed for at once, and shares its sync again as soon as it is not alone."""

import asyncio

import pytest

from headrace.store.committer import Committer
from headrace.store.disk_thread import DiskThread, Ended, failure_of
from headrace.store.protocol import AlreadyExists
from headrace.store.sqlite import SQLiteRows, open_rows
from headrace.store.writer import LONE_COMMITS
from tests.store.builders import put


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One entry a sync, on a disk that is always quick."""
    made: list[None] = []
    sync = Committer.sync

    def counted(committer: Committer) -> None:
        made.append(None)
        sync(committer)

    monkeypatch.setattr(Committer, "sync", counted)
    monkeypatch.setattr(DiskThread, "hand_and_wait", lambda _self, work, _then: Ended(failure_of(work)))
    return made


async def alone(rows: SQLiteRows, name: str) -> None:
    for number in range(LONE_COMMITS):
        await rows.commit(put(f"{name}-{number}"))
        await asyncio.sleep(0)


def is_done_at_once(rows: SQLiteRows, name: str) -> bool:
    try:
        rows.commit(put(name)).send(None)
    except StopIteration:
        return True
    return False


async def test_the_first_writes_wait_for_a_turn_and_one_after_others_alone_does_not(tmp_path, syncs):
    rows = await open_rows(tmp_path / "rows.db")
    first = rows.commit(put("first"))
    first.send(None)
    assert not syncs, "others may join it"
    await asyncio.sleep(0)
    assert len(syncs) == 1
    await alone(rows, "a")
    assert is_done_at_once(rows, "b")
    assert len(syncs) == LONE_COMMITS + 2
    assert rows.page("configmaps").revision == len(syncs) + 1
    first.close()
    await rows.close()


async def test_a_refusal_is_told_at_once_too(tmp_path, syncs):
    rows = await open_rows(tmp_path / "rows.db")
    await alone(rows, "a")
    with pytest.raises(AlreadyExists):
        rows.commit(put("a-0")).send(None)
    await rows.close()


async def test_those_who_write_in_the_same_turn_as_a_lone_writer_share_a_sync(tmp_path, syncs):
    rows = await open_rows(tmp_path / "rows.db")
    await alone(rows, "a")
    await asyncio.gather(*(rows.commit(put(f"b-{number}")) for number in range(16)))
    assert len(syncs) == LONE_COMMITS + 2, "one for the first of them, one for the others"
    await asyncio.gather(*(rows.commit(put(f"c-{number}")) for number in range(16)))
    assert len(syncs) == LONE_COMMITS + 3, "and now none of them is taken to be alone"
    await rows.close()
