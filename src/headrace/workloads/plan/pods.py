"""Pods nobody will ever remove: of a node that is gone, deleted before they were bound, too many that ended."""

from dataclasses import dataclass

from headrace.api.kinds import POD
from headrace.runtime.actions import Action, Again, Delete
from headrace.store.protocol import Deletion, Preconditions

KEPT_TERMINATED = 1000  # kube-controller-manager keeps 12,500, sized for clusters
ORPHANED_SECONDS = 40.0  # a node that is re-created within this time keeps its Pods
LOOK_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Listed:
    """`orphaned_seconds`: how long its node has been missing (monotonic), None while the node is there or unset."""

    namespace: str
    name: str
    uid: str
    created_at: float
    terminated: bool = False
    deleting: bool = False
    bound: bool = False
    orphaned_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    pods: tuple[Listed, ...]


def plan(seen: Seen, now: float) -> tuple[Action, ...]:
    del now
    terminated = sorted(
        (pod for pod in seen.pods if pod.terminated and not pod.deleting),
        key=lambda pod: (pod.created_at, pod.namespace, pod.name),
    )
    surplus = set(terminated[: max(0, len(terminated) - KEPT_TERMINATED)])
    going = [
        pod
        for pod in seen.pods
        if pod in surplus
        or (pod.orphaned_seconds is not None and pod.orphaned_seconds >= ORPHANED_SECONDS)
        or (pod.deleting and not pod.bound)
    ]
    return (*(_delete(pod) for pod in going), Again(LOOK_SECONDS))


def _delete(pod: Listed) -> Delete:
    """At once: no agent is there that could confirm it."""
    return Delete(POD, pod.namespace, pod.name, Deletion(Preconditions(uid=pod.uid), grace_seconds=0))
