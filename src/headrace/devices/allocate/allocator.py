"""Which devices a node has for a Pod's claims: exactly the answer of Kubernetes 1.37's default allocator.

`Search.run` takes a bounded amount of work and says None until it is over, so that a caller's loop stays free;
`allocate` runs to the end. JSON objects of resource.k8s.io/v1 go in, AllocationResults come out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.devices.allocate.failure import Failure
from headrace.devices.allocate.fast import FastWalk
from headrace.devices.allocate.inventory import Inventory
from headrace.devices.allocate.known import UNKNOWN, Unknown
from headrace.devices.allocate.partial import Partial
from headrace.devices.allocate.problem import Problem
from headrace.devices.allocate.requests import text_of
from headrace.devices.allocate.results import allocation_results
from headrace.devices.allocate.structure import structuring
from headrace.devices.allocate.walk import Walk

Json = Mapping[str, Any]

WORK_AT_ONCE = 2_000
WORK_IN_ALL = 20_000_000
ASKING = 4  # the work that asking about one device counts for: the first time, a selector is evaluated on it


@dataclass(frozen=True, slots=True)
class Allocated:
    """One AllocationResult for each claim, in order."""

    results: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Unsatisfiable:
    """The node cannot serve the claims as things are."""


@dataclass(frozen=True, slots=True)
class Failed:
    """An error in Kubernetes' words. `fatal` ends the attempt on all nodes, otherwise just this node is out."""

    kind: str
    error: str
    fatal: bool


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The search reached its limit: nothing is known about the node. Try again later, with delay."""

    request: str
    work: int

    @property
    def text(self) -> str:
        return f"search gave up after {self.work} steps at {self.request}"


Outcome = Allocated | Unsatisfiable | Failed | GaveUp


class Search:
    """One node and the claims of one Pod. `share_ids` gives a new id for each share of a device.

    `is_plain` takes the plain walk and neither uses nor keeps what is known: the measure for everything else.
    """

    def __init__(
        self,
        node: Json,
        claims: Sequence[Json],
        inventory: Inventory,
        share_ids: Iterator[str],
        limit: int = WORK_IN_ALL,
        *,
        is_plain: bool = False,
    ) -> None:
        self.walk: Walk | None = None
        self._outcome: Outcome | None = None
        self._share_ids, self._limit, self._is_plain = share_ids, limit, is_plain
        try:
            view = inventory.view(node)
            state = inventory.state(view)
            self._known = inventory.known(claims)
            texts = [text_of(claim) for claim in claims]
            self._problem = Problem(view, state, self._known.demand, texts, inventory.selectors, inventory.features)
            answer = UNKNOWN if is_plain else self._known.answer(view, state)
            if isinstance(answer, Unknown):
                self._problem.enter()
                self._structuring = structuring(self._problem)
            else:
                self._outcome = self._finished(answer)
        except Failure as failure:
            self._outcome = Failed(failure.kind, failure.text, failure.fatal)

    def run(self, work: int = WORK_AT_ONCE) -> Outcome | None:
        """Go on for at most about that much work (a device tried is one); None while the search is not over."""
        if self._outcome is None:
            try:
                self._outcome = self._go_on(work)
            except Failure as failure:
                self._outcome = Failed(failure.kind, failure.text, failure.fatal)
        return self._outcome

    def _go_on(self, work: int) -> Outcome | None:
        if self.walk is None:
            work -= self._structured(work)
            if self.walk is None:
                return None
        walk = self.walk
        answer = walk.run(max(work, 1))
        if walk.is_over:
            if not self._is_plain:
                self._known.learn(self._problem.view, self._problem.state, answer)
            return self._finished(answer)
        if walk.work >= self._limit:
            return GaveUp(self._problem.text(walk.furthest) if walk.furthest else "the start", walk.work)
        return None

    def _structured(self, work: int) -> int:
        """Find out what the devices are worth, then set out; returns the work that took."""
        problem, done = self._problem, 0
        structure = None if self._is_plain else self._known.structure(problem.view)
        if self._is_plain:
            self.walk = Walk(problem)
            return 0
        while structure is None and done < work:
            try:
                done += next(self._structuring) * ASKING
            except StopIteration as over:
                structure = over.value
                self._known.learn_structure(problem.view, structure)
        if structure is not None:
            self.walk = Walk(problem) if structure.is_odd else FastWalk(problem, structure)
        return done

    def _finished(self, answer: Partial | None) -> Outcome:
        if answer is not None:
            return Allocated(allocation_results(self._problem, answer, self._share_ids))
        if self._problem.view.has_invalid:
            raise Failure("invalid-pools", "invalid resource pools were encountered", fatal=False)
        return Unsatisfiable()


def allocate(
    node: Json, claims: Sequence[Json], inventory: Inventory, share_ids: Iterator[str], limit: int = WORK_IN_ALL
) -> Outcome:
    """The whole search at once."""
    search = Search(node, claims, inventory, share_ids, limit)
    while True:
        outcome = search.run()
        if outcome is not None:
            return outcome
