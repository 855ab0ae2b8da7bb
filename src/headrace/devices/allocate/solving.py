"""The search on one node from start to end: what is known, else straight down, else the walk that suits the devices."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from typing import Any

from headrace.devices.allocate.device import Slice
from headrace.devices.allocate.fast import FastWalk
from headrace.devices.allocate.inventory import Inventory
from headrace.devices.allocate.known import Unknown
from headrace.devices.allocate.nodes import name_of
from headrace.devices.allocate.outline import Outline
from headrace.devices.allocate.partial import Partial
from headrace.devices.allocate.problem import ASKED_AT_ONCE, Problem
from headrace.devices.allocate.results import allocation_results
from headrace.devices.allocate.structure import Structure, structure_is_at_hand, structuring
from headrace.devices.allocate.view import View
from headrace.devices.allocate.walk import Descent, Walk

Json = Mapping[str, Any]

ASKING = 3  # the work that asking about one device counts for: the first time, a selector is evaluated on it


class Solving:
    """`run` says whether it is over; then `answer` is the full answer, or None if there is none.

    Creating and running it raise Failure, where the plain walk would meet it.
    """

    def __init__(self, node: Json, claims: Sequence[Json], inventory: Inventory, *, is_plain: bool = False) -> None:
        self._known = known = inventory.known(claims)
        self._features = inventory.features
        self._claims = claims
        self._name = name_of(node)
        self.walk: Walk | None = None
        self.answer: Partial | Outline | None = None
        self._is_plain = is_plain
        self._is_over = False
        self._before = 0
        self._has_descended = False
        self._structure: Structure | None = None
        self._view: View | None = None
        self._look: Hashable = None
        self._serial = inventory.serials.get(self._name, 0)
        self._slices: tuple[Slice, ...] = ()
        if not is_plain and not isinstance(known.lens, Unknown) and self._is_known_at_a_glance(inventory):
            return
        self._view = view = inventory.view(node)
        state = inventory.state(view)
        answer = known.answer(view, state)
        if not is_plain and not isinstance(answer, Unknown):
            self._is_over, self.answer = True, answer
            return
        demand = known.demand
        self.problem = Problem(view, state, demand, claims, inventory.selectors, inventory.features)
        is_checked = demand.error is None and demand.is_in_limits and not demand.has_all and not is_plain
        self._entering: Generator[int] | None = None if is_checked else self.problem.entering()
        self._structuring: Generator[int, None, Structure] | None = None

    def _is_known_at_a_glance(self, inventory: Inventory) -> bool:
        outline = inventory.at_a_glance(self._name, self._known)
        if isinstance(outline, Unknown):
            seen = inventory.look(self._name, self._known)
            if seen is not None:
                self._look, self._slices = seen
            return False
        self._is_over, self.answer = True, outline
        self._slices = self._known.at_node[self._name][2]
        return True

    @property
    def work(self) -> int:
        """All the work so far."""
        return self._before + (self.walk.work if self.walk is not None else 0)

    @property
    def furthest(self) -> str:
        """The request the walk was last busy with, as errors name it."""
        wants = self._known.demand.wants
        found = self.walk.furthest if self.walk is not None else None
        if found is None and not wants:
            return "the start"
        return self.problem.text(found or wants[0])

    @property
    def has_invalid_pool(self) -> bool:
        return self._view is not None and self._view.has_invalid

    def results(self, share_ids: Iterator[str]) -> list[dict[str, Any]]:
        """The answer written down; raises Failure."""
        assert self.answer is not None
        if isinstance(self.answer, Outline):
            return self.answer.results(self._name, self._slices)
        assert self._view is not None
        return allocation_results(self._view, self._known.demand, self._claims, self._features, self.answer, share_ids)

    def run(self, work: int) -> bool:
        """Go on for at most about that much work."""
        if self._is_over:
            return True
        end = self.work + work
        if self._entering is not None and not self._entered(self._entering, end):
            return False
        if self.walk is None:
            self._set_out(end)
        if self.walk is not None and not self._is_over:
            self._walk_on(self.walk, max(end - self.work, 1))
        return self._is_over

    def _entered(self, entering: Generator[int], end: int) -> bool:
        while self._before < end:
            try:
                self._before += next(entering) * ASKING
            except StopIteration:
                self._entering = None
                return True
        return False

    def _walk_on(self, walk: Walk, work: int) -> None:
        answer = walk.run(work)
        if walk.is_over:
            self._end(answer)
            if self._structure is not None:
                self._known.learn_alike(self._structure, self.problem.state, answer)

    def _end(self, answer: Partial | None) -> None:
        self._is_over, self.answer = True, answer
        if self._is_plain:
            return
        self._known.learn(self.problem.view, self.problem.state, answer)
        if self._look is not None:
            outline = None if answer is None else Outline(self._known.demand, answer, self._slices)
            self._known.learn_look(self._look, outline)
            self._known.at_node[self._name] = self._serial, outline, self._slices

    def _set_out(self, end: int) -> None:
        """Straight down first; after a dead end find out what the devices are worth, and take the walk that suits."""
        if self._is_plain:
            self.walk = Walk(self.problem)
            return
        structure = self._known.structure(self.problem.view)
        is_at_hand = structure is None and self._known.demand.has_match and structure_is_at_hand(self.problem)
        if structure is None and not self._has_descended and not is_at_hand:
            descent, self._has_descended = Descent(self.problem), True
            answer = descent.run()
            self._before += descent.work
            if answer is not None:
                self._end(answer)
                return
        if structure is None:
            structure = self._structured(end)
        if structure is None:
            return
        alike = self._known.alike(structure, self.problem.state)
        if structure.is_odd:
            self.walk = Walk(self.problem)
        elif isinstance(alike, Unknown):
            self.walk, self._structure = FastWalk(self.problem, structure), structure
        else:
            self._end(alike)

    def _structured(self, end: int) -> Structure | None:
        if self._structuring is None:
            self._structuring = structuring(self.problem)
        while self._before < end:
            try:
                self._before += next(self._structuring) * ASKING
            except StopIteration as over:
                structure: Structure = over.value
                self._before += len(self.problem.devices) % ASKED_AT_ONCE * ASKING
                self._known.learn_structure(self.problem.view, structure)
                return structure
        return None
