"""What becomes of a guest that dies, hangs, or has no kernel: an error with the reason, never a pass or a skip."""

import tempfile
from pathlib import Path

import pytest

from tests.guest.kernel import CannotFetch, kernel
from tests.guest.machine import GuestDied, follow, run


def test_one_that_hangs_is_ended_and_what_it_said_is_kept() -> None:
    console, in_time = follow(("sh", "-c", "echo begins; exec sleep 600"), 1.0, lambda line: None)
    assert (console, in_time) == (["begins"], False)


def test_one_that_ends_by_itself_is_in_time() -> None:
    heard: list[str] = []
    assert follow(("sh", "-c", "echo begins; echo ends"), 60.0, heard.append) == (["begins", "ends"], True)
    assert heard == ["begins", "ends"]


def programs(folder: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    """Nothing else is on PATH, and nothing is in the cache."""
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("HOME", str(folder / "home"))


def test_without_apt_there_is_no_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(tmp_path, monkeypatch)
    with pytest.raises(CannotFetch, match="apt-get is missing here"):
        kernel()


def test_what_apt_says_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails = "echo 'E: Unable to fetch' >&2; exit 100"
    programs(tmp_path, monkeypatch, **{"apt-cache": "echo '  Depends: linux-image-6.1-cloud'", "apt-get": fails})
    with pytest.raises(CannotFetch, match="apt-get update -qq: E: Unable to fetch"):
        kernel()
    assert list((tmp_path / "home/.cache/headrace").iterdir()) == []


@pytest.mark.guest
@pytest.mark.xdist_group("guest")
def test_one_that_panics_tells_the_end_of_its_console() -> None:
    crash = ("sh", "-c", "echo before; echo 1 > /proc/sys/kernel/sysrq; echo c > /proc/sysrq-trigger; sleep 600")
    with (
        tempfile.TemporaryDirectory(prefix="headrace-guest-") as folder,
        pytest.raises(GuestDied, match=r"(?s)it ended before its work.*before.*Kernel panic"),
    ):
        run(kernel(), crash, Path(folder), 300, lambda line: None)
