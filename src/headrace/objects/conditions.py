"""Conditions in a status: one of each type, with the time at which its status last changed."""

from typing import Any


def set_condition(status: dict[str, Any], condition: dict[str, Any], now: str) -> None:
    """Put a condition in the place of the one of its type; its time is that of the last change of its status."""
    conditions = [each for each in status.get("conditions") or () if each.get("type") != condition["type"]]
    before = next((each for each in status.get("conditions") or () if each.get("type") == condition["type"]), None)
    changed = before is None or before.get("status") != condition["status"]
    since = now if changed or before is None else before.get("lastTransitionTime", now)
    status["conditions"] = [*conditions, {**condition, "lastTransitionTime": since}]
