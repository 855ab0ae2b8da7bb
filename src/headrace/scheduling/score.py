"""How good a node is for a Pod: kube-scheduler's LeastAllocated, and how early its alternatives stand (pure)."""

from collections.abc import Iterable, Mapping, Sequence

from headrace.api.objects import Fields
from headrace.ledger.node import Ledger

ALTERNATIVES = 8
DEVICES_WEIGHT = 2  # of the DynamicResources plug-in, as kube-scheduler configures it


def score(ledger: Ledger, wanted: Mapping[str, int], resources: Iterable[str] = ("cpu", "memory")) -> int:
    """The mean share that would stay free, in percent."""
    shares = []
    for name in resources:
        allocatable = ledger.total.get(name, 0) - ledger.reserved.get(name, 0)
        if allocatable > 0:
            free = allocatable - ledger.allocated.get(name, 0) - wanted.get(name, 0)
            shares.append(100 * max(0, free) // allocatable)
    return sum(shares) // len(shares) if shares else 0


def has_alternatives(claims: Iterable[Fields]) -> bool:
    return any(request.get("firstAvailable") for claim in claims for request in _requests(claim))


def rank(claims: Sequence[Fields], results: Sequence[Fields]) -> int:
    """Higher the earlier the chosen alternatives stand in their lists."""
    found = 0
    for claim, allocation in zip(claims, results, strict=True):
        chosen = {str(each.get("request")) for each in (allocation.get("devices") or {}).get("results") or ()}
        for request in _requests(claim):
            for at, each in enumerate(request.get("firstAvailable") or ()):
                if f"{request.get('name')}/{each.get('name')}" in chosen:
                    found += ALTERNATIVES - at
    return found


def normalized(ranks: Mapping[str, int]) -> dict[str, int]:
    """As a share of the best, in percent, with the plug-in's weight."""
    best = max(ranks.values(), default=0)
    return {name: DEVICES_WEIGHT * (100 * found // best if best else 0) for name, found in ranks.items()}


def _requests(claim: Fields) -> Sequence[Fields]:
    found: Sequence[Fields] = ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ()
    return found
