"""Hall's condition: sets of devices can serve needs that may not share, if every few needs find enough in their union.

Sets are whole numbers, one bit for each device (or value).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.devices.allocate.requests import Want
from headrace.devices.allocate.structure import bits

SUBSETS_OF = 5


@dataclass(frozen=True, slots=True)
class Need:
    """A want that still needs `number` devices of the set `of`."""

    want: Want
    of: int
    number: int


def union_of(masks: Sequence[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


def has_enough(needs: Sequence[tuple[int, int]]) -> bool:
    """For (set, number) pairs that may not share; exact, by every subset where they are few, else by matching."""
    joined: dict[int, int] = {}
    for mask, number in needs:
        joined[mask] = joined.get(mask, 0) + number
    pairs = [(mask, number) for mask, number in joined.items() if number > 0]
    if len(pairs) <= SUBSETS_OF:
        return _every_subset(pairs)
    return _has_matching([mask for mask, number in pairs for _ in range(number)])


def _every_subset(pairs: list[tuple[int, int]]) -> bool:
    sums = [(0, 0)]
    for mask, number in pairs:
        grown = [(mask | union, number + total) for union, total in sums]
        if any(union.bit_count() < total for union, total in grown):
            return False
        sums += grown
    return True


def _has_matching(masks: list[int]) -> bool:
    """Whether each mask can have a bit of its own: augmenting paths, scarce masks first."""
    masks.sort(key=int.bit_count)
    holder: dict[int, int] = {}
    held: dict[int, int] = {}
    return all(_augment(unit, masks, holder, held) for unit in range(len(masks)))


def _augment(unit: int, masks: list[int], holder: dict[int, int], held: dict[int, int]) -> bool:
    reached_by: dict[int, int] = {}
    seen, queue = 0, [unit]
    for at in queue:
        new = masks[at] & ~seen
        seen |= new
        for index in bits(new):
            reached_by[index] = at
            if index not in holder:
                _shift(index, unit, reached_by, holder, held)
                return True
            queue.append(holder[index])
    return False


def _shift(index: int, unit: int, reached_by: dict[int, int], holder: dict[int, int], held: dict[int, int]) -> None:
    """Give the free bit to the last of the path, its old bit to the one before, and so on up to the unit."""
    while True:
        at = reached_by[index]
        before = held.get(at)
        holder[index], held[at] = at, index
        if at == unit or before is None:
            return
        index = before


def subsets(needs: Sequence[Need]) -> list[list[Need]]:
    """The subsets in which a shortage would show. Equal needs go together, since then it shows most.

    All subsets where there are few kinds; of many kinds just each one, the pairs, and all together.
    """
    kinds: dict[tuple[int, tuple[tuple[str, int], ...]], list[Need]] = {}
    for need in needs:
        amounts = tuple(sorted((name, amount.nano) for name, amount in need.want.amounts.items()))
        kinds.setdefault((need.of, amounts), []).append(need)
    groups = list(kinds.values())
    if len(groups) <= SUBSETS_OF:
        chosen = [[group for at, group in enumerate(groups) if some >> at & 1] for some in range(1, 1 << len(groups))]
    else:
        pairs = [[one, other] for at, one in enumerate(groups) for other in groups[at + 1 :]]
        chosen = [*([group] for group in groups), *pairs, groups]
    return [[need for group in some for need in group] for some in chosen]
