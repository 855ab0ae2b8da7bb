"""The search on one node from start to end: what is known, else the devices' worth, then the walk that suits it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.devices.allocate.fast import FastWalk
from headrace.devices.allocate.inventory import Inventory
from headrace.devices.allocate.known import Unknown
from headrace.devices.allocate.partial import Partial
from headrace.devices.allocate.problem import Problem
from headrace.devices.allocate.requests import text_of
from headrace.devices.allocate.structure import ASKED_AT_ONCE, Structure, structuring
from headrace.devices.allocate.walk import Walk

Json = Mapping[str, Any]

ASKING = 3  # the work that asking about one device counts for: the first time, a selector is evaluated on it


class Solving:
    """`run` says whether it is over; then `answer` is the full answer, or None if there is none.

    Creating and running it raise Failure, where the plain walk would meet it.
    """

    def __init__(self, node: Json, claims: Sequence[Json], inventory: Inventory, *, is_plain: bool = False) -> None:
        view = inventory.view(node)
        state = inventory.state(view)
        self._known = inventory.known(claims)
        texts = [text_of(claim) for claim in claims]
        self.problem = Problem(view, state, self._known.demand, texts, inventory.selectors, inventory.features)
        self.walk: Walk | None = None
        self.answer: Partial | None = None
        self._is_plain = is_plain
        known = self._known.answer(view, state)
        self._is_over = False
        self._asked = 0
        self._structure: Structure | None = None
        if is_plain or isinstance(known, Unknown):
            self.problem.enter()
            self._structuring = structuring(self.problem)
        else:
            self._is_over, self.answer = True, known

    @property
    def work(self) -> int:
        """All the work so far."""
        return self._asked + (self.walk.work if self.walk is not None else 0)

    @property
    def furthest(self) -> str:
        """The request the walk was last busy with, as errors name it."""
        if self.walk is None or self.walk.furthest is None:
            return "the start"
        return self.problem.text(self.walk.furthest)

    def run(self, work: int) -> bool:
        """Go on for at most about that much work."""
        if self._is_over:
            return True
        if self.walk is None:
            work -= self._structured(work)
        if self._is_over or self.walk is None:
            return self._is_over
        self.answer = self.walk.run(max(work, 1))
        self._is_over = self.walk.is_over
        if self._is_over and not self._is_plain:
            self._known.learn(self.problem.view, self.problem.state, self.answer)
            if self._structure is not None:
                self._known.learn_alike(self._structure, self.problem.state, self.answer)
        return self._is_over

    def _structured(self, work: int) -> int:
        """Find out what the devices are worth, then set out; returns the work that took."""
        if self._is_plain:
            self.walk = Walk(self.problem)
            return 0
        structure, before = self._known.structure(self.problem.view), self._asked
        while structure is None and self._asked - before < work:
            try:
                self._asked += next(self._structuring) * ASKING
            except StopIteration as over:
                structure = over.value
                self._asked += len(self.problem.devices) % ASKED_AT_ONCE * ASKING
                self._known.learn_structure(self.problem.view, structure)
        if structure is None:
            return self._asked - before
        alike = self._known.alike(structure, self.problem.state)
        if not structure.is_odd and not isinstance(alike, Unknown):
            self._is_over, self.answer = True, alike
            self._known.learn(self.problem.view, self.problem.state, alike)
        else:
            self._structure = None if structure.is_odd else structure
            self.walk = Walk(self.problem) if structure.is_odd else FastWalk(self.problem, structure)
        return self._asked - before
