"""How much may be under way at once: three lanes of short requests, and a count of long ones per identity.

Heartbeats have a lane of their own, so that a flood of other work never makes a node look lost.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from headrace.api.limits import (
    LEASES_IN_FLIGHT,
    READS_IN_FLIGHT,
    STREAMS_PER_IDENTITY,
    WATCHES_PER_IDENTITY,
    WRITES_IN_FLIGHT,
)
from headrace.apiserver.requests import Request
from headrace.apiserver.statuses import too_many

Lane = Literal["reads", "writes", "leases"]
Long = Literal["watch", "stream"]

LANES: tuple[Lane, ...] = ("reads", "writes", "leases")
_LIMITS: dict[Lane, int] = {"reads": READS_IN_FLIGHT, "writes": WRITES_IN_FLIGHT, "leases": LEASES_IN_FLIGHT}
_LONG_LIMITS: dict[Long, int] = {"watch": WATCHES_PER_IDENTITY, "stream": STREAMS_PER_IDENTITY}


def lane_of(request: Request) -> Lane:
    if request.plural == "leases" or (request.plural == "nodes" and request.subresource == "status"):
        return "leases"
    return "writes" if request.verb not in ("get", "list", "watch", "") else "reads"


@dataclass(slots=True)
class Lanes:
    in_flight: Counter[Lane] = field(default_factory=Counter)

    def count(self, lane: Lane) -> float:
        return float(self.in_flight[lane])

    def enter(self, lane: Lane) -> None:
        """Raises a 429 Failure when the lane is full; whoever came in leaves again."""
        if self.in_flight[lane] >= _LIMITS[lane]:
            raise too_many()
        self.in_flight[lane] += 1

    def leave(self, lane: Lane) -> None:
        self.in_flight[lane] -= 1


@dataclass(slots=True, eq=False)
class Stream:
    """One open watch or log; `end` makes it stop at its next moment of rest."""

    user: str
    kind: Long
    deadline: asyncio.Timeout

    def end(self) -> None:
        if not self.deadline.expired():
            self.deadline.reschedule(0)


@dataclass(slots=True)
class Streams:
    """Every open stream, so that a stop, a revoked credential or a limit finds them."""

    open: set[Stream] = field(default_factory=set)
    counts: Counter[tuple[Long, str]] = field(default_factory=Counter)
    stopping: bool = False

    @asynccontextmanager
    async def enter(self, user: str, kind: Long, seconds: float | None) -> AsyncIterator[Stream]:
        """Runs the body until it ends, `seconds` have passed, or somebody calls `end`; all of these are plain ends.

        Raises a 429 Failure beyond the identity's limit.
        """
        if self.counts[kind, user] >= _LONG_LIMITS[kind]:
            raise too_many(f"user {user!r} has {_LONG_LIMITS[kind]} open already: {kind}")
        self.counts[kind, user] += 1
        stream: Stream | None = None
        try:
            async with asyncio.timeout(0 if self.stopping else seconds) as deadline:
                stream = Stream(user, kind, deadline)
                self.open.add(stream)
                yield stream
        except TimeoutError:
            if stream is None or not stream.deadline.expired():
                raise
        finally:
            if stream is not None:
                self.open.discard(stream)
            self.counts[kind, user] -= 1
            if not self.counts[kind, user]:
                del self.counts[kind, user]

    def end_open(self) -> None:
        for stream in list(self.open):
            stream.end()

    def stop(self) -> None:
        """End all, and every one that begins from now on at once."""
        self.stopping = True
        self.end_open()

    def end_of(self, user: str) -> None:
        for stream in list(self.open):
            if stream.user == user:
                stream.end()
