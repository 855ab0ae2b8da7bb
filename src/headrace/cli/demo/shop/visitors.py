"""Visitors of the demo's shop: so many orders a second, whether or not the earlier ones have been answered.

`visitors.py ADDRESS PORT RATE`. A visitor waits for its answer; what came late or was turned away is the shop's affair.
"""

import contextlib
import select
import socket
import sys
import time

SEND_SECONDS = 0.5


def main() -> None:
    place, rate = (sys.argv[1], int(sys.argv[2])), float(sys.argv[3])
    inside: set[socket.socket] = set()
    print(f"{rate:g} visitors a second", flush=True)
    next_at = time.monotonic()
    while True:
        pause = max(0.0, next_at - time.monotonic())
        for visitor in select.select(list(inside), [], [], pause)[0]:
            inside.discard(visitor)
            visitor.close()
        if time.monotonic() >= next_at:
            # One that was kept from sending in time does not send many at once afterwards.
            next_at = max(next_at + 1 / rate, time.monotonic() - 1 / rate)
            with contextlib.suppress(OSError):
                inside.add(_order(place))


def _order(place: tuple[str, int]) -> socket.socket:
    visitor = socket.create_connection(place, timeout=SEND_SECONDS)
    visitor.sendall(f"POST /orders HTTP/1.1\r\nHost: shop\r\nX-Request-Start: {time.time():.6f}\r\n\r\n".encode())
    return visitor


if __name__ == "__main__":
    main()
