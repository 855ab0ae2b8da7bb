"""How many devices a set can still give: exclusive ones once, counting ones by their counter sets, shares by capacity.

Every number here is an upper bound, so Hall's condition on it never refuses what is possible.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.devices.allocate.hall import Need, has_enough, subsets
from headrace.devices.allocate.partial import Partial
from headrace.devices.allocate.problem import Problem
from headrace.devices.allocate.structure import Structure, bits

Levels = list[tuple[int, int]]  # (amount of one counter, devices that take this much of it), ascending


class Rooms:
    """Counter sets and shareable devices of one problem, grouped once."""

    def __init__(self, problem: Problem, structure: Structure) -> None:
        self.problem, self.structure = problem, structure
        self.work = 0
        self._sets = self._counter_sets()
        self._of_sets = 0
        for mask, *_ in self._sets:
            self._of_sets |= mask

    def _counter_sets(self) -> list[tuple[int, int, list[tuple[tuple[str, str], Levels]]]]:
        """Exclusive devices by the first counter set they take of: the set's mask, its pool, and levels by counter."""
        by_set: dict[tuple[int, str], dict[int, dict[tuple[str, str], int]]] = {}
        for index in bits(self.structure.counting & ~self.structure.shareable):
            consumes = self.problem.devices[index].consumes
            if consumes:
                first = next(iter(consumes))[0]
                own = {key: amount for key, amount in consumes.items() if key[0] == first}
                by_set.setdefault((self.problem.pool_of[index], first), {})[index] = own
        found = []
        for (pool, _), devices in by_set.items():
            mask = sum(1 << index for index in devices)
            keys = {key for own in devices.values() for key in own}
            found.append((mask, pool, [(key, _levels(key, devices)) for key in sorted(keys)]))
        return found

    def hold(self, needs: Sequence[Need], partial: Partial) -> bool:
        """Whether the sets can give what all needs ask for together. Needs with admin access share with all."""
        joint = [need for need in needs if need.number > 0 and not need.want.is_admin]
        union = 0
        for need in joint:
            union |= need.of
        if not union & self._of_sets and not union & self.structure.shareable:
            self.work += len(joint)
            return has_enough([(need.of, need.number) for need in joint])
        shares = (union & self.structure.shareable).bit_count()
        for subset in subsets(joint):
            self.work += 1 + len(self._sets) + shares
            if not self._gives(subset, partial):
                return False
        return True

    def _gives(self, needs: Sequence[Need], partial: Partial) -> bool:
        wanted = sum(need.number for need in needs)
        union = 0
        for need in needs:
            union |= need.of
        exclusive = union & ~self.structure.shareable
        number = (exclusive & ~self._of_sets).bit_count()
        for mask, pool, counters in self._sets:
            if exclusive & mask:
                number += self._set_gives(exclusive & mask, pool, counters, partial)
        if number >= wanted:
            return True
        for index in bits(union & self.structure.shareable):
            number += self._shares(index, needs, partial)
        return number >= wanted

    def _set_gives(self, mask: int, pool: int, counters: list[tuple[tuple[str, str], Levels]], partial: Partial) -> int:
        available = self.problem.state.available[pool]
        if available is None:
            return 0
        taken = (partial.counters or {}).get(pool, {})
        number = mask.bit_count()
        for key, levels in counters:
            left, given = available[key] - taken.get(key, 0), (mask & ~_all_of(levels)).bit_count()
            for amount, devices in levels:
                here = (mask & devices).bit_count()
                fit = here if amount == 0 else min(here, max(left, 0) // amount)
                given += fit
                left -= fit * amount
                if fit < here:
                    break
            number = min(number, given)
        return number

    def _shares(self, index: int, needs: Sequence[Need], partial: Partial) -> int:
        """How many of the needs can have a share of the device, each at most one."""
        problem, device = self.problem, self.problem.devices[index]
        asking = [need for need in needs if need.of >> index & 1]
        held = problem.state.held.get(index) or {}
        here = (partial.shared or {}).get(index) or {}
        number = len(asking)
        for name, capacity in device.capacities.items():
            left = capacity.value.nano - held.get(name, 0) - here.get(name, 0)
            fit = 0
            for amount in sorted((problem.amounts(need.want, index) or {})[name].nano for need in asking):
                if amount > left:
                    break
                left -= amount
                fit += 1
            number = min(number, fit)
        return number


def _levels(key: tuple[str, str], devices: dict[int, dict[tuple[str, str], int]]) -> Levels:
    levels: dict[int, int] = {}
    for index, own in devices.items():
        amount = own.get(key, 0)
        levels[amount] = levels.get(amount, 0) | 1 << index
    return sorted(levels.items())


def _all_of(levels: Levels) -> int:
    union = 0
    for _, mask in levels:
        union |= mask
    return union
