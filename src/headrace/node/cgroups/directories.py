"""Making and removing cgroup directories."""

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

REMOVE_SECONDS = 1.0  # the kernel still counts members for a moment after they have died
_LOOK_SECONDS = 0.005


def make(directory: Path, top: Path) -> None:
    """Make `directory` and what is missing of its parents below `top`. v1 cpusets get their parent's CPUs and nodes."""
    missing = []
    while directory != top and not directory.is_dir():
        missing.append(directory)
        directory = directory.parent
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            file = path / name
            if (path / "cpuset.sched_load_balance").exists() and not file.read_text(encoding="ascii").strip():
                file.write_text((path.parent / name).read_text(encoding="ascii"), encoding="ascii")


def prune(parents: Iterable[Path]) -> None:
    """Remove parents of groups, `…/headrace/INSTANCE`, as far as they are empty."""
    for parent in parents:
        for directory in (parent, parent.parent):
            with contextlib.suppress(OSError):  # not empty: still needed, by us or by another instance
                directory.rmdir()


def remove(directories: Iterable[Path], seconds: float = REMOVE_SECONDS) -> None:
    """Remove the cgroups and what was made below them. Raises OSError when one is still busy after `seconds`."""
    deadline = time.monotonic() + seconds
    for directory in directories:
        for place, _, _ in os.walk(directory, topdown=False):
            while True:
                try:
                    os.rmdir(place)
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    if time.monotonic() >= deadline:
                        raise
                    time.sleep(_LOOK_SECONDS)
