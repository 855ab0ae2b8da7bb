"""Whether a partial answer can still grow into a full one: sound bounds, so a branch they refuse has no answer.

For each choice of alternatives and of values for the open matchAttribute constraints, the devices still needed must
be there: by number, by Hall's condition over all requests together, by distinct values, and by what counters and
capacities can still carry. One choice that passes keeps the branch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from headrace.devices.allocate.hall import Need, has_enough, union_of
from headrace.devices.allocate.partial import Partial, has_room
from headrace.devices.allocate.problem import Problem
from headrace.devices.allocate.requests import RESULTS_PER_CLAIM, Want
from headrace.devices.allocate.rooms import Rooms
from headrace.devices.allocate.structure import Structure, bits

CHOICES = 128
VALUES_AT_ONCE = 8  # so many values are looked at for one unit of work


@dataclass(frozen=True, slots=True)
class Position:
    """Where the search stands: the want at hand, how many devices it has, and which of them may come next."""

    want: Want
    number: int
    partial: Partial
    options: int


class Bounds:
    """`viable` is the question; `work` counts what was looked at.

    Requests from the first on at which an error could be met (`horizon`) do not count: a branch may be refused only if
    the plain walk could not have got as far as that.
    """

    def __init__(self, problem: Problem, structure: Structure) -> None:
        self.problem, self.structure = problem, structure
        self._looked = 0
        self.rooms = Rooms(problem, structure)
        slots = [request.wants for claim in problem.demand.claims for request in claim.requests]
        failing = (at for at, wants in enumerate(slots) if any(structure.may_fail(problem, want) for want in wants))
        self.horizon = next(failing, len(slots))
        self._slots = slots[: self.horizon]
        self._slot_of = {want.number: slot for slot, wants in enumerate(self._slots) for want in wants}
        self._fitting = self._with_room(structure)
        self._least = [min(max(problem.count(want), 0) for want in wants) for wants in self._slots]

    @property
    def work(self) -> int:
        return self._looked + self.rooms.work

    def _with_room(self, structure: Structure) -> list[int]:
        """Candidates that the consumed capacity of allocated claims leaves room on."""
        found = []
        held = sum(1 << index for index in self.problem.state.held)
        for want in self.problem.demand.wants:
            mask = structure.candidates[want.number]
            for index in bits(mask & held):
                if not has_room(self.problem, Partial(), want, index):
                    mask &= ~(1 << index)
            found.append(mask)
        return found

    def options(self, partial: Partial, want: Want) -> int:
        """The devices the want may take now, by what is certain before any of them is tried."""
        if want.is_admin:
            mask = self._fitting[want.number] & ~partial.mine
        else:
            mask = self._fitting[want.number] & ~(self.problem.used | partial.taken)
        for index in partial.shared or ():
            if mask >> index & 1 and not has_room(self.problem, partial, want, index):
                mask &= ~(1 << index)
        return mask

    def viable(self, position: Position) -> int:
        """Those of the options that may come next; none where the branch is hopeless, all where nothing is known."""
        self._looked += 2
        want, partial = position.want, position.partial
        if want.number not in self._slot_of:
            return -1
        missing = self.problem.count(want) - position.number
        options = self.structure.agreeing(position.options, self.problem, want, partial.values)
        if options.bit_count() < missing:
            return 0
        slot = self._slot_of[want.number]
        if self._exceeds_limit(partial.in_claim + missing, want.claim, slot + 1):
            return 0
        choices = []
        for wants in self._slots[slot + 1 :]:
            self._looked += len(wants)
            needs = [need for each in wants if (need := self._need(partial, want.claim, each)) is not None]
            if not needs:
                return 0
            choices.append(needs)
        options = self._of_viable_values(Need(want, options, missing), choices, partial)
        if not choices and self._is_decided(want, options, partial):
            return options if options.bit_count() >= missing else 0
        if options.bit_count() < missing or not self._has_choice(Need(want, options, missing), choices, partial):
            return 0
        return options

    def _is_decided(self, want: Want, options: int, partial: Partial) -> bool:
        """Whether a last request is served just if it has options enough: all of them as a whole, all of one value."""
        open_ones = 0
        for number in want.constraints:
            if self.problem.demand.claims[want.claim].constraints[number].is_distinct:
                return False
            open_ones += partial.values[number] is None
        return open_ones <= 1 and not options & (self.structure.shareable | self.structure.counting)

    def _of_viable_values(self, first: Need, choices: list[list[Need]], partial: Partial) -> int:
        """The options whose value of an open matchAttribute can serve all that is certain to need it."""
        options, want = first.of, first.want
        for number in want.constraints:
            constraint = self.problem.demand.claims[want.claim].constraints[number]
            if constraint.is_distinct or partial.values[number] is not None:
                continue
            certain = [
                needs[0]
                for needs in choices
                if len(needs) == 1 and needs[0].want.claim == want.claim and number in needs[0].want.constraints
            ]
            masks = self.structure.groups[want.claim][number].values()
            self._looked += len(masks) // VALUES_AT_ONCE * (1 + len(certain))
            if not certain:
                options &= union_of([mask for mask in masks if (options & mask).bit_count() >= first.number])
                continue
            needs = [Need(want, options, first.number), *certain]
            options &= union_of([mask for mask in masks if options & mask and self._may_serve(needs, mask)])
        return options

    def _exceeds_limit(self, have: int, claim: int, slot: int) -> bool:
        for number in range(slot, len(self._slots)):
            if self._slots[number][0].claim != claim:
                break
            have += self._least[number]
        return have > RESULTS_PER_CLAIM

    def _need(self, partial: Partial, claim: int, want: Want) -> Need | None:
        count = self.problem.count(want)
        if count <= 0:
            return None if want.is_all else Need(want, 0, 0)
        if count > RESULTS_PER_CLAIM:
            return None
        if want.claim == claim:
            mask = self.structure.agreeing(self.options(partial, want), self.problem, want, partial.values)
        else:
            mask = self.options(partial, want) | (partial.mine & self._fitting[want.number] if want.is_admin else 0)
        return Need(want, mask, count) if mask.bit_count() >= count else None

    def _has_choice(self, first: Need, choices: list[list[Need]], partial: Partial) -> bool:
        if prod(len(needs) for needs in choices) > CHOICES:
            joined = [_joined(needs) for needs in choices]
            return self._has_values([first, *joined], partial)
        return any(self._has_values([first, *chosen], partial) for chosen in product(*choices))

    def _has_values(self, needs: list[Need], partial: Partial) -> bool:
        """Whether some values of the open matchAttribute constraints leave enough devices."""
        self._looked += 1
        domains: list[tuple[list[int], list[int]]] = []
        attributes: list[str] = []
        for attribute, members, masks in self._open_constraints(needs, partial):
            self._looked += len(masks) // VALUES_AT_ONCE * len(members)
            viable = [mask for mask in masks if self._may_serve([needs[member] for member in members], mask)]
            if not viable:
                return False
            domains.append((members, viable))
            attributes.append(attribute)
        if not self._fit_beside(needs, domains, attributes):
            return False
        if prod(len(masks) for _, masks in domains) > CHOICES:
            return self._is_enough(
                _narrowed(needs, [(members, [union_of(masks)]) for members, masks in domains], None), partial
            )
        for chosen in product(*(masks for _, masks in domains)):
            self._looked += len(needs)
            narrowed = _narrowed(needs, domains, chosen)
            if all(need.of.bit_count() >= need.number for need in narrowed) and self._is_enough(narrowed, partial):
                return True
        return False

    def _may_serve(self, needs: list[Need], mask: int) -> bool:
        """Whether devices of one value are enough, each need for itself and all without admin access together."""
        union = total = 0
        for need in needs:
            here = need.of & mask
            if here.bit_count() < need.number:
                return False
            if not need.want.is_admin:
                union, total = union | here, total + need.number
        return bool(union & self.structure.shareable) or union.bit_count() >= total

    def _fit_beside(self, needs: list[Need], domains: list[tuple[list[int], list[int]]], attributes: list[str]) -> bool:
        """Whether constraints on one attribute find values enough, each value holding no more of them than it can."""
        for attribute in {each for each in attributes if attributes.count(each) > 1}:
            seen: set[int] = set()
            asking: list[tuple[int, list[int]]] = []
            for at, (members, viable) in enumerate(domains):
                if attributes[at] != attribute or seen.intersection(members):
                    continue
                joint = [needs[member] for member in members if not needs[member].want.is_admin]
                if not any(need.of & self.structure.shareable for need in joint):
                    seen.update(members)
                    asking.append((sum(need.number for need in joint), viable))
            if not _have_places(asking, union_of([need.of for need in needs])):
                return False
        return True

    def _open_constraints(self, needs: list[Need], partial: Partial) -> Iterator[tuple[str, list[int], list[int]]]:
        current = needs[0].want.claim
        for claim in range(current, len(self.problem.demand.claims)):
            for number, constraint in enumerate(self.problem.demand.claims[claim].constraints):
                if constraint.is_distinct or (claim == current and partial.values[number] is not None):
                    continue
                members = self._members(needs, claim, number)
                if members:
                    yield constraint.attribute, members, list(self.structure.groups[claim][number].values())

    @staticmethod
    def _members(needs: list[Need], claim: int, number: int) -> list[int]:
        return [
            member
            for member, need in enumerate(needs)
            if need.number > 0 and need.want.claim == claim and number in need.want.constraints
        ]

    def _is_enough(self, needs: list[Need], partial: Partial) -> bool:
        return self._has_distinct(needs, partial) and self.rooms.hold(needs, partial)

    def _has_distinct(self, needs: list[Need], partial: Partial) -> bool:
        """Hall's condition on values: each device under a distinctAttribute takes one value of its own."""
        for claim in range(needs[0].want.claim, len(self.problem.demand.claims)):
            for number, constraint in enumerate(self.problem.demand.claims[claim].constraints):
                if not constraint.is_distinct:
                    continue
                members = self._members(needs, claim, number)
                masks = list(self.structure.groups[claim][number].values())
                total = sum(needs[member].number for member in members)
                values = [(_values(masks, needs[member].of, total), needs[member].number) for member in members]
                self._looked += len(masks) // VALUES_AT_ONCE * len(members)
                if not has_enough(values):
                    return False
        return True


