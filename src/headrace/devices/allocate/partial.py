"""A partial answer: the picks so far and what they take. Never changed, so that going back costs and leaks nothing.

`placed` is the one place that says whether a device may join; it returns the grown answer or None. The classes are not
frozen: making one is what a search does most, and a frozen one takes three times as long.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.api.quantity import Quantity
from headrace.devices.allocate.capacity import CapacityError
from headrace.devices.allocate.constraints import Taken
from headrace.devices.allocate.device import Counters
from headrace.devices.allocate.failure import Failure
from headrace.devices.allocate.problem import Problem
from headrace.devices.allocate.requests import Want
from headrace.devices.allocate.view import Groups


@dataclass(slots=True)
class Pick:
    """One device given to one want; `amounts` is set for a share of a device that allows several."""

    want: Want
    index: int
    amounts: dict[str, Quantity] | None
    before: Pick | None


@dataclass(slots=True)
class Partial:
    """`taken` are devices given to any claim of this run, `mine` those of the claim at hand."""

    taken: int = 0
    mine: int = 0
    values: tuple[Taken, ...] = ()
    counters: dict[int, Counters] | None = None
    groups: dict[tuple[int, str], Groups] | None = None
    shared: dict[int, dict[str, int]] | None = None
    picks: Pick | None = None
    in_claim: int = 0

    def for_claim(self, values: tuple[Taken, ...]) -> Partial:
        """The same answer at the start of the next claim."""
        return Partial(self.taken, 0, values, self.counters, self.groups, self.shared, self.picks, 0)

    def path(self) -> list[Pick]:
        """All picks in order."""
        found, pick = [], self.picks
        while pick is not None:
            found.append(pick)
            pick = pick.before
        return found[::-1]


def is_free(problem: Problem, partial: Partial, want: Want, index: int) -> bool:
    """The check Kubernetes makes before it asks any selector."""
    bit = 1 << index
    if want.is_admin:
        return not partial.mine & bit
    return not (problem.used | partial.taken) & bit


def has_room(problem: Problem, partial: Partial, want: Want, index: int) -> bool:
    """Whether the device's capacity holds the want beside its holders and this run's shares; raises CapacityError."""
    device = problem.devices[index]
    held = problem.state.held.get(index)
    here = partial.shared.get(index) if partial.shared else None
    is_empty = held is None and here is None
    if is_empty and not want.amounts and device.always_has_room:
        return True
    amounts = problem.amounts(want, index)
    if amounts is None or is_empty:
        return amounts is not None
    for name, amount in amounts.items():
        total = amount.nano + (held.get(name, 0) if held else 0) + (here.get(name, 0) if here else 0)
        if total > device.capacities[name].value.nano:
            return False
    return True


def has_room_or_fails(problem: Problem, partial: Partial, want: Want, index: int) -> bool:
    """The same for a walk that has come to the device; raises Failure."""
    try:
        return has_room(problem, partial, want, index)
    except CapacityError as error:
        where = f"{problem.text(want)}: checking capacity for device {problem.devices[index]}"
        raise Failure("capacity", f"{where}: {error}") from None


def placed(problem: Problem, partial: Partial, want: Want, index: int) -> Partial | None:
    """The answer with the device given to the want, or None. The device is selectable and, unless the want is for
    all devices, has room. Raises Failure where a constraint keeps a device from a want for all."""
    if not is_free(problem, partial, want, index) or problem.is_barred(want, index):
        return None
    device = problem.devices[index]
    is_share = problem.features.ConsumableCapacity and device.is_shareable
    counters, groups = partial.counters, partial.groups
    if device.takes_counters and not (is_share and _is_charged(problem, partial, index)):
        if problem.features.CompatibilityGroups:
            groups = _with_groups(problem, partial, index)
        counters = _with_counters(problem, partial, index)
        if counters is None or (groups is None and problem.features.CompatibilityGroups):
            return None
    values = _with_values(problem, partial, want, index)
    if values is None:
        if want.is_all:
            raise Failure(
                "all-constraint",
                f"{problem.text(want)}: cannot add device {device} because a claim constraint would not be satisfied",
            )
        return None
    if want.is_all and not _has_room_still(problem, partial, want, index):
        return None
    taken, mine, shared, amounts = partial.taken, partial.mine, partial.shared, None
    if is_share:
        amounts = problem.amounts(want, index) or {}
        before = shared.get(index, {}) if shared else {}
        now = {name: amount.nano + before.get(name, 0) for name, amount in amounts.items()}
        shared = {**(shared or {}), index: now}
    else:
        taken, mine = taken | 1 << index, mine | 1 << index
    picks = Pick(want, index, amounts, partial.picks)
    return Partial(taken, mine, values, counters, groups, shared, picks, partial.in_claim + 1)


def _is_charged(problem: Problem, partial: Partial, index: int) -> bool:
    """Whether an earlier share of the device has paid its counters already."""
    return bool(problem.state.shared >> index & 1) or bool(partial.shared and index in partial.shared)


def _has_room_still(problem: Problem, partial: Partial, want: Want, index: int) -> bool:
    if not problem.features.ConsumableCapacity:
        return True
    try:
        return has_room(problem, partial, want, index)
    except CapacityError as error:
        text = f"{problem.text(want)}: rechecking capacity for device {problem.devices[index]}: {error}"
        raise Failure("capacity", text) from None


def _with_values(problem: Problem, partial: Partial, want: Want, index: int) -> tuple[Taken, ...] | None:
    if not want.constraints:
        return partial.values
    values = list(partial.values)
    constraints = problem.demand.claims[want.claim].constraints
    for number in want.constraints:
        constraint = constraints[number]
        value = problem.value(want, constraint, index)
        grown = constraint.extended(values[number], value, with_lists=problem.has_lists)
        if grown is None:
            return None
        values[number] = grown
    return tuple(values)


def _with_counters(problem: Problem, partial: Partial, index: int) -> dict[int, Counters] | None:
    pool = problem.pool_of[index]
    available = problem.state.available[pool]
    if available is None:
        return None
    taken = dict(partial.counters[pool]) if partial.counters and pool in partial.counters else {}
    for key, amount in problem.devices[index].consumes.items():
        taken[key] = taken.get(key, 0) + amount
        if taken[key] > available[key]:
            return None
    return {**(partial.counters or {}), pool: taken}


def _with_groups(problem: Problem, partial: Partial, index: int) -> dict[tuple[int, str], Groups] | None:
    """Per counter set, the groups that all its devices share; devices without groups go only with their like."""
    pool = problem.pool_of[index]
    common = dict(partial.groups or {})
    for counter_set, groups in problem.devices[index].compatibility_groups():
        key = (pool, counter_set)
        if key not in common:
            in_use = problem.state.groups[pool]
            if counter_set not in in_use:
                common[key] = groups or None
                continue
            common[key] = in_use[counter_set]
        now = common[key]
        if now is None or not groups:
            if now is not None or groups:
                return None
        elif not now & groups:
            return None
        else:
            common[key] = now & groups
    return common
