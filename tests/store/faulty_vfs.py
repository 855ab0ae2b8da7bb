"""An SQLite VFS whose n-th read, write or sync fails, or kills the process: the disk as it may be."""

import errno
import os
import signal
from collections import Counter
from collections.abc import Callable

import apsw

NAME = "faulty"


def error(kind: type[apsw.Error], extended: int = 0) -> Callable[[], None]:
    def strike() -> None:
        found = kind("injected")
        if extended:
            found.extendedresult = extended
        raise found

    return strike


failed_read = error(apsw.IOError, apsw.SQLITE_IOERR_READ)
failed_sync = error(apsw.IOError, apsw.SQLITE_IOERR_FSYNC)
failed_write = error(apsw.IOError, apsw.SQLITE_IOERR_WRITE)
full = error(apsw.FullError)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class FaultyDisk(apsw.VFS):
    """`plan` maps (operation, n) to what happens at the n-th such operation; operations are `read`, `write` and `sync`.

    With `lasting`, every later operation of that kind strikes too. `system_error` is the errno behind what fails.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.plan: dict[tuple[str, int], Callable[[], None]] = {}
        self.lasting: dict[str, Callable[[], None]] = {}
        self.system_error = errno.EIO
        super().__init__(NAME, "")

    def xOpen(self, name, flags):
        return _File(self, name, flags)

    def xGetLastError(self):
        return self.system_error, "injected"

    def count(self, operation: str) -> None:
        self.counts[operation] += 1
        strike = self.lasting.get(operation) or self.plan.get((operation, self.counts[operation]))
        if strike is not None:
            strike()


class _File(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name, flags) -> None:
        super().__init__("", name, flags)
        self._disk = disk

    def xRead(self, amount, offset):
        self._disk.count("read")
        return super().xRead(amount, offset)

    def xWrite(self, data, offset):
        self._disk.count("write")
        super().xWrite(data, offset)

    def xSync(self, flags):
        self._disk.count("sync")
        super().xSync(flags)
