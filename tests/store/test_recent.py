"""Rows in memory beside the file: bounded, and never older than what a reader has already seen."""

import pytest

from headrace.store.recent import ROW_BYTES, RecentRows
from headrace.store.rows import Body, Change, Key, Row, Write
from headrace.store.sqlite import open_rows

KEY = Key("configmaps", "default", "one")


def _change(revision: int, body: bytes | None) -> Change:
    return Change(KEY, revision, body, None)


def test_the_oldest_rows_go_once_there_are_too_many_bytes() -> None:
    recent = RecentRows(3 * (ROW_BYTES + 10))
    keys = [Key("configmaps", "default", str(number)) for number in range(5)]
    for key in keys:
        recent.put(key, Row(*key, 1, b"x" * 10))
    assert [recent.get(key) is not None for key in keys] == [False, False, True, True, True]


def test_a_row_beyond_the_bound_is_not_kept() -> None:
    recent = RecentRows(100)
    recent.put(KEY, Row(*KEY, 1, b"x" * 200))
    assert recent.get(KEY) is None


def test_a_change_told_late_does_not_replace_what_a_read_found_meanwhile() -> None:
    recent = RecentRows()
    recent.put(KEY, Row(*KEY, 5, b"five"))
    recent.follow(_change(4, b"four"))
    recent.follow(_change(3, None))
    assert recent.get(KEY) == Row(*KEY, 5, b"five")


def test_a_deleted_row_is_forgotten() -> None:
    recent = RecentRows()
    recent.follow(_change(4, b"four"))
    recent.follow(_change(5, None))
    assert recent.get(KEY) is None


@pytest.mark.parametrize("read", ["a page", "a row that is gone"])
async def test_no_read_goes_back_behind_a_commit_that_another_read_has_shown(tmp_path, read: str) -> None:
    """Between the commit and its announcement the file is ahead of memory."""
    rows = await open_rows(tmp_path / "file.db", inline=True)
    other = Key("configmaps", "default", "other")
    try:
        for key in (KEY, other):
            await rows.commit(Write(key, 0, Body(b'{"v":"', b'"}'), {"metadata": {}}))
        publish, rows._publish = rows._publish, lambda batch: None  # type: ignore[method-assign]
        await rows.commit(Write(KEY, 2, Body(b'{"w":"', b'"}'), {"metadata": {}}))
        assert rows.get(KEY) == Row(*KEY, 2, b'{"v":"2"}'), "nobody has seen the commit yet"
        if read == "a page":
            rows.page("configmaps", "default")
        else:
            assert rows.get(Key("configmaps", "default", "absent")) is None
        assert rows.get(KEY) == Row(*KEY, 4, b'{"w":"4"}')
    finally:
        rows._publish = publish  # type: ignore[method-assign]
        await rows.close()
