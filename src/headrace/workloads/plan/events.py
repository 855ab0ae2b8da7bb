"""Events are kept for an hour after they last happened, and never more than a bounded number of them."""

from dataclasses import dataclass

from headrace.api.kinds import EVENT
from headrace.runtime.actions import Action, Again, Delete
from headrace.store.protocol import Deletion, Preconditions

KEPT_SECONDS = 3600.0  # kube-apiserver's --event-ttl
KEPT_EVENTS = 10_000
DELETED_AT_ONCE = 500
LOOK_SECONDS = 60.0
GOING_ON_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Told:
    """`at`: wall seconds when the event last happened."""

    namespace: str
    name: str
    uid: str
    at: float


@dataclass(frozen=True, slots=True)
class Seen:
    events: tuple[Told, ...]


def plan(seen: Seen, now: float) -> tuple[Action, ...]:
    oldest_first = sorted(seen.events, key=lambda each: (each.at, each.namespace, each.name))
    surplus = max(0, len(oldest_first) - KEPT_EVENTS)
    going = [each for number, each in enumerate(oldest_first) if number < surplus or each.at <= now - KEPT_SECONDS]
    deletes = [
        Delete(EVENT, each.namespace, each.name, Deletion(Preconditions(uid=each.uid)))
        for each in going[:DELETED_AT_ONCE]
    ]
    return (*deletes, Again(GOING_ON_SECONDS if len(going) > len(deletes) else LOOK_SECONDS))
