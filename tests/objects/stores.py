"""A LocalStore for tests of objects: SQLite in memory, time that is told, uids in order."""

import itertools
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.objects.local import Caller, LocalStore
from headrace.store.sqlite import open_rows

START = 1_700_000_000.0


@dataclass
class Clock:
    seconds: float = START

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Uids:
    """Different names too: what generateName makes comes from the uid."""

    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def __call__(self) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, str(next(self.numbers))))


async def opened(wall: Callable[[], float] | None = None, caller: Caller | None = None) -> LocalStore:
    rows = await open_rows(":memory:", inline=True)
    caller = caller or Caller(user="system:admin", field_manager="tests")
    store = LocalStore(rows, wall=wall or Clock(), new_uid=Uids(), caller=caller)
    await store.bootstrap()
    return store
