"""The process is killed before each statement of each schema step: the next start completes it, and loses nothing."""

import os
import shutil
import signal

import apsw
import pytest

from headrace.store import schema
from headrace.store.protocol import StoreError
from headrace.store.sqlite import open_rows
from tests.store.builders import put
from tests.trust.test_power_loss import NEXT_STEP

pytestmark = pytest.mark.trust

OBJECTS = 30


@pytest.fixture
async def filled(tmp_path):
    rows = await open_rows(tmp_path / "filled.db", inline=True)
    for number in range(OBJECTS):
        await rows.commit(put(f"object-{number}", data="x" * 500))
    await rows.close()
    return tmp_path / "filled.db"


def killed_before(path, statement: int) -> bool:
    """Runs the steps in a process that kills itself there; False when there were fewer statements."""
    child = os.fork()
    if child == 0:
        left = [statement]

        def trace(_cursor, _text, _bindings):
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return True

        connection = apsw.Connection(str(path))
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")
        connection.exec_trace = trace
        schema.upgrade(connection)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


async def layout_and_objects(path):
    rows = await open_rows(path, inline=True)
    layout = rows._writing.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").get
    found = {row.key.name: (row.revision, row.body) for row in rows.page("configmaps").rows}
    notes = rows._writing.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'notes'").get
    version = rows._writing.pragma("user_version")
    assert rows._writing.execute("PRAGMA integrity_check").get == "ok"
    await rows.close()
    return layout, found, notes, version


@pytest.mark.parametrize("start", ["nothing", "the schema before"])
async def test_killed_before_each_statement_the_next_start_completes_the_steps(tmp_path, filled, monkeypatch, start):
    expected_objects = (await layout_and_objects(filled))[1] if start != "nothing" else {}
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, NEXT_STEP))
    whole = tmp_path / "whole.db"
    if start != "nothing":
        shutil.copy(filled, whole)
    expected = await layout_and_objects(whole)
    assert expected[1] == expected_objects
    statement = 0
    while True:
        path = tmp_path / f"killed-{statement}.db"
        if start != "nothing":
            shutil.copy(filled, path)
        if not killed_before(path, statement):
            break
        assert await layout_and_objects(path) == expected, f"killed before statement {statement}"
        statement += 1
    print(f"\nfrom {start}: killed before each of {statement} statements")
    assert statement > len(NEXT_STEP) + 2


async def test_control_a_step_that_is_not_whole_is_noticed(tmp_path, filled, monkeypatch):
    """A step without its transaction, of statements that cannot be run again."""
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, ("CREATE TABLE once (a)", "CREATE TABLE twice (b)")))
    expected = None
    shutil.copy(filled, tmp_path / "whole.db")
    expected = await layout_and_objects(tmp_path / "whole.db")
    connection = apsw.Connection(str(filled))
    connection.execute("CREATE TABLE once (a)")  # what a kill would leave of it
    connection.close()
    try:
        found = await layout_and_objects(filled)
    except (StoreError, apsw.Error):
        return
    assert found != expected
