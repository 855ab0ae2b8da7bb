"""One container's log file in the CRI format: `2026-11-29T17:00:00.000000000Z stdout F line`.

Tag F ends a line; P is a piece of a line longer than LINE_BYTES, continued by the next record of that stream. A record
is never cut: what a crash left half written is removed at the next opening. Others may empty, move or delete the file
at any time, to have room on the disk say: it goes on at its path.
"""

import contextlib
import os
import time

LINE_BYTES = 16 * 1024
FILE_BYTES = 10 * 1024 * 1024
FILES = 5
_TAIL_BYTES = LINE_BYTES + 256


class Log:
    """Appends records and rotates: `path`, `path.1` … `path.4`, oldest last, ten mebibytes each."""

    def __init__(self, path: str, file_bytes: int = FILE_BYTES, files: int = FILES) -> None:
        self.path, self.file_bytes, self.files = path, file_bytes, files
        self._unfinished: set[str] = set()  # streams inside a long line: no rotation, so that a reader can join it
        self._descriptor, self._size = -1, 0
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        self._open()

    def append(self, stream: str, data: bytes, *, last: bool = False) -> int:
        """Write what makes whole records; answers how many bytes of `data` they hold (0: a line is not complete yet).

        With `last`, a line without an end is written too. Raises OSError with nothing written (disk full).
        """
        records, taken, open_line = cut(f"{stamp(time.time_ns())} {stream}", data, last)
        if taken:
            self._write(records)
            if open_line:
                self._unfinished.add(stream)
            else:
                self._unfinished.discard(stream)
            if self._size >= self.file_bytes and (not self._unfinished or self._size >= 2 * self.file_bytes):
                self._rotate()
        return taken

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        """What is at the path, in place of the file that is open; that one stays where this raises OSError."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o640)
        try:
            size = os.lseek(descriptor, 0, os.SEEK_END)
            tail = os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
            if tail and not tail.endswith(b"\n"):
                size -= len(tail) - (tail.rfind(b"\n") + 1)
                os.ftruncate(descriptor, size)
        except OSError:
            os.close(descriptor)
            raise
        self.close()
        self._descriptor, self._size = descriptor, size

    def _write(self, records: bytes) -> None:
        self._find()
        written = 0
        try:
            while written < len(records):
                written += os.write(self._descriptor, records[written:] if written else records)
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += written

    def _find(self) -> None:
        """What is at the path now, and how long it is. Where nothing can be there any more, the open file goes on."""
        held = os.fstat(self._descriptor)
        self._size = held.st_size
        try:
            if os.path.samestat(held, os.stat(self.path, follow_symlinks=False)):
                return
        except OSError:
            if not os.path.isdir(os.path.dirname(self.path)):
                return
        with contextlib.suppress(OSError):
            self._open()

    def _rotate(self) -> None:
        """Where a step fails, the open file goes on, under whichever name, and the next append tries again."""
        with contextlib.suppress(OSError):
            renamed_before = not os.path.exists(self.path)
            for number in () if renamed_before else range(self.files - 1, 0, -1):
                older = f"{self.path}.{number}"
                newer = f"{self.path}.{number - 1}" if number > 1 else self.path
                if os.path.exists(newer):
                    os.replace(newer, older)
            self._open()


def cut(head: str, data: bytes, last: bool) -> tuple[bytes, int, bool]:
    """Records for the whole lines of `data`, how many bytes they hold, and whether they end inside a line."""
    end = data.rfind(b"\n") + 1
    if end < len(data) and last:
        body, taken = data + b"\n", len(data)
    elif end == 0 and len(data) >= LINE_BYTES:  # no end in sight: hand over a piece
        taken = len(data) // LINE_BYTES * LINE_BYTES
        pieces = [data[at : at + LINE_BYTES] for at in range(0, taken, LINE_BYTES)]
        return b"".join(b"%b P %b\n" % (head.encode(), piece) for piece in pieces), taken, True
    else:
        body, taken = data[:end], end
    if not taken:
        return b"", 0, False
    full, part = f"{head} F ".encode(), f"{head} P ".encode()
    if len(body) > LINE_BYTES:  # perhaps a line that is too long
        lines = body[:-1].split(b"\n")
        if max(map(len, lines)) > LINE_BYTES:
            return b"".join(_long(line, full, part) for line in lines), taken, False
    return full + body[:-1].replace(b"\n", b"\n" + full) + b"\n", taken, False


def _long(line: bytes, full: bytes, part: bytes) -> bytes:
    pieces = [line[at : at + LINE_BYTES] for at in range(0, len(line), LINE_BYTES)] or [b""]
    return b"".join(part + piece + b"\n" for piece in pieces[:-1]) + full + pieces[-1] + b"\n"


def stamp(nanoseconds: int) -> str:
    """RFC 3339 in UTC with nine digits, as the kubelet and CRI runtimes write it."""
    seconds, fraction = divmod(nanoseconds, 10**9)
    moment = time.gmtime(seconds)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', moment)}.{fraction:09d}Z"
