"""The FIFO is the buffer: what is not in the log is still in it."""

import os
from pathlib import Path

import pytest

from headrace.node.keeper.log import Log
from headrace.node.keeper.pump import Pump, Scratch


class Pipe:
    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "fifo")
        os.mkfifo(self.path)
        self.scratch = Scratch()
        self.log_path = directory / "0.log"
        self.pump = self.open()
        self.container = os.open(self.path, os.O_RDWR)

    def open(self) -> Pump:
        return Pump("stdout", self.path, Log(str(self.log_path)), self.scratch)

    def logged(self) -> list[str]:
        return [line.split(" ", 3)[3] for line in self.log_path.read_text().splitlines()]


@pytest.fixture
def pipe(tmp_path: Path) -> Pipe:
    return Pipe(tmp_path)


def test_whole_lines_go_to_the_log_and_a_begun_one_stays(pipe: Pipe) -> None:
    os.write(pipe.container, b"one\ntwo\nthr")
    pipe.pump.drain()
    assert pipe.logged() == ["one", "two"]
    os.write(pipe.container, b"ee\n")
    pipe.pump.drain()
    assert pipe.logged() == ["one", "two", "three"]


def test_a_begun_line_survives_the_reader(pipe: Pipe) -> None:
    os.write(pipe.container, b"one\ntw")
    pipe.pump.drain()
    os.close(pipe.pump.fifo)
    os.write(pipe.container, b"o\nthree\n")  # nobody reads, and nobody is killed for it
    again = pipe.open()
    again.drain()
    assert pipe.logged() == ["one", "two", "three"]


def test_what_was_read_but_not_written_is_still_there(pipe: Pipe) -> None:
    os.write(pipe.container, b"one\n")
    assert pipe.scratch.peek(pipe.pump.fifo) == b"one\n"
    assert pipe.scratch.peek(pipe.pump.fifo) == b"one\n"
    pipe.pump.drain()
    assert pipe.logged() == ["one"]
    assert pipe.scratch.peek(pipe.pump.fifo) is None


def test_the_end_is_seen_and_a_last_line_without_end_is_written(pipe: Pipe) -> None:
    os.write(pipe.container, b"one\ntw")
    os.close(pipe.container)
    pipe.pump.drain()
    pipe.pump.finish()
    assert pipe.logged() == ["one", "tw"]
    assert pipe.pump.ended


def test_a_full_pipe_without_a_line_end_is_moved_on_in_pieces(pipe: Pipe) -> None:
    os.set_blocking(pipe.container, False)
    written = 0
    for _ in range(10):
        try:
            while True:
                written += os.write(pipe.container, b"x" * 1000)
        except BlockingIOError:
            pipe.pump.drain()
    os.write(pipe.container, b"\n")
    pipe.pump.drain()
    assert sum(map(len, pipe.logged())) == written
    assert written > 500_000
