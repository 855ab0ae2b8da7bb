"""How many Pods of a PodDisruptionBudget may be evicted now: told in its status, by which the API judges evictions.

Source: the disruption controller of kube-controller-manager 1.37.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.api.kinds import POD_DISRUPTION_BUDGET
from headrace.api.objects import Fields, Object, metadata, name_of, namespace_of, uid_of, version_of
from headrace.api.times import past, to_time
from headrace.runtime.actions import Action, Again, Event, Patch

EVICTED_SECONDS = 120.0  # an evicted Pod that is still there after this time was not deleted, and counts again
CONDITION = "DisruptionAllowed"
ALLOWED, NOT_ALLOWED, FAILED = "SufficientPods", "InsufficientPods", "SyncFailed"
UNMANAGED = (
    "Pods selected by this PodDisruptionBudget were found to be unmanaged. As a result, the status of the PDB cannot "
    "be calculated correctly, which may result in undefined behavior. To account for these pods please set "
    '".spec.minAvailable" field of the PDB to an integer value.'
)


@dataclass(frozen=True, slots=True)
class Seen:
    """`pods`: those that the budget selects. `scales`: by the uid of a Pod's controller, who decides how many such Pods
    there should be (a uid), and how many; one that is not known is missing."""

    budget: Object
    pods: Sequence[Object] = ()
    scales: Mapping[str, tuple[str, int]] = field(default_factory=dict)


def plan(seen: Seen, now: float) -> tuple[Action, ...]:
    disrupted = _disrupted(seen, now)
    expected, desired, events = _expected(seen)
    healthy = sum(is_healthy(each) and name_of(each) not in disrupted for each in seen.pods)
    allowed = max(0, healthy - desired) if expected else 0
    reason = FAILED if expected is None else ALLOWED if allowed else NOT_ALLOWED
    status = _status(seen.budget)
    numbers = {"disruptionsAllowed": allowed}
    if expected is not None:
        numbers |= {"currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": expected}
    generation = int(metadata(seen.budget).get("generation") or 0)
    before: Fields = status.get("disruptedPods") or {}
    again = [Again(max(0.0, EVICTED_SECONDS - (now - past(at, now))) + 1.0) for at in disrupted.values()]
    if (
        all(status.get(name, 0) == value for name, value in numbers.items())
        and before == disrupted
        and status.get("observedGeneration", 0) == generation
        and _reason(seen.budget) == reason
    ):
        return tuple(again)
    gone = {name: None for name in before if name not in disrupted}
    told: dict[str, Any] = {
        **numbers,
        "observedGeneration": generation,
        "disruptedPods": {**gone, **disrupted},
        "conditions": _conditions(seen.budget, reason, generation, now),
    }
    budget = seen.budget
    where = namespace_of(budget), name_of(budget)
    patch = Patch(POD_DISRUPTION_BUDGET, *where, {"status": told}, version_of(budget), "status")
    return (patch, *events, *again)


def _expected(seen: Seen) -> tuple[int | None, int, tuple[Event, ...]]:
    """How many Pods there should be (None: nobody knows), how many of them healthy, and what is to be said of it."""
    spec: Fields = seen.budget.get("spec") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    nobody = (_event(seen, "Normal", "NoPods", "No matching pods found"),) if not seen.pods else ()
    if most is None and isinstance(least, int):
        return len(seen.pods), least, nobody
    if most is None and least is None:
        return 0, 0, nobody
    scales: dict[str, int] = {}
    unmanaged: tuple[Event, ...] = ()
    for pod in seen.pods:
        controller = controller_of(pod)
        if controller is None:
            unmanaged = (_event(seen, "Warning", "UnmanagedPods", UNMANAGED),)
            continue
        found = seen.scales.get(str(controller.get("uid")))
        if found is None:
            why = f'Failed to calculate the number of expected pods: found no controllers for pod "{name_of(pod)}"'
            return None, 0, (_event(seen, "Warning", "CalculateExpectedPodCountFailed", why),)
        scales[found[0]] = found[1]
    expected = sum(scales.values())
    if most is not None:
        return expected, max(0, expected - _scaled(most, expected)), (*nobody, *unmanaged)
    return expected, _scaled(least, expected), (*nobody, *unmanaged)


def _scaled(value: Any, whole: int) -> int:
    """A number, or a share in percent, rounded up."""
    return -(-int(value.removesuffix("%")) * whole // 100) if isinstance(value, str) else int(value)


def _disrupted(seen: Seen, now: float) -> dict[str, str]:
    """Pods whose eviction was allowed and that do not leave yet, by name, and since when."""
    known: Mapping[str, str] = _status(seen.budget).get("disruptedPods") or {}
    staying = [name_of(each) for each in seen.pods if not metadata(each).get("deletionTimestamp")]
    return {name: known[name] for name in staying if name in known and now - past(known[name], now) <= EVICTED_SECONDS}


def is_healthy(pod: Fields) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    is_ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    return is_ready and not metadata(pod).get("deletionTimestamp")


def controller_of(obj: Fields) -> Fields | None:
    return next((each for each in metadata(obj).get("ownerReferences") or () if each.get("controller")), None)


def _conditions(budget: Object, reason: str, generation: int, now: float) -> list[dict[str, Any]]:
    kept = [dict(each) for each in _status(budget).get("conditions") or ()]
    status = "True" if reason == ALLOWED else "False"
    known = next((each for each in kept if each.get("type") == CONDITION), {})
    since = known.get("lastTransitionTime") if known.get("status") == status else to_time(now)
    told = {"type": CONDITION, "status": status, "reason": reason, "message": "", "lastTransitionTime": since}
    return [each for each in kept if each is not known] + [{**told, "observedGeneration": generation}]


def _reason(budget: Object) -> str:
    conditions = _status(budget).get("conditions") or ()
    return next((str(each.get("reason")) for each in conditions if each.get("type") == CONDITION), "")


def _status(budget: Object) -> Fields:
    found: Fields = budget.get("status") or {}
    return found


def _event(seen: Seen, type: Literal["Normal", "Warning"], reason: str, message: str) -> Event:
    budget = seen.budget
    where = namespace_of(budget), name_of(budget)
    return Event(POD_DISRUPTION_BUDGET, *where, uid_of(budget), type, reason, message)
