"""Reading and writing the kernel's files, and a change of several of them that can be taken back."""

import errno
import os
from pathlib import Path

GONE = (errno.ENOENT, errno.ESRCH, errno.ENODEV)  # how the kernel says that a group or a process is no more


def read(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()


def read_number(path: Path) -> int:
    return int(read(path))


def read_field(path: Path, name: str) -> int:
    """A value of a file of `name value` lines; 0 where the kernel does not have it."""
    for line in read(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0


def write(path: Path, value: str) -> None:
    """One write call: the kernel takes or refuses the value as a whole. Nothing is created. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)


class Update:
    """Writes, and what was there before. `undo` goes back in reverse order, which keeps every intermediate legal."""

    def __init__(self) -> None:
        self._before: list[tuple[Path, str]] = []

    def write(self, path: Path, value: str) -> None:
        before = read(path)
        if before != value:
            write(path, value)
            self._before.append((path, before))

    def undo(self) -> bool:
        """True when all previous values are in force again."""
        restored = True
        for path, value in reversed(self._before):
            try:
                write(path, value)
                restored = restored and read(path) == value
            except OSError:
                restored = False
        self._before.clear()
        return restored
