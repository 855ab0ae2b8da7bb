"""The keeper's clients: only its own user and root may connect. Each request goes to `operate`, which answers."""

import contextlib
import os
import select
import socket
import struct
from functools import partial

from headrace.node.keeper.connection import Connection
from headrace.node.keeper.frames import BadFrame
from headrace.node.keeper.poll import Poll

CONNECTIONS = 64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from headrace.node.keeper.container import Container


class Clients:
    def __init__(
        self, listener: socket.socket, poll: Poll, operate: "Callable[[Connection, int, dict[str, Any]], None]"
    ) -> None:
        self._listener, self._poll, self._operate = listener, poll, operate
        self._connections: dict[int, Connection] = {}
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        poll.watch(listener.fileno(), select.EPOLLIN, self._on_connect)

    def __len__(self) -> int:
        return len(self._connections)

    def changed(self, container: "Container") -> None:
        for connection in self._connections.values():
            connection.changed(container)

    def push(self) -> None:
        """Send the events that have come together."""
        for connection in list(self._connections.values()):
            connection.push()

    def _on_connect(self, _: int) -> None:
        try:
            client, _address = self._listener.accept()
        except OSError:  # no descriptor is free: with the spare one the client is told no, and does not wait for ever
            os.close(self._spare)
            with contextlib.suppress(OSError):
                self._listener.accept()[0].close()
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            return
        _, uid, _ = struct.unpack("iII", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid not in (0, os.geteuid()) or len(self._connections) >= CONNECTIONS:
            client.close()
            return
        connection = Connection(client, self._poll)
        self._connections[connection.descriptor] = connection
        self._poll.watch(connection.descriptor, select.EPOLLIN, partial(self._on_client, connection))

    def _on_client(self, connection: Connection, events: int) -> None:
        try:
            if events & select.EPOLLOUT:
                connection.flush()
            if events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                for request in connection.receive():
                    self._take(connection, request)
        except (OSError, BadFrame):
            connection.closed = True
        if connection.closed:
            self._poll.forget(connection.descriptor)
            del self._connections[connection.descriptor]
            connection.close()

    def _take(self, connection: Connection, request: "dict[str, Any]") -> None:
        number = request.get("n")
        if not isinstance(number, int):
            raise BadFrame("a request needs its number n")
        self._operate(connection, number, request)
