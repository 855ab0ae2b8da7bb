"""One answer for all nodes that look alike, written down with the names of each node's own devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.devices.allocate.device import Slice
from headrace.devices.allocate.partial import Partial, Pick
from headrace.devices.allocate.requests import Demand
from headrace.devices.allocate.results import config_of, result_of, this_node


class Outline:
    """The slices are those of the node the answer was found on; other nodes have as many, with as many devices."""

    __slots__ = ("_claims", "_demand", "_is_plain")

    def __init__(self, demand: Demand, answer: Partial, slices: Sequence[Slice]) -> None:
        self._demand = demand
        places = [(number, index) for number, each in enumerate(slices) for index in range(len(each.attributes))]
        self._claims: list[list[tuple[Pick, int, int]]] = [[] for _ in demand.claims]
        for pick in answer.path():
            self._claims[pick.want.claim].append((pick, *places[pick.index]))

    def results(self, node: str, slices: Sequence[Slice]) -> list[dict[str, Any]]:
        """One AllocationResult for each claim, in order."""
        found = []
        for claim, places in zip(self._demand.claims, self._claims, strict=True):
            devices: dict[str, Any] = {}
            if places:
                devices["results"] = [
                    result_of(pick.want, each.driver, each.pool, each.spec["devices"][index].get("name") or "")
                    for pick, number, index in places
                    for each in (slices[number],)
                ]
            config = config_of(claim, [pick for pick, _, _ in places])
            if config:
                devices["config"] = config
            found.append({"devices": devices, "nodeSelector": this_node(node)} if places else {"devices": devices})
        return found
