"""What was found out about a demand: the devices' worth by node kind, and the answer for each state of such a node.

Equal Pods ask the same, and most nodes are alike, so one search answers for all of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from headrace.devices.allocate.device import Slice
from headrace.devices.allocate.looks import Lens
from headrace.devices.allocate.outline import Outline
from headrace.devices.allocate.partial import Partial
from headrace.devices.allocate.requests import Demand
from headrace.devices.allocate.structure import Structure
from headrace.devices.allocate.view import State, View

ANSWERS_KEPT = 10_000  # of each demand


class Unknown:
    """No answer is known yet (None would say that there is none)."""


UNKNOWN: Final = Unknown()


class Known:
    """Answers to one demand. An error is never kept: its words name the node's own devices."""

    __slots__ = ("_alike", "_answers", "_looks", "_structures", "at_node", "demand", "lens")

    def __init__(self, demand: Demand) -> None:
        self.demand = demand
        self.lens: Lens | Unknown | None = UNKNOWN  # until somebody asks about many nodes
        # By node: the serial at which its slices (in order) had which answer.
        self.at_node: dict[str, tuple[int, Outline | None, tuple[Slice, ...]]] = {}
        self._looks: dict[Hashable, Outline | None] = {}
        self._structures: dict[int, Structure] = {}
        self._answers: dict[tuple[int, Hashable], Partial | None] = {}
        self._alike: dict[Hashable, Partial | None] = {}

    def answer(self, view: View, state: State) -> Partial | Unknown | None:
        return self._answers.get((view.kind, state.key), UNKNOWN)

    def learn(self, view: View, state: State, answer: Partial | None) -> None:
        if len(self._answers) >= ANSWERS_KEPT:
            self._answers.clear()
        self._answers[view.kind, state.key] = answer

    def by_look(self, look: Hashable) -> Outline | Unknown | None:
        return self._looks.get(look, UNKNOWN)

    def learn_look(self, look: Hashable, outline: Outline | None) -> None:
        if len(self._looks) >= ANSWERS_KEPT:
            self._looks.clear()
        self._looks[look] = outline

    def structure(self, view: View) -> Structure | None:
        return self._structures.get(view.kind)

    def learn_structure(self, view: View, structure: Structure) -> None:
        if len(self._structures) >= ANSWERS_KEPT:
            self._structures.clear()
        self._structures[view.kind] = structure

    def alike(self, structure: Structure, state: State) -> Partial | Unknown | None:
        """The answer of a node whose devices are other ones, but worth the same; no want for all may be among them."""
        return UNKNOWN if self.demand.has_all else self._alike.get((structure.likeness, state.key), UNKNOWN)

    def learn_alike(self, structure: Structure, state: State, answer: Partial | None) -> None:
        likeness = structure.likeness
        if likeness is not None and not self.demand.has_all:
            if len(self._alike) >= ANSWERS_KEPT:
                self._alike.clear()
            self._alike[likeness, state.key] = answer
