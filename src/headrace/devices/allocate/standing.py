"""The standing answer to one demand on all nodes: which of them fit. An event costs just the nodes it touched.

Node sets are whole numbers with one bit for each node, in the inventory's order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

from headrace.devices.allocate.failure import Failure
from headrace.devices.allocate.inventory import Inventory
from headrace.devices.allocate.known import Unknown
from headrace.devices.allocate.results import allocation_results
from headrace.devices.allocate.solving import Solving

Json = Mapping[str, Any]

WORK_ON_A_NODE = 20_000_000
LOOKING = 1  # the work that a look at one node counts for
READING = 10  # and that its pools take when they are read anew, with as much as it has devices


class Standing:
    """Keep it for as long as Pods ask the same; `run` until it says True, then ask.

    A node of `failing` meets an error that ends the attempt, one of `unsure` a search that gave up; `Search` on it has
    the words.
    """

    def __init__(self, inventory: Inventory, claims: Sequence[Json], limit: int = WORK_ON_A_NODE) -> None:
        self.inventory, self.claims = inventory, claims
        self.fitting = self.failing = self.unsure = 0
        self._limit = limit
        self._seen = self._epoch = -1
        self._todo: dict[str, None] = {}
        self._solving: tuple[str, Solving] | None = None

    def run(self, work: int) -> bool:
        """Look again at the nodes that events touched, for at most about that much work; True when none is left."""
        self._absorb()
        while work > 0 and (self._todo or self._solving is not None):
            if self._solving is None:
                name = next(iter(self._todo))
                del self._todo[name]
                work -= self._look(name)
            else:
                work -= self._go_on(*self._solving, work)
        return not self._todo and self._solving is None

    def _absorb(self) -> None:
        """Note the nodes that events touched since the last look."""
        inventory = self.inventory
        forgotten, end = inventory.changes_forgotten, inventory.changes_forgotten + len(inventory.changes)
        if self._epoch != inventory.epoch or self._seen < forgotten:
            self.fitting = self.failing = self.unsure = 0
            self._solving = None
            self._todo = dict.fromkeys(inventory.nodes)
        elif self._seen < end:
            self._todo.update(dict.fromkeys(inventory.changes[self._seen - forgotten :]))
            if self._solving is not None and self._solving[0] in self._todo:
                self._solving = None
        self._seen, self._epoch = end, inventory.epoch

    def _look(self, name: str) -> int:
        """Take what is known about the node as it is now, or begin a search on it; returns the work it took."""
        inventory = self.inventory
        node = inventory.nodes.get(name)
        if node is None:
            return LOOKING
        is_new, devices = name not in inventory.views, 0
        bit = 1 << inventory.numbers[name]
        self.fitting, self.failing, self.unsure = self.fitting & ~bit, self.failing & ~bit, self.unsure & ~bit
        try:
            view = inventory.view(node)
            devices = len(view.devices)
            answer = inventory.known(self.claims).answer(view, inventory.state(view))
            if isinstance(answer, Unknown) or (answer is not None and view.has_many_terms):
                self._solving = name, Solving(node, self.claims, inventory)
            elif answer is not None:
                self.fitting |= bit
        except Failure as failure:
            self.failing |= bit if failure.fatal else 0
        return LOOKING + (READING + devices if is_new else 0)

    def _go_on(self, name: str, solving: Solving, work: int) -> int:
        """Go on with one node's search; returns the work it took."""
        before, bit = solving.work, 1 << self.inventory.numbers[name]
        try:
            if solving.run(work):
                self._solving = None
                if solving.answer is not None:
                    if solving.problem.view.has_many_terms:
                        allocation_results(solving.problem, solving.answer, repeat(""))
                    self.fitting |= bit
            elif solving.work >= self._limit:
                self._solving = None
                self.unsure |= bit
        except Failure as failure:
            self._solving = None
            self.failing |= bit if failure.fatal else 0
        return solving.work - before

    @property
    def first(self) -> str | None:
        """The first node that fits, or whose error ends the attempt."""
        mask = self.fitting | self.failing
        return self.inventory.names[(mask & -mask).bit_length() - 1] if mask else None

    def names(self) -> Iterator[str]:
        """All nodes that fit, in order."""
        mask = self.fitting
        while mask:
            low = mask & -mask
            yield self.inventory.names[low.bit_length() - 1]
            mask ^= low
