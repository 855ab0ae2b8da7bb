"""The first file system's archive, as busybox unpacks it."""

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from tests.guest import cpio


def test_each_member_is_padded_to_four_bytes_and_ends_with_the_trailer() -> None:
    data = cpio.archive([cpio.file("a", b"12345")])
    assert len(data) % 4 == 0
    assert data.startswith(b"070701")
    assert data.count(b"070701") == 2
    assert b"TRAILER!!!\0" in data


@pytest.mark.skipif(shutil.which("busybox") is None, reason="busybox is not installed")
def test_what_is_packed_is_unpacked(tmp_path: Path) -> None:
    long = "a" * 123
    data = cpio.archive(
        [
            cpio.directory("d"),
            cpio.file("d/run", b"#!/bin/sh\n", 0o755),
            cpio.file(f"d/{long}", bytes(range(256)) * 33, 0o600),
            cpio.file("empty", b""),
        ]
    )
    subprocess.run(["busybox", "cpio", "-i"], cwd=tmp_path, input=data, check=True, capture_output=True)
    assert stat.S_IMODE((tmp_path / "d/run").stat().st_mode) == 0o755
    assert (tmp_path / "d" / long).read_bytes() == bytes(range(256)) * 33
    assert (tmp_path / "empty").read_bytes() == b""
