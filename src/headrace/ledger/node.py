"""What one node can still give: available = total - reserved - allocated. A wish is admitted or gets a Shortfall.

A ledger is a value. Every change returns a new one, so a plan can try ten placements and nothing has to be undone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.api.amounts import PODS, Amounts, minus, plus, written

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
class Ledger:
    """One node's books. `reserved` is what its capacity has beyond its allocatable."""

    total: Amounts
    reserved: Amounts
    holders: Mapping[str, Amounts] = field(default_factory=dict)
    allocated: Amounts = field(default_factory=dict)  # the running sum over holders
    node: str = ""

    def available(self) -> Amounts:
        """May be negative: a node that lost capacity, or drifted, is overfull but not broken."""
        return {name: self.room(name) for name in {**self.total, **self.allocated} if self._counts(name)}

    def room(self, name: str) -> int:
        return self.total.get(name, 0) - self.reserved.get(name, 0) - self.allocated.get(name, 0)

    def admit(self, holder: str, wanted: Amounts) -> "Ledger | Shortfall":
        """Grant a wish if it fits. Shrinking always fits, even on an overfull node."""
        has = self.holders.get(holder, {})
        missing: dict[str, int] = {}
        for name, amount in wanted.items():
            growth = amount - has.get(name, 0)
            if growth > 0 and growth > (room := self.room(name)) and self._counts(name):
                missing[name] = growth - room
        return self._shortfall(missing, wanted) if missing else self.record(holder, wanted)

    def record(self, holder: str, held: Amounts) -> "Ledger":
        """Write down what is so, whether or not there is room for it."""
        allocated = plus(minus(self.allocated, self.holders.get(holder, {})), held)
        return Ledger(self.total, self.reserved, {**self.holders, holder: held}, allocated, self.node)

    def release(self, holder: str) -> "Ledger":
        kept = dict(self.holders)
        allocated = minus(self.allocated, kept.pop(holder, {}))
        return Ledger(self.total, self.reserved, kept, allocated, self.node)

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
