"""A namespace that is being deleted: its Pods go first, then all else, then its finalizer; nothing is forgotten.

What is in it is listed from the store, not from a cache: one that is behind would let content survive its namespace.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.api.kinds import NAMESPACE, POD, Kind
from headrace.api.objects import Object
from headrace.api.times import to_time
from headrace.runtime.actions import Action, Again, Delete, Patch
from headrace.store.protocol import Deletion, Preconditions

FINALIZER = "kubernetes"
AGAIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Content:
    kind: Kind
    name: str
    uid: str
    deleting: bool = False
    finalizers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """A namespace with deletionTimestamp. `counts`: what is left by resource, more than `content` where it was cut."""

    namespace: Object
    content: tuple[Content, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


def plan(seen: Seen, now: float) -> tuple[Action, ...]:
    metadata = seen.namespace["metadata"]
    name, version = metadata["name"], metadata["resourceVersion"]
    if not seen.counts:
        finalizers = (seen.namespace.get("spec") or {}).get("finalizers") or []
        if FINALIZER not in finalizers:
            return ()
        left = [each for each in finalizers if each != FINALIZER]
        return (Patch(NAMESPACE, "", name, {"spec": {"finalizers": left or None}}, version, "finalize"),)
    # While Pods end they may still need what is beside them; Kubernetes waits for them too (CVE-2024-7598).
    turn = [each for each in seen.content if each.kind == POD] if POD.resource in seen.counts else seen.content
    deletes = [
        Delete(each.kind, name, each.name, Deletion(Preconditions(uid=each.uid), propagation="Background"))
        for each in turn
        if not each.deleting
    ]
    told = conditions(seen, now)
    actions: list[Action] = [*deletes, Again(AGAIN_SECONDS)]
    if told != _current(seen.namespace):
        fields = {"status": {"conditions": told}}
        actions.append(Patch(NAMESPACE, "", name, fields, version, "status", strategic=True))
    return tuple(actions)


def conditions(seen: Seen, now: float) -> list[Mapping[str, str]]:
    """Why it is still there, as kube-controller-manager words it."""
    counts = ", ".join(f"{resource} has {count} resource instances" for resource, count in sorted(seen.counts.items()))
    by_finalizer: dict[str, int] = {}
    for each in seen.content:
        for finalizer in each.finalizers:
            by_finalizer[finalizer] = by_finalizer.get(finalizer, 0) + 1
    held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(by_finalizer.items()))
    told = [
        ("NamespaceContentRemaining", "SomeResourcesRemain", f"Some resources are remaining: {counts}"),
        (
            "NamespaceFinalizersRemaining",
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {held}",
        )
        if held
        else ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
    ]
    since = {each["type"]: each for each in _current(seen.namespace)}
    made: list[Mapping[str, str]] = []
    for type, reason, message in told:
        status = "False" if reason == "ContentHasNoFinalizers" else "True"
        before = since.get(type)
        at = before["lastTransitionTime"] if before and before["status"] == status else to_time(now)
        made.append({"type": type, "status": status, "reason": reason, "message": message, "lastTransitionTime": at})
    return made


def _current(namespace: Object) -> list[Mapping[str, str]]:
    ours = ("NamespaceContentRemaining", "NamespaceFinalizersRemaining")
    found = (namespace.get("status") or {}).get("conditions") or []
    return sorted((each for each in found if each.get("type") in ours), key=lambda each: ours.index(each["type"]))
