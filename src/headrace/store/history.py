"""How long superseded revisions are kept, and their removal a few at a time, inside commits that happen anyway."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import apsw

from headrace.store import statements

STEP_SECONDS = 1.0
BATCH = 64
"""Revisions that go together, so that not each write has to look for what is old: a share of few that are kept."""
SHARE = 16
PER_WRITE = 4


@dataclass(frozen=True, slots=True)
class Retention:
    """A revision is kept while it is among the last `revisions` or younger than `seconds`, but never beyond `most`."""

    revisions: int = 10_000
    seconds: float = 300.0
    most: int = 100_000

    def __post_init__(self) -> None:
        assert 1 <= self.revisions <= self.most, "the last revision must stay: it is the file's counter"


DEFAULT_RETENTION = Retention()


class History:
    """Knows when revisions were reached, so which are old enough. `now` is monotonic seconds."""

    def __init__(self, retention: Retention, now: Callable[[], float], compacted: int, revision: int) -> None:
        self._retention = retention
        self._now = now
        self._compacted = compacted
        self._revision = revision
        self._old = compacted
        self._least = min(BATCH, 1 + retention.revisions // SHARE)
        self._reached: deque[tuple[float, int]] = deque([(now(), revision)])

    def reached(self, revision: int, compacted: int) -> None:
        """A commit took the file to `revision` and its compaction to `compacted`."""
        self._revision, self._compacted = revision, compacted
        now = self._now()
        if not self._reached or now - self._reached[-1][0] >= STEP_SECONDS:
            self._reached.append((now, revision))

    def floor(self) -> int:
        """Revisions before this one may go."""
        old_enough = self._now() - self._retention.seconds
        while self._reached and self._reached[0][0] <= old_enough:
            self._old = max(self._old, self._reached.popleft()[1])
        kept = min(self._revision - self._retention.revisions, self._old)
        return max(kept, self._revision - self._retention.most)

    def compact(self, connection: apsw.Connection, writes: int) -> int:
        """Within the caller's transaction go a bounded way to the floor, faster than `writes` new ones add to it.

        Returns how far history is compacted then.
        """
        if not writes or self._revision - self._compacted < self._retention.revisions + self._least:
            return self._compacted
        floor = min(self.floor(), self._compacted + max(BATCH, writes * PER_WRITE))
        if floor < self._compacted + self._least:
            return self._compacted
        span = {"compacted": self._compacted, "floor": floor}
        connection.execute(statements.SUPERSEDED, span)
        connection.execute(statements.DELETIONS, span)
        connection.execute(statements.COMPACT, {"floor": floor})
        return floor
