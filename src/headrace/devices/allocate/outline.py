"""One answer for all nodes that look alike, written down with the names of each node's own devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.devices.allocate.device import Slice
from headrace.devices.allocate.partial import Partial, Pick
from headrace.devices.allocate.requests import Claim, Demand
from headrace.devices.allocate.results import config_of, extras_of, this_node


class Outline:
    """The slices are those of the node the answer was found on; other nodes have as many, with as many devices."""

    __slots__ = ("_claims", "_only")

    def __init__(self, demand: Demand, answer: Partial, slices: Sequence[Slice]) -> None:
        places = [(number, index) for number, each in enumerate(slices) for index in range(len(each.attributes))]
        picked: list[list[Pick]] = [[] for _ in demand.claims]
        for pick in answer.path():
            picked[pick.want.claim].append(pick)
        self._claims = [
            (claim, picks, [(pick.want.full_name, *places[pick.index]) for pick in picks], _is_bare(claim, picks))
            for claim, picks in zip(demand.claims, picked, strict=True)
        ]
        # Request, slice and device of the only pick: most ask for no more, and a loop costs as much as all the rest.
        self._only: tuple[str, int, int] | None = None
        if len(self._claims) == 1 and len(picked[0]) == 1 and self._claims[0][3]:
            self._only = self._claims[0][2][0]

    def results(self, node: str, slices: Sequence[Slice]) -> list[dict[str, Any]]:
        """One AllocationResult for each claim, in order."""
        if self._only is not None:
            request, number, index = self._only
            one = slices[number]
            name = one.spec["devices"][index]["name"]
            only = {"request": request, "driver": one.driver, "pool": one.pool, "device": name}
            return [{"devices": {"results": [only]}, "nodeSelector": this_node(node)}]
        found = []
        for claim, picks, places, is_bare in self._claims:
            results = [
                {
                    "request": request,
                    "driver": (each := slices[number]).driver,
                    "pool": each.pool,
                    "device": each.spec["devices"][index]["name"],
                }
                for request, number, index in places
            ]
            devices: dict[str, Any] = {"results": results} if results else {}
            if not is_bare:
                for pick, result in zip(picks, results, strict=True):
                    result |= extras_of(pick.want)
                config = config_of(claim, picks)
                if config:
                    devices["config"] = config
            found.append({"devices": devices, "nodeSelector": this_node(node)} if results else {"devices": devices})
        return found


def _is_bare(claim: Claim, picks: Sequence[Pick]) -> bool:
    """Whether the results hold nothing but the devices' names."""
    return not claim.has_config and not any(extras_of(pick.want) for pick in picks)
