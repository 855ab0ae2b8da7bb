"""What an SQLite error means for the caller. Full disks pass; a failed sync does not: what it covered may be lost.

After a failed fsync the kernel may have dropped the dirty pages, and it reports the next sync as good, so nothing that
comes after may be acknowledged: the process must end and recover from the file.
"""

import errno
from pathlib import Path

import apsw

from headrace.store.protocol import DiskFull, StoreError, Unavailable

# Memory shared between connections could not be extended. It holds nothing durable, so this is want of space.
_NO_SPACE_FOR_SHARED_MEMORY = {apsw.SQLITE_IOERR_SHMSIZE, apsw.SQLITE_IOERR_SHMMAP}

REMEDY = "Stop, keep a copy of the file and restore a backup"


class Stopped(Unavailable):
    """The file failed underneath. No write is acknowledged any more; the process must end."""


class Corrupt(StoreError):
    """The file is damaged. The message names it and what can be done."""


def failed_open(error: OSError, path: Path) -> StoreError:
    return Unavailable(f"{path} cannot be opened: {error.strerror}")


def failed_read(error: apsw.Error, file: str) -> StoreError:
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return Corrupt(f"{file} is damaged ({error}). {REMEDY}")
    return Unavailable(f"{file} could not be read ({error})")


def failed_write(error: Exception, file: str, system_error: int = 0) -> StoreError:
    """`Stopped` is for good; the others concern only the writes at hand. `system_error`: the errno behind it."""
    code = getattr(error, "extendedresult", 0)
    if code == apsw.SQLITE_IOERR_WRITE and system_error == errno.EDQUOT:  # SQLite knows ENOSPC alone as want of space
        return DiskFull(f"the disk quota is used up for {file}: free some or raise it, writing resumes by itself")
    if isinstance(error, apsw.FullError) or code in _NO_SPACE_FOR_SHARED_MEMORY:
        return DiskFull(f"no space left for {file}: free some, writing resumes by itself")
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return Unavailable(f"{file} is locked by another process that opened it: close that one")
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return Stopped(f"{file} is damaged ({error}). {REMEDY}")
    return Stopped(f"{file} could not be written or synced ({error}): nothing more is acknowledged, restart to recover")
