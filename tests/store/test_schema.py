"""Schema steps: cut short at any statement, run again, the file is as if nothing had happened."""

import apsw
import pytest

from headrace.store.schema import APPLICATION, STEPS, upgrade
from headrace.store.sqlite import open_rows

STATEMENTS = 2 * len(STEPS) + sum(len(step) for step in STEPS)


class CutShort(Exception):
    """The process died here."""


def layout(path):
    connection = apsw.Connection(str(path))
    try:
        return connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall()
    finally:
        connection.close()


def upgraded(path, *, statements: int | None = None):
    """Run the steps, or die before the given statement."""
    connection = apsw.Connection(str(path))
    left = [statements]

    def trace(_cursor, statement, _bindings):
        if statement.startswith("PRAGMA user_version") and "=" not in statement:
            return True  # it only looks
        if left[0] == 0:
            raise CutShort
        if left[0] is not None:
            left[0] -= 1
        return True

    connection.exec_trace = trace
    try:
        upgrade(connection)
    finally:
        connection.exec_trace = None
        connection.close()


@pytest.mark.parametrize("statements", range(STATEMENTS + 1))
async def test_a_step_cut_short_is_completed_at_the_next_start(tmp_path, statements):
    upgraded(tmp_path / "whole.db")
    with pytest.raises(CutShort):
        upgraded(tmp_path / "rows.db", statements=statements)
    rows = await open_rows(tmp_path / "rows.db")
    assert rows._writing.pragma("user_version") == len(STEPS)
    assert rows._writing.pragma("application_id") == APPLICATION
    await rows.close()
    assert layout(tmp_path / "rows.db") == layout(tmp_path / "whole.db")


async def test_running_the_steps_again_changes_nothing(tmp_path):
    await (await open_rows(tmp_path / "rows.db")).close()
    before = layout(tmp_path / "rows.db")
    connection = apsw.Connection(str(tmp_path / "rows.db"))
    connection.pragma("user_version", 0)
    connection.close()
    await (await open_rows(tmp_path / "rows.db")).close()
    assert layout(tmp_path / "rows.db") == before
