"""One client of the keeper: frames in, answers and coalesced events out. A client that does not read is cut off."""

import select
import socket

from headrace.node.keeper import frames
from headrace.node.keeper.container import Container
from headrace.node.keeper.operations import Failed
from headrace.node.keeper.poll import Poll

BACKLOG_BYTES = 8 * 1024 * 1024

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Connection:
    """Events are kept per container, so that a slow watcher costs no more memory than there are containers."""

    def __init__(self, client: socket.socket, poll: Poll) -> None:
        client.setblocking(False)
        self._socket, self._poll = client, poll
        self.descriptor = client.fileno()
        self.watches = False
        self.closed = False
        self._received = bytearray()
        self._unsent = bytearray()
        self._changed: dict[str, Container] = {}

    def receive(self) -> "list[dict[str, Any]]":
        """Requests that have come; raises OSError or BadFrame when the connection is of no more use."""
        while True:
            try:
                data = self._socket.recv(65536)
            except BlockingIOError:
                break
            if not data:
                self.closed = True
                break
            self._received += data
        return frames.split(self._received)

    def answer(self, number: int, value: "Any") -> None:
        self._send({"n": number, "ok": value})

    def refuse(self, number: int, failed: Failed) -> None:
        self._send({"n": number, "error": {"code": failed.code, "message": str(failed)}})

    def changed(self, container: Container) -> None:
        if self.watches:
            self._changed[container.id] = container

    def push(self) -> None:
        """Send the events that have come together, if the client has read the earlier ones."""
        if self._changed and not self._unsent:
            changed, self._changed = self._changed, {}
            for container in changed.values():
                self._send({"event": container.state})

    def flush(self) -> None:
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent)
            except BlockingIOError:
                break
            except OSError:
                self._unsent.clear()
                self.closed = True
                break
            del self._unsent[:sent]
        self._poll.change(self.descriptor, select.EPOLLIN | (select.EPOLLOUT if self._unsent else 0))

    def close(self) -> None:
        self._socket.close()

    def _send(self, message: "dict[str, Any]") -> None:
        if self.closed:
            return
        self._unsent += frames.encode(message)
        if len(self._unsent) > BACKLOG_BYTES:
            self._socket.shutdown(socket.SHUT_RDWR)  # the loop sees the end and forgets the client
            self._unsent.clear()
            return
        self.flush()
