"""Taints of nodes and the tolerations of Pods, as Kubernetes compares them."""

from collections.abc import Iterable, Sequence

from headrace.api.objects import Fields

KEEPS_AWAY = ("NoSchedule", "NoExecute")


def tolerates(toleration: Fields, taint: Fields) -> bool:
    """An empty key with Exists tolerates everything; an empty effect covers every effect."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")
        case _:
            return False


def untolerated(
    taints: Iterable[Fields], tolerations: Sequence[Fields], effects: Sequence[str] = KEEPS_AWAY
) -> Fields | None:
    """The first taint with one of these effects that no toleration covers."""
    for taint in taints:
        if taint.get("effect") in effects and not any(tolerates(each, taint) for each in tolerations):
            return taint
    return None
