"""Which devices a node has for a Pod's claims: exactly the answer of Kubernetes 1.37's default allocator.

`Search.run` takes a bounded amount of work and says None until it is over, so that a caller's loop stays free;
`allocate` runs to the end. JSON objects of resource.k8s.io/v1 go in, AllocationResults come out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.devices.allocate.failure import Failure
from headrace.devices.allocate.inventory import Inventory
from headrace.devices.allocate.solving import Solving

Json = Mapping[str, Any]

WORK_AT_ONCE = 2_000
WORK_IN_ALL = 3_000_000  # some seconds


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
        self._outcome: Outcome | None = None
        self._share_ids, self._limit = share_ids, limit
        self.solving: Solving | None = None
        try:
            self.solving = Solving(node, claims, inventory, is_plain=is_plain)
        except Failure as failure:
            self._outcome = Failed(failure.kind, failure.text, failure.fatal)

    def run(self, work: int = WORK_AT_ONCE) -> Outcome | None:
        """Go on for at most about that much work (a device tried is one); None while the search is not over."""
        if self._outcome is None and self.solving is not None:
            try:
                self._outcome = self._go_on(self.solving, work)
            except Failure as failure:
                self._outcome = Failed(failure.kind, failure.text, failure.fatal)
        return self._outcome

    def _go_on(self, solving: Solving, work: int) -> Outcome | None:
        if not solving.run(work):
            return GaveUp(solving.furthest, solving.work) if solving.work >= self._limit else None
        if solving.answer is not None:
            return Allocated(solving.results(self._share_ids))
        if solving.has_invalid_pool:
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
