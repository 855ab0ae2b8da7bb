"""What `kubectl logs` shows of a container's log, through rotations and lines in pieces."""

import asyncio
import itertools
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api.times import from_time
from headrace.node.launch import prune_logs
from headrace.node.logs import LogQuery, read

pytestmark = pytest.mark.looptime


def at(second):
    return f"2026-03-01T12:00:{second:02}.000000000Z"


def records(*texts, first=0):
    return "".join(f"{at(number)} stdout F {text}\n" for number, text in enumerate(texts, first)).encode()


async def text_of(path, is_running=lambda: False, **query):
    return b"".join([piece async for piece in read(path, LogQuery(**query), is_running)]).decode()


async def test_a_log_is_its_lines(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(records("one", "", "three  words here"))
    assert await text_of(path) == "one\n\nthree  words here\n"


async def test_older_files_come_first(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(records("d"))
    path.with_name("log.1").write_bytes(records("c"))
    path.with_name("log.2").write_bytes(records("a", "b"))
    assert await text_of(path) == "a\nb\nc\nd\n"
    assert await text_of(path, tail_lines=3) == "b\nc\nd\n"


async def test_no_log_is_no_text(tmp_path):
    assert await text_of(tmp_path / "log") == ""


async def test_a_pipe_that_somebody_made_of_a_log_is_not_waited_for(tmp_path):
    path = tmp_path / "log"
    os.mkfifo(path)
    path.with_name("log.1").write_bytes(records("a"))
    assert await text_of(path) == "a\n"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        pytest.param({"tail_lines": 1}, "three\n", id="the last line"),
        pytest.param({"tail_lines": 0}, "", id="no line"),
        pytest.param({"tail_lines": 9}, "one\ntwo\nthree\n", id="more lines than there are"),
        pytest.param({"limit_bytes": 5}, "one\nt", id="the first bytes"),
        pytest.param({"limit_bytes": 5, "tail_lines": 2}, "two\nt", id="the first bytes of the last lines"),
        pytest.param({"since": 1772366401.0}, "two\nthree\n", id="since a moment, that moment included"),
        pytest.param({"timestamps": True, "tail_lines": 1}, f"{at(2)} three\n", id="with the time that it was written"),
    ],
)
async def test_a_part_of_it(tmp_path, query, text):
    path = tmp_path / "log"
    path.write_bytes(records("one", "two", "three"))
    assert await text_of(path, **query) == text


async def test_a_line_in_pieces_is_one_line(tmp_path):
    path = tmp_path / "log"
    pieces = f"{at(0)} stdout P aaa\n{at(1)} stderr F other\n{at(2)} stdout F bbb\n{at(3)} stdout F next\n"
    path.write_bytes(pieces.encode())
    text = await text_of(path, tail_lines=2)
    assert text.endswith("next\n")
    only = f"{at(0)} stdout P aaa\n{at(2)} stdout F bbb\n{at(3)} stdout F next\n"
    path.write_bytes(only.encode())
    assert await text_of(path) == "aaabbb\nnext\n"
    assert await text_of(path, tail_lines=2) == "aaabbb\nnext\n"
    assert await text_of(path, timestamps=True) == f"{at(0)} aaabbb\n{at(3)} next\n"
    assert await text_of(path, since=1772366401.0) == "next\n"  # a line belongs to the time of its beginning


async def test_a_followed_log_goes_on_until_its_container_has_ended(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(records("a"))
    running = True
    reading = asyncio.create_task(text_of(path, lambda: running, follow=True))
    await asyncio.sleep(1)
    with path.open("ab") as file:
        file.write(records("b"))
    await asyncio.sleep(1)
    assert not reading.done()
    with path.open("ab") as file:
        file.write(records("c"))
    running = False
    assert await reading == "a\nb\nc\n"


def test_logs_of_runs_that_nobody_can_ask_for_are_removed(tmp_path):
    folder = tmp_path / "uid" / "logs"
    folder.mkdir(parents=True)
    for name in ("main_7.log", "main_7.log.1", "main_8.log", "main_9.log", "main-two_1.log", "other_0.log"):
        (folder / name).touch()
    prune_logs(tmp_path, "uid_main_9")
    assert sorted(each.name for each in folder.iterdir()) == [
        "main-two_1.log",
        "main_8.log",
        "main_9.log",
        "other_0.log",
    ]


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=12))
def test_nothing_is_lost_or_doubled_through_rotations(tmp_path_factory, steps):
    """Writes and rotations as the keeper does them, while somebody follows; the last four older files are kept."""
    path = tmp_path_factory.mktemp("logs") / "log"
    numbers = itertools.count()
    written = []

    def write(count):
        with path.open("ab") as file:
            for _ in range(count):
                text = f"line {next(numbers)}"
                written.append(text)
                file.write(records(text))

    def rotate():
        for number in range(4, 0, -1):
            newer = path.with_name(f"log.{number - 1}") if number > 1 else path
            if newer.exists():
                newer.replace(path.with_name(f"log.{number}"))
        path.touch()

    async def follow():
        running, seen = True, []
        write(1)
        pieces = read(path, LogQuery(follow=True), lambda: running)
        seen.append(await anext(pieces))
        for count, rotates in steps:
            write(count)
            if rotates:
                rotate()
                write(1)
            seen.append(await anext(pieces))
        running = False
        seen += [piece async for piece in pieces]
        return b"".join(seen).decode().splitlines()

    assert asyncio.run(follow()) == written


@pytest.mark.parametrize("moment", ["stat", "open"])
@pytest.mark.parametrize("name", ["log", "log.1", "log.2"])
def test_the_log_of_a_flood_that_is_rotated_at_any_moment_of_a_look_is_told_whole(tmp_path, monkeypatch, moment, name):
    """A user asked for the log of a Pod that printed without end, and got `No such file or directory`."""
    path = tmp_path / "log"
    path.write_bytes(records("d"))
    path.with_name("log.1").write_bytes(records("c"))
    path.with_name("log.2").write_bytes(records("a", "b"))
    real, left = getattr(type(path), moment), [2]

    def rotating(self, *arguments, **options):
        if left[0] and self.name == name:
            left[0] -= 1
            for number in range(4, 0, -1):
                newer = path.with_name(f"log.{number - 1}") if number > 1 else path
                if os.path.exists(newer):
                    os.replace(newer, path.with_name(f"log.{number}"))
            path.touch()
        return real(self, *arguments, **options)

    monkeypatch.setattr(type(path), moment, rotating)
    assert asyncio.run(text_of(path)).split() == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(b"\0" * 4096 + at(1).encode(), id="zeros that a power failure left"),
        pytest.param(b"yesterday", id="a file that somebody has edited"),
        pytest.param(b"2026-03-01T12:00:01", id="a time without a zone"),
        pytest.param(b"\xff\xfe", id="no text"),
    ],
)
async def test_a_line_whose_time_cannot_be_read_is_shown_with_since(tmp_path, odd):
    path = tmp_path / "log"
    path.write_bytes(records("old") + odd + b" stdout F odd\n" + records("new", first=9))
    since = from_time(at(5))
    assert await text_of(path, since=since) == "odd\nnew\n"