def _have_places(asking: list[tuple[int, list[int]]], free: int) -> bool:
    """Whether each of (number of devices, sets it may take them from) can have a set, if a set holds as many as fit."""
    totals = sorted(total for total, _ in asking)
    places: dict[int, int] = {}
    number = 0
    for mask in dict.fromkeys(mask for _, viable in asking for mask in viable):
        left, first = (mask & free).bit_count(), number
        for total in totals:
            left -= total
            if left < 0:
                break
            number += 1
        places[mask] = (1 << number) - (1 << first)
    return has_enough([(union_of([places[mask] for mask in viable]), 1) for _, viable in asking])


def _values(masks: Sequence[int], of: int, enough: int) -> int:
    """Which values the devices have; no more than all needs together could take, since any of them do then."""
    found = number = 0
    for at, mask in enumerate(masks):
        if of & mask:
            found |= 1 << at
            number += 1
            if number >= enough:
                break
    return found


def _joined(needs: list[Need]) -> Need:
    """The weakest that all alternatives ask for: sound, though it forgets which belongs to what."""
    if len(needs) == 1:
        return needs[0]
    least = min(needs, key=lambda need: need.number)
    want = least.want if all(need.want.constraints == least.want.constraints for need in needs) else None
    mask = union_of([need.of for need in needs])
    return Need(want or _without_constraints(least.want), mask, least.number)


def _without_constraints(want: Want) -> Want:
    return replace(want, constraints=())


def _narrowed(
    needs: list[Need], domains: list[tuple[list[int], list[int]]], chosen: Sequence[int] | None
) -> list[Need]:
    if not domains:
        return needs
    narrowed = list(needs)
    for at, (members, masks) in enumerate(domains):
        mask = masks[0] if chosen is None else chosen[at]
        for member in members:
            need = narrowed[member]
            narrowed[member] = Need(need.want, need.of & mask, need.number)
    return narrowed
