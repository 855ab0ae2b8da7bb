"""What filters and scores said of each node, kept in order for Pods that ask the same: only changed nodes are asked.

So a Pod costs what has changed since the last one of its sort, not all nodes.
"""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import orjson

from headrace.scheduling.filters import Candidate, Wanted, reasons
from headrace.scheduling.plan import Placement
from headrace.scheduling.score import score
from headrace.scheduling.view import View

SORTS_KEPT = 64

Ranked = tuple[int, str, Placement]
"""In order: the best score (negated) first, then by name, which no two nodes share."""


@dataclass(frozen=True, slots=True)
class Offers:
    """What the nodes say before devices are looked for. Valid until the next Pod is looked at."""

    fitting: Sequence[Ranked]
    by_node: Mapping[str, Placement]

    @property
    def refusing(self) -> list[Placement]:
        return [each for each in self.by_node.values() if each.reasons]

    def all(self) -> list[Placement]:
        return [*(each for _, _, each in self.fitting), *self.refusing]

    def best(self) -> Placement | None:
        """Of the best score the last by name: what `plan.best_of` takes from all of them."""
        if not self.fitting:
            return None
        return self.fitting[bisect_left(self.fitting, (self.fitting[0][0] + 1,)) - 1][2]


def offers_of(placements: Iterable[Placement]) -> Offers:
    by_node = {each.node: each for each in placements}
    return Offers(sorted(_ranked(each) for each in by_node.values() if not each.reasons), by_node)


class Kept:
    """One order of nodes for each sort of Pods, of the last ones that came."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._orders: OrderedDict[bytes, _Order] = OrderedDict()

    def offers(self, wanted: Wanted) -> Offers:
        if wanted.ports:  # which are free is no question of a sort
            return offers_of(_asked(wanted, each) for each in self._view.candidates())
        sort = sort_of(wanted)
        order = self._orders.get(sort)
        if order is None:
            order = self._orders[sort] = _Order()
            if len(self._orders) > SORTS_KEPT:
                self._orders.popitem(last=False)
        self._orders.move_to_end(sort)
        order.follow(self._view, wanted)
        return Offers(order.fitting, order.placements)


class _Order:
    def __init__(self) -> None:
        self.fitting: list[Ranked] = []
        self.placements: dict[str, Placement] = {}
        self._epoch = self._seen = -1

    def follow(self, view: View, wanted: Wanted) -> None:
        """Ask the nodes that changed, and those with reservations, which are for Pods by name."""
        if self._epoch != view.epoch:
            self._epoch, self._seen = view.epoch, view.changed
            self.placements = {each.name: _asked(wanted, each) for each in view.candidates()}
            self.fitting = sorted(_ranked(each) for each in self.placements.values() if not each.reasons)
            return
        changed = dict.fromkeys((*view.changes_since(self._seen), *view.reserved))
        self._seen = view.changed
        for name in changed:
            before = self.placements.pop(name, None)
            if before is not None and not before.reasons:
                del self.fitting[bisect_left(self.fitting, _ranked(before)[:2])]
            candidate = view.candidate(name)
            if candidate is not None:
                found = self.placements[name] = _asked(wanted, candidate)
                if not found.reasons:
                    insort(self.fitting, _ranked(found))


def sort_of(wanted: Wanted) -> bytes:
    """Equal for Pods that filters and scores cannot tell apart."""
    spec = wanted.spec
    facts = (spec.get("nodeSelector"), spec.get("affinity"), spec.get("tolerations"))
    return orjson.dumps((wanted.amounts, sorted(wanted.backed), facts), option=orjson.OPT_SORT_KEYS)


def _ranked(placement: Placement) -> Ranked:
    return (-placement.score, placement.node, placement)


def _asked(wanted: Wanted, candidate: Candidate) -> Placement:
    amounts = wanted.amounts_on(candidate.ledger)
    return Placement(candidate.name, reasons(wanted, candidate), score(candidate.ledger, amounts))
