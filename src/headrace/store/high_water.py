"""The last acknowledged revision, kept beside the file: a file that ends before it has lost what was promised.

Damage at the end of the log looks like a write that was never finished, and SQLite drops it without a word. This mark
is written after each commit is durable and before it is answered, and never synced: after a power cut it may be behind
the file, never ahead of it.
"""

import os
from pathlib import Path
from zlib import crc32

from headrace.store.faults import REMEDY, Corrupt

_LENGTH = 32


class HighWater:
    """One fixed line: the revision and a checksum of it, written over in place, so that it needs no space."""

    def __init__(self, database: Path) -> None:
        """Raises OSError."""
        self.path = database.with_name(database.name + ".acknowledged")
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._told = self._read()

    def check(self, revision: int, file: str) -> None:
        """Raises Corrupt when the file ends at a revision before the last acknowledged one."""
        if revision < self._told:
            raise Corrupt(
                f"{file} or its log {file}-wal is damaged, or an older file was put in its place: it ends at revision "
                f"{revision}, {self._told} was acknowledged. {REMEDY}; if this is the backup, delete {self.path}"
            )

    def tell(self, revision: int) -> None:
        """A mark that cannot be written finds less; what it is about is safe."""
        if revision <= self._told:
            return
        self._told = revision
        try:  # noqa: SIM105 (half the price of contextlib.suppress, at each commit)
            os.pwrite(self._file, _line(revision), 0)
        except OSError:
            pass

    def close(self) -> None:
        os.close(self._file)

    def _read(self) -> int:
        """0 when there is none, or when it is not whole itself."""
        text = os.pread(self._file, _LENGTH, 0)
        number = text[:20]
        return int(number) if number.isdigit() and text == _line(int(number)) else 0


def _line(revision: int) -> bytes:
    number = b"%020d" % revision
    return b"%s %08x\n" % (number, crc32(number))
