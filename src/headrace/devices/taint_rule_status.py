"""What a DeviceTaintRule does, told in its status: the condition EvictionInProgress (pure).

Source: KEP-5055, the device taint eviction controller of kube-controller-manager 1.37.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.api.kinds import DEVICE_TAINT_RULE
from headrace.api.objects import Fields, Object, metadata, name_of, namespace_of, version_of
from headrace.api.times import to_time
from headrace.runtime.actions import Action, Patch

CONDITION = "EvictionInProgress"


@dataclass(frozen=True, slots=True)
class Seen:
    """`pending`: the Pods that the rule evicts, or would with effect NoExecute; `evicted`: how many it has so far.

    `published`, `allocated`: how many devices it selects.
    """

    rule: Object
    pending: Sequence[Object] = ()
    evicted: int = 0
    published: int = 0
    allocated: int = 0


def plan(seen: Seen, now: float) -> tuple[Action, ...]:
    rule = seen.rule
    known = next(
        (each for each in (rule.get("status") or {}).get("conditions") or () if each.get("type") == CONDITION), None
    )
    generation = int(metadata(rule).get("generation") or 0)
    if _effect(rule) == "None" and known is not None and known.get("observedGeneration") == generation:
        return ()  # a survey is made once, as the message says
    status, reason, message = _told(seen)
    wanted = {"type": CONDITION, "status": status, "reason": reason, "message": message}
    wanted_all = {**wanted, "observedGeneration": generation}
    if known is not None and all(known.get(part) == value for part, value in wanted_all.items()):
        return ()
    turned = known is None or known.get("status") != status
    stamp = to_time(now) if turned or known is None else str(known.get("lastTransitionTime"))
    fields = {"status": {"conditions": [{**wanted_all, "lastTransitionTime": stamp}]}}
    return (Patch(DEVICE_TAINT_RULE, "", name_of(rule), fields, version_of(rule), "status"),)


def _told(seen: Seen) -> tuple[str, str, str]:
    pods = _counted(len(seen.pending), "pod needs", "pods need")
    namespaces = _counted(len({namespace_of(each) for each in seen.pending}), "namespace", "different namespaces")
    done = f"{_counted(seen.evicted, 'pod', 'pods')} evicted since starting the controller." if seen.evicted else ""
    match _effect(seen.rule):
        case "NoExecute" if seen.pending:
            return "True", "PodsPendingEviction", f"{pods} to be evicted in {namespaces}. {done}".rstrip()
        case "NoExecute":
            return "False", "Completed" if seen.evicted else "NotStarted", done
        case "None":
            published = _counted(seen.published, "published device", "published devices")
            allocated = _counted(seen.allocated, "allocated device", "allocated devices")
            would = f"{_counted(len(seen.pending), 'pod', 'pods')} would be evicted in {namespaces}"
            return (
                "False",
                "NoEffect",
                f"{published} selected. {allocated} selected. {would} if the effect was NoExecute. This information "
                "will not be updated again. Recreate the DeviceTaintRule to trigger an update.",
            )
    return "False", "OtherEffect", f"Eviction only happens for the NoExecute effect. {done}".rstrip()


def _effect(rule: Fields) -> str:
    return str(((rule.get("spec") or {}).get("taint") or {}).get("effect", ""))


def _counted(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"
