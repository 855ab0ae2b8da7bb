"""Which of the nodes that fit have the devices: best first, in small slices, equal Pods from standing answers."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import orjson

from headrace.api.objects import Fields, Object
from headrace.devices.allocate.allocator import (
    WORK_AT_ONCE,
    WORK_IN_ALL,
    Allocated,
    Failed,
    GaveUp,
    Outcome,
    Search,
    Unsatisfiable,
)
from headrace.devices.allocate.inventory import Inventory
from headrace.devices.allocate.standing import UNFIT, Standing
from headrace.devices.allocate.why import report
from headrace.scheduling.kept import Offers
from headrace.scheduling.plan import Placement
from headrace.scheduling.score import has_alternatives, normalized, rank

EXPLAINED_NODES = 10  # on larger fleets the condition counts nodes, and `headrace explain` has the details
STANDING_FROM_NODES = 4
DEMANDS_KEPT = 32
UNSATISFIABLE = "cannot allocate all claims"


@dataclass(frozen=True, slots=True)
class Demand:
    """The claims to allocate, by name: what all nodes are asked, and what single ones are asked instead."""

    common: Mapping[str, Object]
    particular: Mapping[str, Mapping[str, Object]] = field(default_factory=dict)

    def on(self, node: str) -> Mapping[str, Object]:
        return self.particular.get(node, self.common)


class DeviceSearch:
    """`limit`: the work after which a search on one node gives up."""

    def __init__(
        self,
        inventory: Inventory,
        *,
        new_id: Callable[[], str],
        yield_now: Callable[[], Awaitable[None]],
        limit: int = WORK_IN_ALL,
    ) -> None:
        self._inventory, self._new_id, self._yield_now, self._limit = inventory, new_id, yield_now, limit
        self._standing: OrderedDict[bytes, Standing] = OrderedDict()

    async def search(
        self, offers: Offers, nodes: Mapping[str, Fields], demand: Demand
    ) -> tuple[Sequence[Placement], str]:
        """Answers the placements with what each node would give, as far as one had to look, and the error that ends
        the attempt everywhere."""
        standing = await self._standing_for(offers, demand)
        found: dict[str, Placement] = {}
        ranks: dict[str, int] = {}
        for _, node, each in offers.fitting:
            claims = demand.on(node)
            if not claims:
                found[node] = each
                continue
            if (fields := nodes.get(node)) is None:
                continue  # it went while others were searched
            if standing is not None and self._is_unfit(standing, node):
                outcome: Outcome = Unsatisfiable()
            else:
                outcome = await self._search(fields, list(claims.values()))
            if isinstance(outcome, Failed) and outcome.fatal:
                return offers.all(), outcome.error
            if not isinstance(outcome, Allocated):
                found[node] = replace(each, reasons=(self._words(outcome, len(nodes), fields, claims),))
                continue
            allocations = dict(zip(claims, outcome.results, strict=True))
            chosen = Placement(node, score=each.score, allocations=allocations, backing=each.backing)
            if not has_alternatives(claims.values()):
                return [chosen], ""  # the others stay unsearched: they fit no better, and one is enough
            found[node], ranks[node] = chosen, rank(list(claims.values()), outcome.results)
        for node, more in normalized(ranks).items():
            found[node] = replace(found[node], score=found[node].score + more)
        return [*found.values(), *offers.refusing], ""

    async def _search(self, node: Fields, claims: Sequence[Object]) -> Outcome:
        search = Search(node, claims, self._inventory, self._ids(), self._limit)
        while (outcome := search.run()) is None:
            await self._yield_now()
        return outcome

    async def _standing_for(self, offers: Offers, demand: Demand) -> Standing | None:
        """The answer for all nodes at once, where all are asked the same; None: it is not worth it."""
        if len(offers.fitting) < STANDING_FROM_NODES or demand.particular or not demand.common:
            return None
        claims = list(demand.common.values())
        key = orjson.dumps([(each.get("spec") or {}).get("devices") for each in claims])
        standing = self._standing.get(key)
        if standing is None:
            standing = self._standing[key] = Standing(self._inventory, claims, self._limit)
            if len(self._standing) > DEMANDS_KEPT:
                self._standing.popitem(last=False)
        self._standing.move_to_end(key)
        while not standing.run(WORK_AT_ONCE):
            await self._yield_now()
        return standing

    def _is_unfit(self, standing: Standing, node: str) -> bool:
        number = self._inventory.numbers.get(node)
        if number is None or number >= len(standing.verdicts) or standing.verdicts[number] != UNFIT:
            return False
        return not self._inventory.may_have_invalid_pool(node)  # which has words of its own

    def _words(
        self,
        outcome: Unsatisfiable | Failed | GaveUp,
        nodes: int,
        node: Fields,
        claims: Mapping[str, Object],
    ) -> str:
        match outcome:
            case Failed(error=error):
                return error
            case GaveUp(text=text):
                return text
        if nodes > EXPLAINED_NODES:
            return UNSATISFIABLE
        short = report(node, list(claims.values()), self._inventory, with_conflict=False).short()
        return f"{UNSATISFIABLE} ({short})" if short else UNSATISFIABLE

    def _ids(self) -> Iterator[str]:
        while True:
            yield self._new_id()
