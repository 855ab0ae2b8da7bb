"""What every part of LocalStore works with: the rows, the kinds, the clock and fresh identities."""

from collections.abc import Callable
from dataclasses import dataclass

from headrace.api.kinds import Kind
from headrace.objects.registry import Registry, Served
from headrace.store.protocol import BadRequest, NotFound
from headrace.store.rows import Key, Rows


@dataclass(frozen=True, slots=True)
class Caller:
    """Who writes, and how. `user` is authorised already; `warn` collects warnings for the answer's headers."""

    user: str = "system:headrace"
    field_manager: str = "headrace"
    validation: str = "Strict"
    dry_run: bool = False
    warn: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Home:
    """`wall`: seconds since the epoch. `new_uid`: a fresh UUID."""

    rows: Rows
    registry: Registry
    wall: Callable[[], float]
    new_uid: Callable[[], str]

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
