"""What the books read of a CapacityReservation: a floor on what its beneficiaries hold, while the object is there.

No clock is asked: one whose time is over is deleted (`headrace.resize.reservations`), and that releases it for all.
"""

from dataclasses import dataclass

from headrace.api.amounts import read
from headrace.api.objects import Fields, Object, key_of, metadata, namespace_of
from headrace.ledger.node import Floor
from headrace.ledger.pods import holder_of


@dataclass(frozen=True, slots=True)
class ReservationFacts:
    """`floor` is None once it is being deleted: a finalizer may keep the object, but not the room."""

    node: str
    name: str
    floor: Floor | None


def reservation_of(obj: Object) -> ReservationFacts:
    """Raises InvalidQuantity."""
    spec: Fields = obj.get("spec") or {}
    pods = (spec.get("beneficiaries") or {}).get("pods") or ()
    namespace = namespace_of(obj)
    holders = frozenset(holder_of({"metadata": {"namespace": namespace, "name": str(name)}}) for name in pods)
    floor = Floor(read(spec.get("resources")), holders)
    return ReservationFacts(
        node=str(spec.get("node") or ""),
        name=f"CapacityReservation {key_of(obj)}",
        floor=None if metadata(obj).get("deletionTimestamp") else floor,
    )
