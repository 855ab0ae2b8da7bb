"""Pods that found no place, and what would give them one: only what may help makes them be looked at again.

A Pod that is being looked at is parked for everything, so that no change that arrives meanwhile is missed.
"""

from collections.abc import Iterable, Mapping, Sequence

from headrace.api.objects import Fields, key_of, metadata
from headrace.scheduling.neighbours import KEEPS_AWAY, KEPT_AWAY, NOT_BESIDE, NOT_SPREAD

AMOUNTS, DEVICES, NEIGHBOURS = "amounts", "devices", "neighbours"
EVERYTHING = frozenset({AMOUNTS, DEVICES, NEIGHBOURS})
DEVICE_WORDS = ("cannot allocate all claims", "search gave up", "invalid resource pools", "resourceclaim not available")
NEIGHBOUR_WORDS = (NOT_SPREAD, NOT_BESIDE, KEEPS_AWAY, KEPT_AWAY)


class Parked:
    """Bounded by the Pods that wait."""

    def __init__(self) -> None:
        self._wants: dict[str, frozenset[str]] = {}
        self._order: dict[str, tuple[int, str, str]] = {}

    def put(self, pod: Fields, wants: frozenset[str]) -> None:
        key = key_of(pod)
        self._wants[key] = wants
        self._order[key] = order(pod)

    def drop(self, key: str) -> None:
        self._wants.pop(key, None)
        self._order.pop(key, None)

    def waiting_for(self, what: str) -> list[str]:
        """By priority, then age."""
        found = [key for key, wants in self._wants.items() if what in wants]
        return sorted(found, key=self._order.__getitem__)

    def all(self) -> list[str]:
        return sorted(self._wants, key=self._order.__getitem__)


def wants(reasons: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """What could change these nodes' refusals. A change of the nodes themselves helps any Pod."""
    told = [reason for each in reasons.values() for reason in each]
    return frozenset(_want(reason) for reason in told)


def _want(reason: str) -> str:
    if reason.startswith(NEIGHBOUR_WORDS):
        return NEIGHBOURS
    return DEVICES if reason.startswith(DEVICE_WORDS) else AMOUNTS


def order(pod: Fields) -> tuple[int, str, str]:
    """Higher priority first, then older ones."""
    priority = (pod.get("spec") or {}).get("priority") or 0
    return (-priority, str(metadata(pod).get("creationTimestamp", "")), key_of(pod))


def claims_named(pod: Fields, names: Iterable[str | None]) -> list[str]:
    """Keys of the claims of a Pod's namespace."""
    namespace = metadata(pod).get("namespace", "")
    return [f"{namespace}/{name}" for name in names if name]
