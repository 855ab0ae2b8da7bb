"""What a node's devices are worth to a demand, boiled down to what can decide the search.

Two nodes of equal structure (and equal use) get the same answer at the same positions, whatever their devices are
called. Where the order of picks alone could decide (`is_odd`), the plain walk has to go.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from dataclasses import dataclass

from headrace.devices.allocate.constraints import NO_VALUE, Constraint, Taken, Value
from headrace.devices.allocate.problem import ASKED_AT_ONCE, Problem
from headrace.devices.allocate.requests import Want
from headrace.devices.allocate.view import Chosen

GROUPED_AT_ONCE = 256
VALUES_COMPARED = 1_024

Groups = dict[Value, int]  # devices by the value of one attribute


@dataclass(frozen=True, slots=True)
class Structure:
    """`candidates[want]` are the devices a want accepts, used or not; `errors[want]` those whose check is an error.

    `groups[claim][constraint]` holds the devices by value of that constraint's attribute.
    """

    candidates: tuple[int, ...]
    errors: tuple[int, ...]
    groups: tuple[tuple[Groups, ...], ...]
    shareable: int
    counting: int
    is_odd: bool

    @property
    def likeness(self) -> Hashable:
        """Equal where the same devices in use have the same answer; None where more than this decides."""
        if any(self.errors) or self.shareable or self.counting:
            return None
        if any(len(each) > VALUES_COMPARED for of_claim in self.groups for each in of_claim):
            return None  # telling whether two are alike would take longer than another search
        return self.candidates, tuple(tuple(each.values()) for of_claim in self.groups for each in of_claim)

    def agreeing(self, mask: int, problem: Problem, want: Want, values: Sequence[Taken]) -> int:
        """The devices that agree with what the constraints of the want's claim have taken. Not for lists."""
        for number in want.constraints:
            groups, taken = self.groups[want.claim][number], values[number]
            if problem.demand.claims[want.claim].constraints[number].is_distinct:
                for value in taken:
                    mask &= ~groups[value]
            elif taken is not None:
                mask &= groups[taken]
        return mask

    def may_fail(self, problem: Problem, want: Want) -> bool:
        """Whether the walk could meet an error at the want, or the bounds do not know enough (lists overlap)."""
        if want.constraints and (want.is_all or problem.has_lists):
            return True
        return bool(self.errors[want.number] & (-1 if want.is_admin else ~problem.used))


def structuring(problem: Problem) -> Generator[int, None, Structure]:
    """Asks every selector about every distinct device; never raises. Yields the number of devices asked about."""
    by_attribute: dict[str, Groups] = {}
    for claim in problem.demand.claims:
        for constraint in claim.constraints:
            if constraint.attribute not in by_attribute:
                by_attribute[constraint.attribute] = yield from _grouped(problem, constraint)
    groups = tuple(
        tuple([by_attribute[constraint.attribute] for constraint in claim.constraints])
        for claim in problem.demand.claims
    )
    candidates: list[int] = []
    errors: list[int] = []
    asked: dict[Hashable, tuple[int, int]] = {}
    for want in problem.demand.wants:
        key = want.number if want.is_all or len(problem.demand.wants) == 1 else want.likeness
        if key not in asked:
            asked[key] = yield from _candidates(problem, want)
        yes, error = asked[key]
        for number in () if want.is_all else want.constraints:
            yes &= _union(groups[want.claim][number])
        candidates.append(yes)
        errors.append(error)
    counting, shareable, _ = problem.view.marks
    if not problem.features.ConsumableCapacity:
        shareable = 0
    return Structure(tuple(candidates), tuple(errors), groups, shareable, counting, _is_odd(problem, groups, counting))


def structure_is_at_hand(problem: Problem) -> bool:
    """Whether all of it is known from other demands."""
    view = problem.view
    return (
        not problem.has_lists
        and bool(view.everything)
        and all(not want.is_all and problem.chosen(want).asked == view.everything for want in problem.demand.wants)
        and all(each.attribute in view.groups for claim in problem.demand.claims for each in claim.constraints)
    )


def _candidates(problem: Problem, want: Want) -> Generator[int, None, tuple[int, int]]:
    if want.is_all:
        yes, error = sum(1 << index for index in problem.alls[want.number]), 0
    else:
        chosen = problem.chosen(want)
        if chosen.asked != problem.view.everything:
            yield from _asking(problem, want, chosen)
        yes, error = chosen.yes, chosen.error
    for index in bits(yes & problem.view.marks[2]):
        if problem.is_barred(want, index):
            yes &= ~(1 << index)
    return yes, error


def _asking(problem: Problem, want: Want, chosen: Chosen) -> Generator[int]:
    for index in range(len(problem.devices)):
        if not chosen.asked >> index & 1:
            problem.ask(want, index, chosen)
        if index % ASKED_AT_ONCE == ASKED_AT_ONCE - 1:
            yield ASKED_AT_ONCE


def _grouped(problem: Problem, constraint: Constraint) -> Generator[int, None, Groups]:
    known = None if problem.has_lists else problem.view.groups.get(constraint.attribute)
    if known is not None:
        return known
    groups: Groups = {}
    for index in range(len(problem.devices)):
        value = problem.static_value(constraint, index)
        if value is not None:
            groups[value] = groups.get(value, 0) | 1 << index
        if index % GROUPED_AT_ONCE == GROUPED_AT_ONCE - 1:
            yield ASKED_AT_ONCE
    if not problem.has_lists:
        problem.view.remember_groups(constraint.attribute, groups)
    return groups


def _union(groups: Groups) -> int:
    union = 0
    for mask in groups.values():
        union |= mask
    return union


def _is_odd(problem: Problem, groups: tuple[tuple[Groups, ...], ...], counting: int) -> bool:
    """An attribute without a value counts only when it comes first; a derived one differs from want to want."""
    if any(want.derived for want in problem.demand.wants):
        return True
    if not problem.has_lists and any(NO_VALUE in each for of_claim in groups for each in of_claim):
        return True
    return any(amount < 0 for index in bits(counting) for amount in problem.devices[index].consumes.values())


def bits(mask: int) -> list[int]:
    """The positions of the bits that are set, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
