"""What the books read of a CapacityReservation: a floor on what its beneficiaries hold, until it expires."""

from dataclasses import dataclass

from headrace.api.amounts import read
from headrace.api.objects import Fields, Object, key_of, namespace_of
from headrace.api.times import from_time
from headrace.ledger.node import Floor
from headrace.ledger.pods import holder_of

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class ReservationFacts:
    """`expires` in wall seconds; from then on it reserves nothing, whether or not somebody deletes it."""

    node: str
    name: str
    floor: Floor
    expires: float = NEVER

    def is_in_force(self, now: float) -> bool:
        return now < self.expires

    def in_force(self, now: float) -> Floor | None:
        return self.floor if self.is_in_force(now) else None


def reservation_of(obj: Object) -> ReservationFacts:
    """Raises InvalidQuantity."""
    spec: Fields = obj.get("spec") or {}
    pods = (spec.get("beneficiaries") or {}).get("pods") or ()
    namespace = namespace_of(obj)
    holders = frozenset(holder_of({"metadata": {"namespace": namespace, "name": str(name)}}) for name in pods)
    text = spec.get("expirationTime")
    return ReservationFacts(
        node=str(spec.get("node") or ""),
        name=f"CapacityReservation {key_of(obj)}",
        floor=Floor(read(spec.get("resources")), holders),
        expires=from_time(str(text)) if text else NEVER,
    )
