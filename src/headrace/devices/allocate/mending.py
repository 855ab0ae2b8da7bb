"""Selectors that end in an error on a device without some attribute, and a form of each that asks first (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from headrace.devices.allocate.allocator import Failed, Search
from headrace.devices.allocate.inventory import Inventory
from headrace.devices.allocate.requests import text_of

Json = Mapping[str, Any]

WORK = 50_000
MENDINGS = 8
_MISSING = re.compile(r"no such key: (\w+)")
_PATH = r'device\.(?:attributes|capacity)(?:\["[^"]+"\]|\.\w+)\.{key}\b'


@dataclass(frozen=True, slots=True)
class Mending:
    """The selector as it should be; `error` is what it ends in as it is."""

    claim: str
    request: str
    number: int
    expression: str
    error: str

    def lines(self) -> Iterator[str]:
        yield f"{self.error}"
        yield f"would not fail: claim {self.claim}, request {self.request}, selector #{self.number}: {self.expression}"


def mended(expression: str, key: str) -> str | None:
    """The expression with `has(…)` before it for each way to this key; None if it does not name it like that."""
    paths = dict.fromkeys(re.findall(_PATH.format(key=re.escape(key)), expression))
    asked = [f"has({path})" for path in paths if f"has({path})" not in expression]
    if not asked:
        return None
    is_loose = "||" in expression or "?" in expression
    return " && ".join([*asked, f"({expression})" if is_loose else expression])


def mendings(node: Json, claims: Sequence[Json], inventory: Inventory) -> list[Mending]:
    """One for each selector of the claims that a search on the node fails at, as far as they can be mended."""
    found: list[Mending] = []
    now = list(claims)
    for _ in range(MENDINGS):
        search = Search(node, now, inventory, repeat(""), WORK)
        while (outcome := search.run()) is None:
            pass
        missing = _MISSING.search(outcome.error) if isinstance(outcome, Failed) else None
        if missing is None or not isinstance(outcome, Failed):
            break
        changed, better = _better(now, missing[1], outcome.error.splitlines()[0])
        if not better:
            break
        now, found = changed, [*found, *better]
    return found


def _better(claims: Sequence[Json], key: str, error: str) -> tuple[list[Json], list[Mending]]:
    found: list[Mending] = []
    changed: list[Json] = []
    for claim in claims:
        spec = claim.get("spec") or {}
        devices = spec.get("devices") or {}
        requests = [_request(text_of(claim), each, key, error, found) for each in devices.get("requests") or ()]
        changed.append({**claim, "spec": {**spec, "devices": {**devices, "requests": requests}}})
    return changed, found


def _request(claim: str, request: Json, key: str, error: str, found: list[Mending]) -> Json:
    name = str(request.get("name"))
    if request.get("exactly"):
        return {**request, "exactly": _wanted(claim, name, request["exactly"], key, error, found)}
    alternatives = [
        _wanted(claim, f"{name}/{each.get('name')}", each, key, error, found)
        for each in request.get("firstAvailable") or ()
    ]
    return {**request, "firstAvailable": alternatives}


def _wanted(claim: str, name: str, wanted: Json, key: str, error: str, found: list[Mending]) -> Json:
    selectors = []
    for number, selector in enumerate(wanted.get("selectors") or ()):
        better = mended(str((selector.get("cel") or {}).get("expression", "")), key)
        if better is not None:
            found.append(Mending(claim, name, number, better, error))
            selector = {"cel": {"expression": better}}
        selectors.append(selector)
    return {**wanted, "selectors": selectors} if selectors else wanted
