"""The one epoll of the keeper: each descriptor has a handler, which is called with the events."""

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Poll:
    """A handler may forget any descriptor, its own too, while a turn goes on."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}

    def watch(self, descriptor: int, events: int, handler: "Callable[[int], None]") -> None:
        self._epoll.register(descriptor, events)
        self._handlers[descriptor] = handler

    def change(self, descriptor: int, events: int) -> None:
        self._epoll.modify(descriptor, events)

    def forget(self, descriptor: int) -> None:
        """To be called before the descriptor is closed; harmless for one that is not watched."""
        if self._handlers.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def turn(self, seconds: float) -> None:
        """Wait so long at most and call the handlers of what has happened."""
        for descriptor, events in self._epoll.poll(seconds):
            handler = self._handlers.get(descriptor)
            if handler is not None:
                handler(events)
