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
from headrace.devices.allocate.problem import Problem
from headrace.devices.allocate.requests import read_claims
from headrace.devices.allocate.results import allocation_results
from headrace.devices.allocate.structure import structure_of
from headrace.devices.allocate.walk import Walk

Json = Mapping[str, Any]

WORK_AT_ONCE = 2_000
WORK_IN_ALL = 20_000_000


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
    """One node and the claims of one Pod. `share_ids` gives a new id for each share of a device."""

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
        self.steps = 0
        self._outcome: Outcome | None = None
        self._share_ids, self._limit = share_ids, limit
        features = inventory.features
        try:
            pools = inventory.pools(node)
            demand = read_claims(claims, inventory.classes, features)
            self._problem = Problem(node, pools, demand, inventory.in_use, inventory.selectors, features)
            self._problem.enter()
            structure = structure_of(self._problem)
            is_plain = is_plain or structure.is_odd
            self._walk = Walk(self._problem) if is_plain else FastWalk(self._problem, structure)
        except Failure as failure:
            self._outcome = Failed(failure.kind, failure.text, failure.fatal)

    def run(self, work: int = WORK_AT_ONCE) -> Outcome | None:
        """Go on for about that much work (a device tried is one); None while the search is not over."""
        if self._outcome is None:
            try:
                self._outcome = self._go_on(work)
            except Failure as failure:
                self._outcome = Failed(failure.kind, failure.text, failure.fatal)
        return self._outcome

    def _go_on(self, work: int) -> Outcome | None:
        walk = self._walk
        try:
            answer = walk.run(work)
        finally:
            self.steps = walk.steps
        if answer is not None:
            return Allocated(allocation_results(self._problem, answer, self._share_ids))
        if walk.is_over:
            if any(pool.invalid is not None for pool in self._problem.pools):
                raise Failure("invalid-pools", "invalid resource pools were encountered", fatal=False)
            return Unsatisfiable()
        if walk.work >= self._limit:
            return GaveUp(walk.furthest.text if walk.furthest else "", walk.work)
        return None


def allocate(
    node: Json, claims: Sequence[Json], inventory: Inventory, share_ids: Iterator[str], limit: int = WORK_IN_ALL
) -> Outcome:
    """The whole search at once."""
    search = Search(node, claims, inventory, share_ids, limit)
    while True:
        outcome = search.run()
        if outcome is not None:
            return outcome
