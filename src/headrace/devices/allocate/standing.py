"""The standing answer to one demand on all nodes: which of them fit. An event costs just the nodes it touched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress, islice, repeat
from typing import Any

from headrace.devices.allocate.failure import Failure
from headrace.devices.allocate.inventory import Inventory
from headrace.devices.allocate.known import Known, Unknown
from headrace.devices.allocate.solving import Solving

Json = Mapping[str, Any]

WORK_ON_A_NODE = 3_000_000  # some seconds
LOOKING = 1  # the work that a look at one node counts for
READING = 10  # and that its pools take when they are read anew, with more for its devices
READ_AT_ONCE = 8

UNFIT, FITS, FAILS, UNSURE = range(4)
_IS_FIT = bytes([verdict == FITS for verdict in range(256)])


class Standing:
    """Keep it for as long as Pods ask the same; `run` until it says True, then ask.

    A node FAILS where an error ends the attempt, and is UNSURE where a search gave up; `Search` on it has the words.
    """

    def __init__(self, inventory: Inventory, claims: Sequence[Json], limit: int = WORK_ON_A_NODE) -> None:
        self.inventory, self.claims = inventory, claims
        self.verdicts = bytearray()
        self._limit = limit
        self._seen = self._epoch = -1
        self._todo: list[str] = []
        self._solving: tuple[str, Solving] | None = None
        self._known: Known | None = None

    def run(self, work: int) -> bool:
        """Look again at the nodes that events touched, for at most about that much work; True when none is left."""
        self._absorb()
        if not self._todo and self._solving is None:
            return True
        known = self._known = self.inventory.known(self.claims)
        if self._solving is None:
            work -= self._recall(known, work)
        while work > 0 and (self._todo or self._solving is not None):
            if self._solving is None:
                work -= self._look(self._todo.pop(), known)
            else:
                work -= self._go_on(*self._solving, work)
        return not self._todo and self._solving is None

    def _absorb(self) -> None:
        """Note the nodes that events touched since the last look."""
        inventory = self.inventory
        forgotten, end = inventory.changes_forgotten, inventory.changes_forgotten + len(inventory.changes)
        if self._epoch != inventory.epoch or self._seen < forgotten:
            self._solving = None
            self._todo = list(reversed(inventory.names))
            self.verdicts = bytearray(len(inventory.names))
        elif self._seen < end:
            touched = dict.fromkeys(inventory.changes[self._seen - forgotten :])
            self._todo = [*(name for name in self._todo if name not in touched), *touched]
            self.verdicts.extend(bytes(len(inventory.names) - len(self.verdicts)))
            if self._solving is not None and self._solving[0] in touched:
                self._solving = None
        self._seen, self._epoch = end, inventory.epoch

    def _recall(self, known: Known, work: int) -> int:
        """Take the answers of all nodes at the front that are as they were when they were looked at."""
        numbers, serials = self.inventory.numbers, self.inventory.serials
        at_node, verdicts = known.at_node, self.verdicts
        recalled = 0
        for name in islice(reversed(self._todo), work):
            seen, number = at_node.get(name), numbers.get(name)
            if seen is None or number is None or seen[0] != serials.get(name, 0):
                break
            verdicts[number] = UNFIT if seen[1] is None else FITS
            recalled += LOOKING
        del self._todo[len(self._todo) - recalled :]
        return recalled

    def _look(self, name: str, known: Known) -> int:
        """Take what is known about the node as it is now, or begin a search on it; returns the work it took."""
        inventory, work = self.inventory, LOOKING
        number = inventory.numbers.get(name)
        if number is None:
            return work
        self.verdicts[number] = UNFIT
        view = inventory.views.get(name)
        try:
            if view is not None:
                answer = known.answer(view, inventory.states.get(name) or inventory.state(view))
                if not isinstance(answer, Unknown) and (answer is None or not view.has_many_terms):
                    self.verdicts[number] = UNFIT if answer is None else FITS
                    return work
            outline = inventory.at_a_glance(name, known)
            if not isinstance(outline, Unknown):
                self.verdicts[number] = UNFIT if outline is None else FITS
                return work
            self._solving = name, Solving(inventory.nodes[name], self.claims, inventory)
        except Failure as failure:
            self.verdicts[number] = FAILS if failure.fatal else UNFIT
        if view is None and name in inventory.views:
            work += READING + len(inventory.views[name].devices) // READ_AT_ONCE
        return work

    def _go_on(self, name: str, solving: Solving, work: int) -> int:
        """Go on with one node's search; returns the work it took."""
        before, number = solving.work, self.inventory.numbers[name]
        try:
            if solving.run(work):
                self._solving = None
                if solving.answer is not None:
                    if self.inventory.views[name].has_many_terms:
                        solving.results(repeat(""))
                    self.verdicts[number] = FITS
            elif solving.work >= self._limit:
                self._solving = None
                self.verdicts[number] = UNSURE
        except Failure as failure:
            self._solving = None
            self.verdicts[number] = FAILS if failure.fatal else UNFIT
        return solving.work - before

    @property
    def first(self) -> str | None:
        """The first node that fits, or whose error ends the attempt."""
        found = [at for at in (self.verdicts.find(FITS), self.verdicts.find(FAILS)) if at >= 0]
        return self.inventory.names[min(found)] if found else None

    def names(self) -> Iterator[str]:
        """All nodes that fit, in order."""
        return compress(self.inventory.names, self.verdicts.translate(_IS_FIT))

    def results(self, name: str, share_ids: Iterator[str]) -> list[dict[str, Any]]:
        """The AllocationResults on a node that fits, once `run` has said True; raises Failure."""
        inventory, known = self.inventory, self._known
        seen = None if known is None or self._epoch != inventory.epoch else known.at_node.get(name)
        if seen is not None and seen[1] is not None and seen[0] == inventory.serials.get(name, 0):
            return seen[1].results(name, seen[2])
        solving = Solving(inventory.nodes[name], self.claims, inventory)
        while not solving.run(WORK_ON_A_NODE):
            pass
        return solving.results(share_ids)
