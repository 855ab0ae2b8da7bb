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


ONE, OTHER = 1, 2


async def alone(rows: SQLiteRows, name: str) -> None:
    for number in range(LONE_COMMITS + 1):
        await rows.commit(put(f"{name}-{number}"), ONE)


def is_done_at_once(rows: SQLiteRows, name: str, connection: int | None) -> bool:
    writing = rows.commit(put(name), connection).__await__()
    try:
        next(writing)
    except StopIteration:
        return True
    writing.close()
    return False


async def test_the_first_writes_wait_for_a_turn_and_one_after_others_alone_does_not(tmp_path, syncs):
    rows = await open_rows(tmp_path / "rows.db")
    assert not is_done_at_once(rows, "first", ONE)
    assert not syncs, "others may join it"
    await asyncio.sleep(0)
    assert len(syncs) == 1
    await alone(rows, "a")
    assert is_done_at_once(rows, "b", ONE)
    assert len(syncs) == LONE_COMMITS + 3
    assert rows.page("configmaps").revision == len(syncs) + 1
    await rows.close()


@pytest.mark.parametrize("connection", [OTHER, None], ids=["of another connection", "of nobody's connection"])
async def test_a_write_beside_those_of_a_lone_writer_waits_for_a_turn(tmp_path, syncs, connection):
    rows = await open_rows(tmp_path / "rows.db")
    await alone(rows, "a")
    assert not is_done_at_once(rows, "b", connection)
    await asyncio.sleep(0)
    assert len(syncs) == LONE_COMMITS + 2
    assert not is_done_at_once(rows, "c", ONE), "for it is not alone"
    await rows.close()


async def test_a_refusal_is_told_at_once_too(tmp_path, syncs):
    rows = await open_rows(tmp_path / "rows.db")
    await alone(rows, "a")
    with pytest.raises(AlreadyExists):
        is_done_at_once(rows, "a-0", ONE)
    await rows.close()


async def test_those_who_write_in_the_same_turn_as_a_lone_writer_share_a_sync(tmp_path, syncs):
    rows = await open_rows(tmp_path / "rows.db")
    await alone(rows, "a")
    await asyncio.gather(*(rows.commit(put(f"b-{number}"), number) for number in range(16)))
    assert len(syncs) == LONE_COMMITS + 2, "one for all sixteen, of whom the lone writer was not the first"
    await alone(rows, "c")
    await asyncio.gather(*(rows.commit(put(f"d-{number}"), ONE + number) for number in range(16)))
    assert len(syncs) == 2 * LONE_COMMITS + 5, "one for the lone writer and one for the others"
    await rows.close()
