"""The log file: every byte of the output is in it once, in records that a CRI reader joins again."""

import os
import re
import resource
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.node.keeper.log import LINE_BYTES, Log, cut, stamp

RECORD = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (stdout|stderr) ([FP]) (.*)\Z", re.DOTALL)


def read(path: Path, stream: bytes = b"stdout") -> bytes:
    """The stream as a reader of the log joins it: P goes on, F ends a line."""
    joined = b""
    for record in path.read_bytes().split(b"\n")[:-1]:
        match = RECORD.match(record)
        assert match is not None, record
        if match[1] == stream:
            joined += match[3] + (b"\n" if match[2] == b"F" else b"")
    return joined


def feed(log: Log, stream: str, chunks: list[bytes]) -> None:
    """As the pump does: what is not taken is offered again with what comes next."""
    pending = b""
    for chunk in chunks:
        pending += chunk
        while taken := log.append(stream, pending):
            pending = pending[taken:]
    while pending:
        pending = pending[log.append(stream, pending, last=True) :]


@settings(deadline=None)
@given(
    chunks=st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.sampled_from(
                [b"\n", b"line\n", b"x" * LINE_BYTES, b"y" * (LINE_BYTES + 1) + b"\n", b"z" * 3 * LINE_BYTES]
            ),
        )
    )
)
def test_whatever_the_chunks_the_log_holds_exactly_the_output(tmp_path_factory: pytest.TempPathFactory, chunks) -> None:
    path = tmp_path_factory.mktemp("log") / "0.log"
    log = Log(str(path))
    feed(log, "stdout", chunks)
    log.close()
    written = b"".join(chunks)
    joined = read(path)
    assert joined in (written, written + b"\n")  # an unfinished last line is ended, unless only its pieces came


def test_a_record_is_as_cri_writes_it() -> None:
    assert stamp(1_795_971_600_000_000_123) == "2026-11-29T17:00:00.000000123Z"
    assert cut("T stdout", b"one\ntwo\nthr", last=False) == (b"T stdout F one\nT stdout F two\n", 8, False)


@pytest.mark.parametrize(
    ("data", "last", "records", "taken"),
    [
        pytest.param(b"", False, b"", 0, id="nothing gives nothing"),
        pytest.param(b"beg", False, b"", 0, id="a begun line waits"),
        pytest.param(b"beg", True, b"h F beg\n", 3, id="a begun line is written at the end"),
        pytest.param(b"\n\n", False, b"h F \nh F \n", 2, id="empty lines are lines"),
        pytest.param(b"a\r\n", False, b"h F a\r\n", 3, id="a carriage return is the application's"),
        pytest.param(
            b"x" * (LINE_BYTES + 2), False, b"h P " + b"x" * LINE_BYTES + b"\n", LINE_BYTES, id="a long line in pieces"
        ),
        pytest.param(
            b"x" * (LINE_BYTES + 1) + b"\nb\n",
            False,
            b"h P " + b"x" * LINE_BYTES + b"\nh F x\nh F b\n",
            LINE_BYTES + 4,
            id="the last piece ends the line",
        ),
        pytest.param(
            b"x" * LINE_BYTES + b"\n",
            False,
            b"h F " + b"x" * LINE_BYTES + b"\n",
            LINE_BYTES + 1,
            id="the longest whole line",
        ),
    ],
)
def test_lines_become_records(data: bytes, last: bool, records: bytes, taken: int) -> None:
    assert cut("h", data, last)[:2] == (records, taken)


