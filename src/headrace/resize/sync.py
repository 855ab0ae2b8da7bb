"""The states of a resize as tables: nothing moves along an arrow that is not here, and the docs draw them.

Source: the design "Dynamic Resource Scaling" (ResourceSyncState, Scaling Task State). Its RECONCILE is APPLYING with
the cause Drift; added is the way out of FAILED when the cause is gone.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

Sync = Literal["UNKNOWN", "PENDING", "APPLYING", "SYNCHRONIZED", "DRIFT_DETECTED", "FAILED"]
State = Literal["Pending", "Running", "Succeeded", "Failed"]

SYNC_NUMBERS: Final[Mapping[Sync, int]] = {
    "UNKNOWN": 0,
    "PENDING": 1,
    "APPLYING": 2,
    "SYNCHRONIZED": 3,
    "DRIFT_DETECTED": 4,
    "FAILED": 5,
}
"""As ResourceSyncState numbers them on the wire."""

SYNC: Final[Mapping[tuple[Sync, str], Sync]] = {
    ("UNKNOWN", "desired state recorded"): "PENDING",
    ("UNKNOWN", "desired equals actual"): "SYNCHRONIZED",
    ("PENDING", "admitted"): "APPLYING",
    ("PENDING", "desired equals actual"): "SYNCHRONIZED",
    ("PENDING", "rejected"): "FAILED",
    ("APPLYING", "desired equals actual"): "SYNCHRONIZED",
    ("APPLYING", "desired differs from actual"): "DRIFT_DETECTED",
    ("APPLYING", "update failed"): "FAILED",
    ("SYNCHRONIZED", "desired state recorded"): "PENDING",
    ("SYNCHRONIZED", "desired differs from actual"): "DRIFT_DETECTED",
    ("SYNCHRONIZED", "agent unavailable"): "FAILED",
    ("DRIFT_DETECTED", "reconcile"): "APPLYING",
    ("DRIFT_DETECTED", "desired equals actual"): "SYNCHRONIZED",
    ("DRIFT_DETECTED", "update failed"): "FAILED",
    ("FAILED", "cause gone"): "PENDING",
}
"""(from, why) -> to."""

STATES: Final[Mapping[tuple[State, str], State]] = {
    ("Pending", "started"): "Running",
    ("Pending", "nothing to do"): "Succeeded",
    ("Pending", "rejected"): "Failed",
    ("Running", "synchronized"): "Succeeded",
    ("Running", "failed"): "Failed",
    ("Failed", "cause gone"): "Pending",
}
"""The same of a ResourceScalingAction."""


def diagram(table: Mapping[tuple[State, str], State] | Mapping[tuple[Sync, str], Sync], first: str) -> Iterable[str]:
    """Lines of a Mermaid state diagram."""
    yield "stateDiagram-v2"
    yield f"    [*] --> {first}"
    for (start, why), end in table.items():
        yield f"    {start} --> {end}: {why}"
