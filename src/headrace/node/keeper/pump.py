"""Moves one stream of a container from its FIFO to its log. The FIFO is the buffer: bytes leave it once written.

The container holds the FIFO open for reading too, so it lives on without a keeper: it is never killed by SIGPIPE, waits
when the FIFO is full, and its output is there when a keeper comes back. A keeper that is killed between writing and
consuming (microseconds) writes that batch again: at least once, never less.
"""

import os

from headrace.node.keeper import linux
from headrace.node.keeper.log import Log

CHUNK_BYTES = 64 * 1024
CHUNKS_A_TURN = 16  # a chatty container shares the keeper with the others


class Scratch:
    """A pipe through which FIFOs are looked at without consuming; always empty between two looks."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()

    def peek(self, fifo: int) -> bytes | None:
        """What lies in the FIFO; empty at the end of file, None when there is nothing now."""
        try:
            size = linux.tee(fifo, self.writing, CHUNK_BYTES)
        except BlockingIOError:
            return None
        data = b""
        while len(data) < size:
            data += os.read(self.reading, size - len(data))
        return data


class Pump:
    """One stream. `drain` when `fifo` becomes readable, polled edge-triggered: a begun line may stay in it."""

    def __init__(self, stream: str, path: str, log: Log, scratch: Scratch) -> None:
        self.stream, self.log, self._scratch = stream, log, scratch
        self.fifo = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.ended = False

    def drain(self) -> bool:
        """True when there may be more at once. Raises OSError when the log cannot be written; nothing is lost then."""
        for _ in range(CHUNKS_A_TURN):
            data = self._scratch.peek(self.fifo)
            if data is None:
                return False
            if not data:
                self.ended = True
                return False
            taken = self.log.append(self.stream, data)
            if not taken:
                return False
            self._consume(taken)
        return True

    def finish(self) -> None:
        """The container is gone: write a last line that has no end, let go of the FIFO. Raises OSError like `drain`."""
        if self.fifo >= 0:
            while data := self._scratch.peek(self.fifo):
                self._consume(self.log.append(self.stream, data, last=True))
            self.close()

    def close(self) -> None:
        if self.fifo >= 0:
            os.close(self.fifo)
            self.fifo, self.ended = -1, True

    def _consume(self, size: int) -> None:
        while size:
            size -= len(os.read(self.fifo, size))
