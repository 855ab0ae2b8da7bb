"""All pumps in the keeper's loop: those with more to read take turns, those whose log cannot be written wait."""

import select
import time
from functools import partial

from headrace.node.keeper.container import Container
from headrace.node.keeper.poll import Poll
from headrace.node.keeper.pump import Pump, Scratch

RETRY_SECONDS = 1.0  # a log that could not be written or opened is tried again

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Output:
    def __init__(self, poll: Poll, say: "Callable[[str], None]") -> None:
        self._poll, self._say = poll, say
        self.scratch = Scratch()
        self._busy: dict[int, Pump] = {}  # with more to read at once
        self._blocked: dict[int, Pump] = {}
        self._unopened: dict[str, Container] = {}  # adopted, but the log could not be opened yet
        self._retry_at = 0.0

    @property
    def busy(self) -> bool:
        return bool(self._busy)

    @property
    def blocked(self) -> bool:
        return bool(self._blocked or self._unopened)

    def watch(self, container: Container) -> None:
        for pump in container.pumps:
            self._poll.watch(pump.fifo, select.EPOLLIN | select.EPOLLET, partial(self._on_output, pump))

    def unwatch(self, container: Container) -> None:
        self._unopened.pop(container.id, None)
        for pump in container.pumps:
            self._poll.forget(pump.fifo)
            self._busy.pop(pump.fifo, None)
            self._blocked.pop(pump.fifo, None)

    def adopt(self, container: Container) -> None:
        """Read on where the last keeper stopped; its container waits as long as the log cannot be opened."""
        try:
            container.open_output(self.scratch)
        except OSError as error:
            container.close_output()
            self._say(f"{container.id}: log: {error.strerror}")
            self._unopened[container.id] = container
            self._retry_at = time.monotonic() + RETRY_SECONDS
        else:
            self.watch(container)

    def turn(self) -> None:
        for pump in list(self._busy.values()):
            self._drain(pump)
        if self.blocked and time.monotonic() >= self._retry_at:
            blocked, self._blocked = self._blocked, {}
            for pump in blocked.values():
                self._drain(pump)
            unopened, self._unopened = self._unopened, {}
            for container in unopened.values():
                self.adopt(container)

    def _on_output(self, pump: Pump, _: int) -> None:
        self._drain(pump)

    def _drain(self, pump: Pump) -> None:
        self._busy.pop(pump.fifo, None)
        try:
            if pump.drain():
                self._busy[pump.fifo] = pump
        except OSError as error:
            self._say(f"{pump.log.path}: {error.strerror}: its container waits until it can be written")
            self._blocked[pump.fifo] = pump
            self._retry_at = time.monotonic() + RETRY_SECONDS
