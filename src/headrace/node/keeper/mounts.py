"""A container's mounts, in a mount namespace of its own: the machine's own tree is never changed.

A mount point that does not exist is made in a copy of its nearest directory: a tmpfs with everything in it bound anew.
"""

import os

from headrace.node.keeper.linux import (
    CLONE_NEWNS,
    CLONE_NEWUSER,
    MS_BIND,
    MS_MOVE,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    mount,
    unshare,
)

_COPIED_ENTRIES = 2000
_FLAGS = {"nosuid": os.ST_NOSUID, "nodev": os.ST_NODEV, "noexec": os.ST_NOEXEC}  # same bits as MS_…
_KEPT_FLAGS = (
    os.ST_RDONLY | os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME
)  # same bits as MS_…

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def enter(mounts: "Sequence[dict[str, Any]]", stage: str) -> None:
    """Leave the machine's mount namespace and mount; `stage` is an empty directory. Raises OSError with what failed.

    An ordinary user needs a user namespace for it, in which its ids stay the same; not every system permits that.
    """
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        unshare(CLONE_NEWNS)
    else:
        unshare(CLONE_NEWUSER | CLONE_NEWNS)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    for entry in mounts:
        source, target = entry["source"], os.path.normpath(entry["target"])
        directory = os.path.isdir(source)
        if not os.path.exists(target):
            _grow(target, stage, directory)
        mount(source, target, None, MS_BIND | MS_REC)
        flags = MS_RDONLY if entry.get("read_only") else 0
        for name in entry.get("flags", ()):
            flags |= _FLAGS[name]
        if flags:
            kept = os.statvfs(target).f_flag & _KEPT_FLAGS
            mount("none", target, None, MS_BIND | MS_REMOUNT | flags | kept)


def _grow(target: str, stage: str, directory: bool) -> None:
    """Make the mount point `target`, a directory or a file."""
    ancestor = os.path.dirname(target)
    while not os.path.isdir(ancestor):
        ancestor = os.path.dirname(ancestor)
    # What the copy binds is read through `origin`, opened before the tmpfs can cover it.
    entries = os.listdir(ancestor)
    if len(entries) > _COPIED_ENTRIES:
        raise OSError(28, f"mount point does not exist, and {ancestor} has too many entries to copy")
    mode = os.stat(ancestor).st_mode & 0o7777
    mount("tmpfs", stage, "tmpfs", 0, f"mode={mode:o}")
    for name in entries:
        _bind(os.path.join(ancestor, name), os.path.join(stage, name))
    new = os.path.join(stage, os.path.relpath(target, ancestor))
    os.makedirs(new if directory else os.path.dirname(new), exist_ok=True)
    if not directory:
        _touch(new)
    if ancestor == "/":
        os.chroot(stage)
        os.chdir("/")
    else:
        mount(stage, ancestor, None, MS_MOVE)


def _bind(source: str, target: str) -> None:
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
        return
    if os.path.isdir(source):
        os.mkdir(target)
    else:
        _touch(target)
    mount(source, target, None, MS_BIND | MS_REC)


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
