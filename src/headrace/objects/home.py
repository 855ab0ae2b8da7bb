"""What every part of LocalStore works with: the rows, the kinds, the clock and fresh identities."""

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.api.kinds import Kind
from headrace.objects.caller import Caller as Caller
from headrace.objects.registry import Registry, Served
from headrace.objects.turns import Turns
from headrace.objects.verdicts import Verdicts
from headrace.store.protocol import BadRequest, NotFound
from headrace.store.rows import Key, Rows


@dataclass(frozen=True, slots=True)
class Home:
    """`wall`: seconds since the epoch. `new_uid`: a fresh UUID."""

    rows: Rows
    registry: Registry
    wall: Callable[[], float]
    new_uid: Callable[[], str]
    verdicts: Verdicts = field(default_factory=Verdicts)
    turns: Turns = field(default_factory=Turns)

    def served(self, kind: Kind) -> Served:
        found = self.registry.of(kind)
        if found is None:
            raise NotFound("the server could not find the requested resource")
        return found


def key_of(served: Served, name: str, namespace: str) -> Key:
    """Where an object's row is. Raises BadRequest if the namespace is missing, or given where there is none."""
    if served.kind.namespaced and not namespace:
        raise BadRequest("an empty namespace may not be set when a resource name is provided")
    return Key(served.stored.resource, namespace if served.kind.namespaced else "", name)
