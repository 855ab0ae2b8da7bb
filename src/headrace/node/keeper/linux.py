"""The few Linux calls that Python's `os` lacks: prctl, tee, mount, unshare, and exit codes from a pidfd."""

import ctypes
import fcntl
import os
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 1, 32, 4096, 8192, 16384, 1 << 18

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SPLICE_F_NONBLOCK = 2
_PIDFD_INFO = "QQ11Ii"  # struct pidfd_info, first published size: mask, cgroup, eleven ids, exit code
_PIDFD_GET_INFO = 3 << 30 | struct.calcsize(_PIDFD_INFO) << 16 | 0xFF << 8 | 11
_PIDFD_INFO_EXIT = 8

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def become_subreaper() -> None:
    """Orphaned descendants become this process's children, whatever they do."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def no_new_privileges() -> None:
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def tee(source: int, target: int, size: int) -> int:
    """Copy from pipe to pipe without consuming; 0 at the end of file. Raises BlockingIOError on an empty pipe."""
    return _checked(_libc.tee(source, target, ctypes.c_size_t(size), _SPLICE_F_NONBLOCK))


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags))


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [text.encode() if text is not None else None for text in (source, target, kind)]
    _checked(_libc.mount(*texts, ctypes.c_ulong(flags), data.encode() if data is not None else None))


def exit_status(pidfd: int) -> int | None:
    """Wait status of a process that is nobody's child here: known for a reaped process from Linux 6.15 on."""
    answer = bytearray(struct.pack(_PIDFD_INFO, _PIDFD_INFO_EXIT, *[0] * 13))
    try:
        fcntl.ioctl(pidfd, _PIDFD_GET_INFO, answer)
    except OSError:
        return None
    fields = struct.unpack(_PIDFD_INFO, answer)
    return int(fields[-1]) if fields[0] & _PIDFD_INFO_EXIT else None
