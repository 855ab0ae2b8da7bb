"""What is wrong with a data directory's file, and what to do: not a backup for what needs none."""

import apsw
import pytest

from headrace.serve.examination import LOOK, MOVE, RESTORE, UPGRADE, file_problem, has_file
from headrace.serve.home import FILE
from headrace.store.schema import STEPS
from headrace.store.sqlite import open_rows
from tests.store.builders import put

NEWER = len(STEPS) + 1


@pytest.fixture
async def path(tmp_path):
    rows = await open_rows(tmp_path / FILE)
    await rows.commit(put("a"))
    await rows.close()
    return tmp_path / FILE


def changed(path, name, value):
    connection = apsw.Connection(str(path))
    connection.pragma(name, value)
    connection.close()


def damage(path):
    content = bytearray(path.read_bytes())
    content[4096:8192] = b"\xff" * 4096
    path.write_bytes(content)


WRONG = {
    "a newer release's": (lambda path: changed(path, "user_version", NEWER), f"schema version {NEWER}", UPGRADE),
    "another program's": (lambda path: changed(path, "application_id", 1), "belongs to another program", MOVE),
    "damaged": (damage, "is damaged", RESTORE),
    "cut off": (lambda path: path.write_bytes(b"x" * 200), "its beginning is damaged", RESTORE),
    "a directory": (lambda path: (path.unlink(), path.mkdir()), "cannot be read: Is a directory", LOOK),
}


@pytest.mark.parametrize(("spoil", "words", "remedy"), WRONG.values(), ids=WRONG)
async def test_what_is_wrong_with_the_file_is_told_with_what_helps(path, spoil, words, remedy):
    """A file of a newer release was to be replaced by a backup."""
    spoil(path)
    problem = file_problem(path.parent)
    assert words in problem.message
    assert problem.remedy == remedy


async def test_a_file_that_is_well_is_told_as_that(path):
    assert has_file(path.parent)
    assert file_problem(path.parent) is None
