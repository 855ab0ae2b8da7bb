"""Who holds a lock file, written into it with the file's own number: a copy of a directory that is in use tells so.

The lock of a copy is free, though what the directory describes (containers, a node) is in the hands of its original's.
"""

import os

from headrace.node.keeper import identity

_LENGTH = 100


def sign(lock: int) -> None:
    """We hold this one."""
    found = identity.stat(os.getpid())
    started = found.start_ticks if found is not None else 0
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()} {started} {_number(lock)}\n".encode(), 0)


def pid(lock: int) -> int | None:
    """Whoever signed it last, or None where nobody has."""
    words = os.pread(lock, _LENGTH, 0).split()
    return int(words[0]) if words and words[0].isdigit() else None


def of_original(lock: int) -> int | None:
    """The process that holds the file of which this one is a copy, while it runs."""
    words = os.pread(lock, _LENGTH, 0).decode(errors="replace").split()
    if len(words) != 3 or words[2] == _number(lock) or not (words[0].isdigit() and words[1].isdigit()):
        return None
    return int(words[0]) if identity.runs(int(words[0]), int(words[1])) else None


def _number(lock: int) -> str:
    found = os.fstat(lock)
    return f"{found.st_dev}:{found.st_ino}"
