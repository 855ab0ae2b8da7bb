"""Whether allocated devices may be bound: binding conditions of drivers that attach devices first (pure).

Source: KEP-5007. A device's conditions are told by its driver in the claim's status.devices.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.api.objects import Fields, name_of
from headrace.api.times import past

BINDING_TIMEOUT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Readiness:
    """`failure`: why the allocation is given back. Else it is ready, or the wait ends `until` (wall seconds)."""

    is_ready: bool = True
    failure: str = ""
    until: float = float("inf")


READY = Readiness()


def readiness(claims: Iterable[Fields], now: float) -> Readiness:
    """Of all claims together: one failure or time-out gives up, one that is not ready lets the Pod wait."""
    waiting = READY
    for claim in claims:
        found = _of_claim(claim, now)
        if found.failure:
            return found
        if not found.is_ready:
            waiting = Readiness(False, until=min(found.until, waiting.until))
    return waiting


def has_conditions(allocation: Fields) -> bool:
    results: Iterable[Fields] = (allocation.get("devices") or {}).get("results") or ()
    return any(each.get("bindingConditions") for each in results)


def _of_claim(claim: Fields, now: float) -> Readiness:
    allocation: Fields = (claim.get("status") or {}).get("allocation") or {}
    if not has_conditions(allocation):
        return READY
    is_ready = True
    for result in (allocation.get("devices") or {}).get("results") or ():
        if not result.get("bindingConditions"):
            continue
        told = _told(claim, result)
        for name in result.get("bindingFailureConditions") or ():
            failed = told.get(name)
            if failed is not None and failed.get("status") == "True":
                words = f"reason={failed.get('reason', '')}, message={failed.get('message', '')}"
                return Readiness(False, f"device binding failed: claim={name_of(claim)}, {words}")
        if any(told.get(name, {}).get("status") != "True" for name in result["bindingConditions"]):
            is_ready = False
    if is_ready:
        return READY
    stamp = allocation.get("allocationTimestamp")
    until = past(str(stamp), now) + BINDING_TIMEOUT_SECONDS if stamp else float("inf")
    if until < now:
        return Readiness(False, f"device binding timeout: claim={name_of(claim)}")
    return Readiness(False, until=until)


def _told(claim: Fields, result: Fields) -> dict[str, Fields]:
    """Conditions of the result's device by type."""
    for each in (claim.get("status") or {}).get("devices") or ():
        if all(each.get(part) == result.get(part) for part in ("driver", "pool", "device", "shareID")):
            return {str(condition.get("type")): condition for condition in each.get("conditions") or ()}
    return {}
