"""Which devices all allocated claims hold: whole devices, shares, and the capacity that shares consume.

Computed from the claims' allocation results alone; a result with admin access holds nothing.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from headrace.api.quantity import parse
from headrace.devices.allocate.device import DeviceID

Json = Mapping[str, Any]


class InUse:
    """Counts of holders by device, so that adding and removing a claim are each other's exact reverse.

    `by_pool` counts the results that hold anything, by their pool, and `versions` says when that changed last.
    """

    __slots__ = ("_changes", "by_pool", "consumed", "shares", "used", "versions")

    def __init__(self) -> None:
        self.used: dict[DeviceID, int] = {}
        self.shares: dict[DeviceID, int] = {}
        self.consumed: dict[DeviceID, dict[str, int]] = {}
        self.by_pool: dict[tuple[str, str], int] = {}
        self.versions: dict[tuple[str, str], int] = {}
        self._changes = 0

    def holds(self, device: DeviceID) -> bool:
        return device in self.used or device in self.shares or device in self.consumed

    def is_shared(self, device: DeviceID) -> bool:
        return device in self.shares or device in self.consumed

    def add(self, result: Json, *, with_shares: bool = True) -> DeviceID | None:
        """Count one allocation result; None if it holds nothing. `with_shares` is the gate ConsumableCapacity."""
        return self._change(result, 1, with_shares=with_shares)

    def remove(self, result: Json, *, with_shares: bool = True) -> DeviceID | None:
        return self._change(result, -1, with_shares=with_shares)

    def _change(self, result: Json, sign: int, *, with_shares: bool) -> DeviceID | None:
        if result.get("adminAccess"):
            return None
        device = (result.get("driver") or "", result.get("pool") or "", result.get("device") or "")
        if not all(device):
            return None  # Kubernetes finds no device by an empty name
        pool = device[:2]
        self._changes += 1
        self.versions[pool] = self._changes
        if not _count(self.by_pool, pool, sign):
            del self.versions[pool]
        if not with_shares or not (result.get("shareID") or result.get("capacityOnly")):
            _count(self.used, device, sign)
            return device
        if result.get("shareID"):
            _count(self.shares, device, sign)
        consumed = result.get("consumedCapacity")
        if consumed is not None:
            self._consume(device, consumed, sign)
        return device

    def _consume(self, device: DeviceID, consumed: Json, sign: int) -> None:
        total = self.consumed.setdefault(device, {})
        for name, amount in consumed.items():
            total[name] = total.get(name, 0) + sign * parse(str(amount)).nano
        if sign < 0 and not any(total.values()):
            del self.consumed[device]


def _count(counts: dict[Any, int], key: Hashable, sign: int) -> int:
    left = counts.get(key, 0) + sign
    if left:
        counts[key] = left
    else:
        counts.pop(key, None)
    return left


def results_of(claims: Iterable[Json]) -> Iterable[Json]:
    """The allocation results of claims that have an allocation."""
    for claim in claims:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        yield from (allocation.get("devices") or {}).get("results") or ()
