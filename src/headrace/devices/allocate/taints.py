"""Device taints and the tolerations of a request; NoSchedule and NoExecute block, every other effect does not."""

from collections.abc import Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]


def tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Equal":
        return (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(operator == "Exists")


def blocking(taints: Sequence[Json], tolerations: Sequence[Json]) -> Json | None:
    """The first taint that keeps the device away from a request with these tolerations."""
    for taint in taints:
        if taint.get("effect") not in ("NoSchedule", "NoExecute"):
            continue
        if not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None
