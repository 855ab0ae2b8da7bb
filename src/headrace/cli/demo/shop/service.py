"""A small web shop for the demo: each order costs some CPU time, so how long visitors wait depends on its CPU limit.

`service.py ADDRESS PORT`. GET /metrics tells `latency`: the median of the latest orders, in milliseconds, from the
moment in X-Request-Start (as proxies write it) to the answer. Orders beyond the waiting room are turned away with 503.
"""

import contextlib
import select
import socket
import statistics
import sys
import time
from collections import deque

ORDER_CPU_SECONDS = 0.0025
WAITING_ROOM = 9
KEPT_SECONDS = 2.0  # how far back the latency looks
REQUEST_BYTES = 4096
HURRY_SECONDS = 0.5  # a visitor that is slower to send its few bytes is let go

Order = tuple[socket.socket, float]


class Shop:
    """One thread: it lets in whoever has come, then serves the first who waits."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._waiting: deque[Order] = deque()
        self._latest: deque[tuple[float, float]] = deque()  # (when, how long), in seconds

    def run(self) -> None:
        """Until it is ended."""
        while True:
            patience = 0 if self._waiting else None
            while select.select([self._listener], [], [], patience)[0]:
                self._let_in()
                patience = 0
            if self._waiting:
                self._serve(*self._waiting.popleft())

    def _let_in(self) -> None:
        visitor, _ = self._listener.accept()
        visitor.settimeout(HURRY_SECONDS)
        try:
            head = visitor.recv(REQUEST_BYTES).decode("latin-1")
        except OSError:
            visitor.close()
            return
        if head.startswith("GET /metrics "):
            _answer(visitor, "200 OK", f"# TYPE latency gauge\nlatency {self.latency() * 1000:.0f}\n")
        elif len(self._waiting) < WAITING_ROOM:
            self._waiting.append((visitor, _started(head)))
        else:
            _answer(visitor, "503 Service Unavailable", "the shop is full\n")

    def _serve(self, visitor: socket.socket, started: float) -> None:
        end = time.thread_time() + ORDER_CPU_SECONDS
        while time.thread_time() < end:
            pass
        _answer(visitor, "200 OK", "sold\n")
        self._latest.append((time.time(), time.time() - started))

    def latency(self) -> float:
        """In seconds; of the last order when none was served lately, 0 before the first."""
        while len(self._latest) > 1 and self._latest[0][0] < time.time() - KEPT_SECONDS:
            self._latest.popleft()
        return statistics.median(seconds for _, seconds in self._latest) if self._latest else 0.0


def _started(head: str) -> float:
    for line in head.split("\r\n"):
        name, _, value = line.partition(":")
        if name.lower() == "x-request-start":
            return float(value)
    return time.time()


def _answer(visitor: socket.socket, status: str, body: str) -> None:
    with contextlib.suppress(OSError), visitor:
        visitor.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())


def main() -> None:
    address, port = sys.argv[1:]
    with socket.create_server((address, int(port)), backlog=128) as listener:
        print(f"the shop is open on {address}:{port}", flush=True)
        Shop(listener).run()


if __name__ == "__main__":
    main()
