"""Deletes CapacityReservations whose time is over, which releases them. Nothing else reads their expiry.

So there is one judge. If the ledger, the scheduler and this controller each went by a clock, a clock that was set would
make them disagree: what exists is in force, for all of them, until one deletion at one revision ends it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.api.kinds import CAPACITY_RESERVATION
from headrace.api.objects import Object, metadata, name_of, namespace_of, uid_of, version_of
from headrace.api.times import from_time
from headrace.runtime.actions import Action, Again, Delete
from headrace.runtime.cache import Informers
from headrace.runtime.controller import Source
from headrace.runtime.perform import Writing
from headrace.store.protocol import Deletion, Preconditions, Refused

LONGEST_SECONDS = 30.0  # the wall clock may be set ahead: it is looked at again at least this often


@dataclass(frozen=True, slots=True)
class Seen:
    reservation: Object


class Reservations:
    """Its keys are reservations."""

    name = "capacity-reservations"

    def __init__(self, informers: Informers) -> None:
        self._reservations = informers.of(CAPACITY_RESERVATION)
        self.sources: Sequence[Source] = (Source(self._reservations),)

    async def observe(self, key: str) -> Seen | None:
        found = self._reservations.get(key)
        return None if found is None else Seen(found)

    def plan(self, seen: Seen, now: float) -> tuple[Action, ...]:
        """Deletes only what it has looked at: one that was prolonged meanwhile stays."""
        obj = seen.reservation
        expires = (obj.get("spec") or {}).get("expirationTime")
        if not expires or metadata(obj).get("deletionTimestamp"):
            return ()
        left = from_time(str(expires)) - now
        if left > 0:
            return (Again(min(LONGEST_SECONDS, left)),)
        as_seen = Preconditions(uid_of(obj), version_of(obj))
        return (Delete(CAPACITY_RESERVATION, namespace_of(obj), name_of(obj), Deletion(as_seen)),)

    def refused(self, key: str, seen: Seen, action: Writing, refusal: Refused, now: float) -> tuple[Action, ...]:
        raise AssertionError(f"{key}: a deletion asks for no capacity, yet the ledger refused: {refusal}")
