"""One process to a file: an flock on a side file that names its holder's pid. The kernel lets go when that dies."""

import fcntl
import os
from pathlib import Path

from headrace.store.protocol import Unavailable


class FileLock:
    """Taken at construction; raises Unavailable naming the pid of whoever has it."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + ".lock")
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(f"{database} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._file, 20).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            raise Unavailable(
                f"{database} is in use by the process with pid {holder}: stop that one, or use another data directory"
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        """The side file stays: deleting it would let two openers lock two different files of one name."""
        os.close(self._file)
