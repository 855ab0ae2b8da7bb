"""Devices that nothing in a demand tells apart, and the key under which a position that failed is remembered.

Where one of twins failed the others fail too; two positions with as many free twins of each kind are the same.
"""

from __future__ import annotations

from collections.abc import Hashable

from headrace.devices.allocate.partial import Partial
from headrace.devices.allocate.problem import Problem
from headrace.devices.allocate.requests import Want
from headrace.devices.allocate.structure import Structure

DEVICES_COMPARED = 1_024  # beyond, every device counts as one of its kind: comparing them all would take too long
CLASSES_COUNTED = 64  # beyond, positions are told apart by the devices themselves: that finds fewer equal, but fast


class Twins:
    """The classes of equal devices of one problem."""

    def __init__(self, problem: Problem, structure: Structure) -> None:
        self.problem, self.structure = problem, structure
        self._has_admin = any(want.is_admin for want in problem.demand.wants)
        self._are_many = len(problem.devices) > DEVICES_COMPARED
        numbers: dict[Hashable, int] = {}
        self.classes: list[int] = []
        self._class_of: list[int] = []
        for index in () if self._are_many else range(len(problem.devices)):
            number = numbers.setdefault(self._kind(index), len(self.classes))
            if number == len(self.classes):
                self.classes.append(0)
            self.classes[number] |= 1 << index
            self._class_of.append(number)
        self._distinct = [
            [constraint.is_distinct for constraint in claim.constraints] for claim in problem.demand.claims
        ]

    def _kind(self, index: int) -> Hashable:
        problem, structure, device = self.problem, self.structure, self.problem.devices[index]
        member = tuple(mask >> index & 1 for mask in structure.candidates)
        failing = tuple(mask >> index & 1 for mask in structure.errors)
        if any(
            want.is_all and want.constraints and index in problem.alls[want.number] for want in problem.demand.wants
        ):
            return index  # the order of all devices decides whether a constraint is met before a device in use
        if not any(member) and not any(failing):
            return None
        values = tuple(
            problem.static_value(constraint, index)
            for claim in problem.demand.claims
            for constraint in claim.constraints
        )
        counters: Hashable = None
        if device.takes_counters:
            counters = (
                problem.pool_of[index],
                tuple(sorted(device.consumes.items())),
                tuple(device.compatibility_groups()),
            )
        shares: Hashable = None
        if structure.shareable >> index & 1 or problem.state.shared >> index & 1:
            shares = (
                structure.shareable >> index & 1,
                problem.state.shared >> index & 1,
                tuple(sorted((problem.state.held.get(index) or {}).items())),
                tuple(sorted((name, capacity.value.nano) for name, capacity in device.capacities.items())),
                tuple(
                    tuple((name, amount.nano) for name, amount in (problem.amounts(want, index) or {}).items())
                    for want in problem.demand.wants
                    if structure.candidates[want.number] >> index & 1
                ),
            )
        return member, failing, values, counters, shares, problem.used >> index & 1

    def of(self, index: int, partial: Partial) -> int:
        """The devices that are now equal to this one."""
        if self._are_many:
            return 1 << index
        mask = self.classes[self._class_of[index]] & ~partial.taken
        if partial.shared:
            own = partial.shared.get(index)
            for other, amounts in partial.shared.items():
                if amounts != own:
                    mask &= ~(1 << other)
            if own is not None:
                mask &= sum(1 << other for other, amounts in partial.shared.items() if amounts == own)
        return mask | 1 << index

    def key(self, want: Want, number: int, partial: Partial, options: int) -> Hashable:
        """Equal for positions from which the same is possible."""
        free, shared = ~partial.taken, partial.shared or {}
        touched = 0
        for index in shared:
            touched |= 1 << index
        counts: Hashable = (partial.taken, options)
        if not self._are_many and len(self.classes) <= CLASSES_COUNTED:
            counts = tuple(
                ((mask & free & ~touched).bit_count(), (mask & options & ~touched).bit_count()) for mask in self.classes
            )
        shares = tuple(
            sorted(
                (
                    index if self._are_many else self._class_of[index],
                    options >> index & 1,
                    tuple(sorted(amounts.items())),
                )
                for index, amounts in shared.items()
            )
        )
        values = tuple(
            frozenset(value) if is_distinct else value
            for value, is_distinct in zip(partial.values, self._distinct[want.claim], strict=True)
        )
        counters = tuple(
            (pool, tuple(sorted(taken.items()))) for pool, taken in sorted((partial.counters or {}).items())
        )
        groups = frozenset((partial.groups or {}).items())
        admin = (partial.taken, partial.mine) if self._has_admin else None
        return want.number, number, partial.in_claim, counts, shares, values, counters, groups, admin
