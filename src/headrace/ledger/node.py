"""What one node can still give: available = total - reserved - allocated. A wish is admitted or gets a Shortfall.

A ledger is a value. Every change returns a new one, so a plan can try ten placements and nothing has to be undone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.api.amounts import PODS, Amounts, minus, plus, total, written

LARGEST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The refusal: on which node, which resources are missing and by how much, and who holds the most of them.

    `wanted` is all that the holder would hold, `available` and `total` are the node's; `largest` has the largest
    holders of each missing resource with what they hold, `holders` those of the resource that is missing most.
    `words` replaces the sentence where amounts do not tell it (a device that has an owner).
    """

    missing: Mapping[str, int]
    node: str = ""
    holders: tuple[str, ...] = ()
    wanted: Mapping[str, int] = field(default_factory=dict)
    available: Mapping[str, int] = field(default_factory=dict)
    total: Mapping[str, int] = field(default_factory=dict)
    largest: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    words: str = ""

    def __str__(self) -> str:
        """The sentence that conditions, events and answers carry unchanged."""
        if self.words:
            return self.words
        told = "; ".join(self._told(name) for name in sorted(self.missing))
        return f"node {self.node}: {told}" if self.node else told

    def _told(self, name: str) -> str:
        available = self.available.get(name, 0)
        more = written(name, self.missing[name] + available)
        of = written(name, self.total.get(name, 0))
        told = f"insufficient {name}: {more} more wanted, {written(name, available)} available of {of}"
        holders = ", ".join(f"{holder} {written(name, held)}" for holder, held in self.largest.get(name, ()))
        return f"{told} (most is held by {holders})" if holders else told


@dataclass(frozen=True, slots=True)
class Floor:
    """A reservation: what its beneficiaries (holders) hold counts as at least these amounts."""

    amounts: Amounts
    beneficiaries: frozenset[str] = frozenset()

    def charge(self, holders: Mapping[str, Amounts]) -> Amounts:
        """What is missing to the floor. Its beneficiaries consume it by being larger, so no second write is needed."""
        held = total(holders[name] for name in sorted(self.beneficiaries) if name in holders)
        return {name: floor - held.get(name, 0) for name, floor in self.amounts.items() if floor > held.get(name, 0)}


@dataclass(frozen=True, slots=True)
class Ledger:
    """One node's books. `reserved` is what its capacity has beyond its allocatable.

    `floors` are reservations by name; what one is short of stands among the holders under that name.
    """

    total: Amounts
    reserved: Amounts
    holders: Mapping[str, Amounts] = field(default_factory=dict)
    allocated: Amounts = field(default_factory=dict)  # the running sum over holders
    node: str = ""
    floors: Mapping[str, Floor] = field(default_factory=dict)

    def available(self) -> Amounts:
        """May be negative: a node that lost capacity, or drifted, is overfull but not broken."""
        return {name: self.room(name) for name in {**self.total, **self.allocated} if self._counts(name)}

    def room(self, name: str) -> int:
        return self.total.get(name, 0) - self.reserved.get(name, 0) - self.allocated.get(name, 0)

    def admit(self, holder: str, wanted: Amounts) -> "Ledger | Shortfall":
        """Grant a wish if it fits. Shrinking always fits, even on an overfull node; so does what a floor covers."""
        return self._judged(self.record(holder, wanted), wanted)

    def record(self, holder: str, held: Amounts) -> "Ledger":
        """Write down what is so, whether or not there is room for it."""
        allocated = plus(minus(self.allocated, self.holders.get(holder, {})), held)
        return self._replaced({**self.holders, holder: held}, allocated, self.floors)._with_floors_of(holder)

    def release(self, holder: str) -> "Ledger":
        kept = dict(self.holders)
        allocated = minus(self.allocated, kept.pop(holder, {}))
        return self._replaced(kept, allocated, self.floors)._with_floors_of(holder)

    def reserve(self, name: str, floor: Floor) -> "Ledger | Shortfall":
        """Grant a floor, or a changed one, if what it is short of fits."""
        return self._judged(self.record_floor(name, floor), floor.amounts)

    def record_floor(self, name: str, floor: Floor | None) -> "Ledger":
        """The floor is in force, whether or not there is room for it; None: it is not any more."""
        if floor is None and name not in self.floors:
            return self
        floors = {**self.floors, name: floor} if floor is not None else dict(self.floors)
        if floor is None:
            del floors[name]
        return self._replaced(self.holders, self.allocated, floors)._charged(name)

    def _judged(self, after: "Ledger", wanted: Amounts) -> "Ledger | Shortfall":
        """A resource is missing if the change takes room that is not there."""
        missing: dict[str, int] = {}
        for name in wanted:
            room, left = self.room(name), after.room(name)
            if left < 0 and left < room and self._counts(name):
                missing[name] = -left
        return self._shortfall(missing, wanted) if missing else after

    def _with_floors_of(self, holder: str) -> "Ledger":
        found = self
        for name, floor in self.floors.items():
            if holder in floor.beneficiaries:
                found = found._charged(name)
        return found

    def _charged(self, name: str) -> "Ledger":
        """The floor's line says what it is short of now; none if of nothing."""
        floor = self.floors.get(name)
        charge = floor.charge(self.holders) if floor is not None else {}
        holders = {other: held for other, held in self.holders.items() if other != name}
        allocated = plus(minus(self.allocated, self.holders.get(name, {})), charge)
        return self._replaced({**holders, name: charge} if charge else holders, allocated, self.floors)

    def _replaced(self, holders: Mapping[str, Amounts], allocated: Amounts, floors: Mapping[str, Floor]) -> "Ledger":
        return Ledger(self.total, self.reserved, holders, allocated, self.node, floors)

    def _counts(self, name: str) -> bool:
        """A node that does not say how many Pods it takes, takes any number; else what it does not name, it lacks."""
        return name != PODS or name in self.total

    def _shortfall(self, missing: Amounts, wanted: Amounts) -> Shortfall:
        largest = {name: self.largest_holders(name) for name in missing}
        most = max(missing, key=lambda name: missing[name])
        return Shortfall(
            missing=missing,
            node=self.node,
            holders=tuple(holder for holder, _ in largest[most]),
            wanted=wanted,
            available={name: self.room(name) for name in missing},
            total={name: self.total.get(name, 0) for name in missing},
            largest=largest,
        )

    def largest_holders(self, name: str) -> tuple[tuple[str, int], ...]:
        by_size = ((held.get(name, 0), holder) for holder, held in self.holders.items())
        ranked = sorted((pair for pair in by_size if pair[0] > 0), key=lambda pair: (-pair[0], pair[1]))
        return tuple((holder, amount) for amount, holder in ranked[:LARGEST_SHOWN])
