"""Reads a container's log as `kubectl logs` wants it, from files in the CRI format (`TIME STREAM TAG TEXT`).

A log is several files after rotation: `path`, then older ones as `path.1`, `path.2`, … A read is bounded by a chunk.
"""

import asyncio
import contextlib
import os
import stat
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from headrace.api.times import from_time

CHUNK_BYTES = 64 * 1024
POLL_SECONDS = 0.2
OLDER_FILES = 9


@dataclass(frozen=True, slots=True)
class LogQuery:
    """`since` in seconds since the epoch."""

    follow: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since: float | None = None
    limit_bytes: int | None = None


async def read(path: Path, query: LogQuery, is_running: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The text in pieces; with `follow` until the container has ended and all of it is told."""
    left = query.limit_bytes
    async for piece in _pieces(path, query, is_running):
        if left is not None and len(piece) >= left:
            yield piece[:left]
            return
        left = None if left is None else left - len(piece)
        yield piece


async def _pieces(path: Path, query: LogQuery, is_running: Callable[[], bool]) -> AsyncIterator[bytes]:
    rows, reader = _Rows(query), _Reader(path)
    kept: deque[bytes] = deque(maxlen=query.tail_lines)
    try:
        while chunk := reader.read():
            text = rows.feed(chunk)
            if query.tail_lines is not None:
                _keep(kept, text)
            elif text:
                yield text
            await asyncio.sleep(0)  # other requests have their turn, however long the log is
        if kept:
            yield b"".join(kept)
        while query.follow:
            running = is_running()  # asked before reading: what was written before the end is read after it
            chunk = reader.read()
            if text := rows.feed(chunk):
                yield text
            if not chunk and not running:
                return
            await asyncio.sleep(0 if chunk else POLL_SECONDS)
    finally:
        reader.close()


class _Reader:
    """The files of one log as one stream of bytes, oldest first, through rotations."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None

    def read(self) -> bytes:
        """The next bytes; empty when there are none for now."""
        while True:
            newer = self._newer()  # looked for before reading: a file that was replaced is read to its end first
            if self._file is not None and (chunk := self._file.read(CHUNK_BYTES)):
                return chunk
            if newer is None:
                return b""
            if (opened := _opened(*newer)) is not None:
                self.close()
                self._file = opened

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _newer(self) -> tuple[Path, int] | None:
        """The file that continues the open one, and its inode; None while that is the last."""
        files = self._files()
        if self._file is None:
            return files[0] if files else None
        inode = os.fstat(self._file.fileno()).st_ino
        inodes = [each for _, each in files]
        if inode not in inodes:  # rotated away while nobody read: what is left begins with the oldest
            return files[0] if files else None
        following = inodes.index(inode) + 1
        return files[following] if following < len(files) else None

    def _files(self) -> list[tuple[Path, int]]:
        """Oldest first. Looked for from the newest on, as rotation moves them: none is passed by unseen."""
        found: dict[int, Path] = {}
        older = (self._path.with_name(f"{self._path.name}.{number}") for number in range(1, OLDER_FILES + 1))
        for each in (self._path, *older):
            with contextlib.suppress(FileNotFoundError):
                status = each.stat()
                if not stat.S_ISREG(status.st_mode):  # a pipe that somebody made of it: who opens it may wait for ever
                    continue
                found.pop(status.st_ino, None)  # seen under its earlier name
                found[status.st_ino] = each
        return [(path, inode) for inode, path in reversed(found.items())]


def _opened(path: Path, inode: int) -> BinaryIO | None:
    """The file of this inode; None when the path has become another one's, which would skip what lies between."""
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except FileNotFoundError:
        return None
    if os.fstat(file.fileno()).st_ino == inode:
        return file
    file.close()
    return None


def _keep(kept: deque[bytes], text: bytes) -> None:
    """Add lines; a beginning that has no end yet is continued by what comes next."""
    for line in text.splitlines(keepends=True):
        if kept and not kept[-1].endswith(b"\n"):
            kept[-1] += line
        else:
            kept.append(line)


class _Rows:
    """Records in, text out. A line in pieces (tag P) is joined; the time shown is that of its first piece."""

    def __init__(self, query: LogQuery) -> None:
        self._query, self._rest = query, b""
        self._inside: dict[bytes, bool] = {}  # stream: whether the rest of its line is wanted

    def feed(self, data: bytes) -> bytes:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return b"".join(self._texts(lines))

    def _texts(self, lines: list[bytes]) -> Iterator[bytes]:
        for line in lines:
            fields = line.split(b" ", 3)
            if len(fields) < 4:
                continue
            time, stream, tag, text = fields
            begun = stream in self._inside
            wanted = self._inside[stream] if begun else self._is_wanted(time)
            if tag == b"P":
                self._inside[stream] = wanted
            else:
                self._inside.pop(stream, None)
                text += b"\n"
            if wanted:
                yield time + b" " + text if self._query.timestamps and not begun else text

    def _is_wanted(self, time: bytes) -> bool:
        """A time that cannot be read (a file cut by a power failure, or edited) hides nothing."""
        try:
            return self._query.since is None or from_time(time.decode("ascii")) >= self._query.since
        except ValueError:
            return True
