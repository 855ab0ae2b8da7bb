"""An archive in cpio's `newc` form, which Linux unpacks as its first file system. Written here: no cpio is needed.

Source: kernel Documentation/driver-api/early-userspace/buffer-format.rst.
"""

import stat
from collections.abc import Iterable
from dataclasses import dataclass

_TRAILER = "TRAILER!!!"


@dataclass(frozen=True, slots=True)
class Entry:
    """`mode` has the kind of file too. A directory has no content, a symbolic link's is its target."""

    name: str
    mode: int
    content: bytes = b""


def directory(name: str) -> Entry:
    return Entry(name, stat.S_IFDIR | 0o755)


def file(name: str, content: bytes, permissions: int = 0o755) -> Entry:
    return Entry(name, stat.S_IFREG | permissions, content)


def archive(entries: Iterable[Entry]) -> bytes:
    """Directories must come before what is in them."""
    parts = [_member(number, entry) for number, entry in enumerate([*entries, Entry(_TRAILER, 0)], start=1)]
    return b"".join(parts)


def _member(inode: int, entry: Entry) -> bytes:
    name = entry.name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    # inode, mode, uid, gid, links, mtime, size, device and rdevice as two numbers each, length of the name, checksum
    fields = (inode, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, 0, 0, len(name), 0)
    header = b"070701" + b"".join(b"%08x" % field for field in fields)
    return _padded(header + name) + _padded(entry.content)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