def test_rotation_keeps_five_files_and_loses_no_line_between_them(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = Log(str(path), file_bytes=2000)
    for number in range(100):
        log.append("stdout", b"line %d\n" % number)
    log.close()
    files = sorted(tmp_path.iterdir(), key=lambda file: -int(file.suffix[1:]) if file.suffix != ".log" else 1)
    assert [file.name for file in files] == ["0.log.4", "0.log.3", "0.log.2", "0.log.1", "0.log"][-len(files) :]
    numbers = [int(line.split()[-1]) for file in files for line in file.read_text().splitlines()]
    assert numbers == list(range(numbers[0], 100))
    assert all(file.stat().st_size < 2000 + 60 for file in files)

    log = Log(str(path), file_bytes=100)
    for number in range(100, 130):
        log.append("stdout", b"line %d\n" % number)
    assert len(list(tmp_path.iterdir())) == 5
    log.close()


def test_a_long_line_is_not_spread_over_two_files(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = Log(str(path), file_bytes=LINE_BYTES + 50)
    log.append("stdout", b"a" * LINE_BYTES)
    log.append("stdout", b"the rest\n")
    log.append("stdout", b"next\n")
    log.close()
    assert read(tmp_path / "0.log.1") == b"a" * LINE_BYTES + b"the rest\n"
    assert read(path) == b"next\n"


def test_what_a_crash_left_half_written_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"2026-11-29T17:00:00.000000000Z stdout F whole\n2026-11-29T17:00:00.0000")
    log = Log(str(path))
    log.append("stdout", b"again\n")
    log.close()
    assert read(path) == b"whole\nagain\n"


def test_a_log_that_cannot_be_written_takes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = Log(str(path))
    log.append("stdout", b"before\n")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 50, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            log.append("stdout", b"much more than there is room for\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    log.append("stdout", b"after\n")
    log.close()
    assert read(path) == b"before\nafter\n"


def test_a_link_in_the_place_of_the_log_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "0.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        Log(str(tmp_path / "0.log"))


def test_a_file_that_others_delete_move_or_empty_goes_on_at_its_path(tmp_path: Path) -> None:
    """What came after its deletion was nowhere until ten mebibytes later."""
    path = tmp_path / "0.log"
    log = Log(str(path))
    log.append("stdout", b"one\n")
    path.unlink()
    log.append("stdout", b"two\n")
    assert read(path) == b"two\n"
    path.rename(tmp_path / "moved")
    log.append("stdout", b"three\n")
    assert (read(path), read(tmp_path / "moved")) == (b"three\n", b"two\n")
    os.truncate(path, 0)
    log.append("stdout", b"four\n")
    assert read(path) == b"four\n"
    shutil.rmtree(tmp_path)
    log.append("stdout", b"five\n")  # nobody can read it, and nobody waits for it
    assert not tmp_path.exists()
    log.close()


def test_a_file_that_was_emptied_on_a_full_disk_has_no_hole(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = Log(str(path))
    log.append("stdout", b"x" * 5000 + b"\n")
    os.truncate(path, 0)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            log.append("stdout", b"y" * 100 + b"\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == b""
    log.append("stdout", b"after\n")
    assert read(path) == b"after\n"
    log.close()


def test_a_rotation_that_cannot_rename_is_tried_again_and_nothing_is_lost_or_written_twice(tmp_path: Path) -> None:
    """The log was never written again, and its container waited for ever."""
    path, in_the_way = tmp_path / "0.log", tmp_path / "0.log.1"
    in_the_way.mkdir()
    log = Log(str(path), file_bytes=100, files=2)
    lines = [b"line %d\n" % number for number in range(9)]
    assert [log.append("stdout", line) for line in lines[:8]] == [len(line) for line in lines[:8]]
    in_the_way.rmdir()
    log.append("stdout", lines[8])
    log.close()
    assert (read(in_the_way), read(path)) == (b"".join(lines), b"")


def test_a_rotation_without_a_free_descriptor_goes_on_in_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = Log(str(path), file_bytes=100)
    lines = [b"line %d\n" % number for number in range(9)]
    free = os.dup(0)
    os.close(free)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        taken = [log.append("stdout", line) for line in lines[:8]]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert taken == [len(line) for line in lines[:8]]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["0.log.1"]
    log.append("stdout", lines[8])
    log.close()
    assert (read(tmp_path / "0.log.1"), read(path)) == (b"".join(lines[:8]), lines[8])
