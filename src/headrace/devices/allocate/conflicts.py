"""The smallest set of requirements that a node cannot meet together, and the nearest change that it could meet.

Found by leaving requirements out one at a time and searching again: what can be left out is not to blame.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from headrace.devices.allocate.allocator import Allocated, Search, Unsatisfiable
from headrace.devices.allocate.inventory import Inventory
from headrace.devices.allocate.requests import text_of

Json = Mapping[str, Any]

WORK = 50_000
TRIES = 200


@dataclass(frozen=True, slots=True)
class Conflict:
    """`requirements` cannot be met together; each of `changes` alone would do."""

    requirements: tuple[str, ...]
    changes: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        if len(self.requirements) > 1:
            yield "cannot be had together: " + "; ".join(self.requirements)
        elif self.requirements:
            yield f"cannot be had: {self.requirements[0]}"
        for change in self.changes:
            yield f"would do: {change}"


@dataclass(frozen=True, slots=True)
class _Part:
    """One requirement of one claim: a request, or a constraint."""

    claim: int
    field: str
    number: int

    def text(self, claims: Sequence[Json]) -> str:
        each = _devices(claims[self.claim])[self.field][self.number]
        where = f"claim {text_of(claims[self.claim])}"
        if self.field == "requests":
            return f"{where}, request {each.get('name')}"
        kind = "matchAttribute" if each.get("matchAttribute") is not None else "distinctAttribute"
        return f"{where}, constraint #{self.number} ({kind} {each.get(kind)})"


def conflict(node: Json, claims: Sequence[Json], inventory: Inventory) -> Conflict | None:
    """None if the claims can be met, an error is met, or the search gives up."""
    tries = _Tries(node, inventory)
    if tries.fits(claims) is not False:
        return None
    parts = [
        _Part(claim, field, number)
        for claim, each in enumerate(claims)
        for field in ("constraints", "requests")
        for number in range(len(_devices(each).get(field) or ()))
    ]
    blamed = list(parts)
    for part in parts:
        fewer = [each for each in blamed if each is not part]
        if tries.fits(_only(claims, fewer)) is False:
            blamed = fewer
    return Conflict(
        tuple(part.text(claims) for part in blamed),
        tuple(_changes(claims, parts, blamed, tries)),
    )


class _Tries:
    """Searches on one node, so many and no more."""

    def __init__(self, node: Json, inventory: Inventory) -> None:
        self.node, self.inventory, self.left = node, inventory, TRIES

    def fits(self, claims: Sequence[Json]) -> bool | None:
        if self.left == 0:
            return None
        self.left -= 1
        search = Search(self.node, claims, self.inventory, repeat(""), WORK)
        while (outcome := search.run()) is None:
            pass
        return True if isinstance(outcome, Allocated) else False if isinstance(outcome, Unsatisfiable) else None


def _devices(claim: Json) -> Json:
    devices: Json = (claim.get("spec") or {}).get("devices") or {}
    return devices


def _only(claims: Sequence[Json], parts: Sequence[_Part]) -> list[Json]:
    """The claims with just these parts. A reference to a request that is gone does no harm."""
    kept: list[Json] = []
    for claim, each in enumerate(claims):
        devices = dict(_devices(each))
        for field in ("requests", "constraints"):
            wanted = [part.number for part in parts if part.claim == claim and part.field == field]
            devices[field] = [one for number, one in enumerate(devices.get(field) or ()) if number in wanted]
        kept.append({**each, "spec": {**(each.get("spec") or {}), "devices": devices}})
    return kept


def _changes(claims: Sequence[Json], parts: Sequence[_Part], blamed: Sequence[_Part], tries: _Tries) -> Iterator[str]:
    for part in blamed:
        if part.field == "constraints":
            if tries.fits(_only(claims, [each for each in parts if each is not part])):
                yield f"without {part.text(claims)}"
            continue
        request = _devices(claims[part.claim])["requests"][part.number]
        exactly = request.get("exactly") or {}
        for count in range(int(exactly.get("count") or 0) - 1, 0, -1):
            if tries.fits(_with(claims, part, {**exactly, "count": count})):
                yield f"{part.text(claims)} with count {count}"
                break
        for number, selector in enumerate(exactly.get("selectors") or ()):
            fewer = [one for at, one in enumerate(exactly["selectors"]) if at != number]
            if tries.fits(_with(claims, part, {**exactly, "selectors": fewer})):
                expression = (selector.get("cel") or {}).get("expression")
                yield f"{part.text(claims)} without selector #{number} ({expression})"
        if exactly and tries.fits(_with(claims, part, {**exactly, "tolerations": [{"operator": "Exists"}]})):
            yield f"{part.text(claims)} with a toleration of the taints"


def _with(claims: Sequence[Json], part: _Part, exactly: Json) -> list[Json]:
    changed = list(claims)
    claim = claims[part.claim]
    requests = list(_devices(claim)["requests"])
    requests[part.number] = {**requests[part.number], "exactly": exactly}
    devices = {**_devices(claim), "requests": requests}
    changed[part.claim] = {**claim, "spec": {**claim["spec"], "devices": devices}}
    return changed
