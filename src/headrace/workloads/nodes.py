"""Runs the node lifecycle's plan: listens to Leases, and measures silence and taints by the monotonic clock.

A restarted controller begins to count anew: it has not heard the node being silent.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.api.kinds import LEASE, NODE, POD
from headrace.api.objects import Object, name_of, namespace_of, uid_of, version_of
from headrace.runtime.actions import Action
from headrace.runtime.cache import Informers
from headrace.runtime.clock import Clock
from headrace.runtime.controller import Source
from headrace.runtime.perform import Writing
from headrace.store.protocol import Refused
from headrace.workloads.plan.nodes import Bound, Seen, plan

BY_NODE = "node name"
LEASES = "kube-node-lease"
ENDED = ("Succeeded", "Failed")


@dataclass(slots=True)
class _Heard:
    """What was last heard of a node, and when (monotonic seconds); when each of its taints was first seen."""

    renewed: str
    at: float
    taints: dict[str, float]


class NodeLifecycle:
    """A key is a node's name."""

    name = "node-lifecycle"

    def __init__(self, informers: Informers, clock: Clock) -> None:
        self._clock = clock
        self._nodes, self._leases, self._pods = informers.of(NODE), informers.of(LEASE), informers.of(POD)
        self._pods.add_index(BY_NODE, bound_to)
        self._heard: dict[str, _Heard] = {}
        self.sources: Sequence[Source] = (
            Source(self._nodes, self._node_changed),
            Source(self._leases, self._lease_changed),
            Source(self._pods, self._tainted_node_of_new_pod),
        )

    def _node_changed(self, before: Object | None, after: Object | None) -> Iterable[str]:
        if before is not None and (after is None or uid_of(after) != uid_of(before)):
            self._heard.pop(name_of(before), None)  # of another node under its name nothing was heard yet
        return (name_of(after),) if after is not None else ()

    def _tainted_node_of_new_pod(self, before: Object | None, after: Object | None) -> Iterable[str]:
        """A Pod that has just been bound may have to leave again, where there is a taint."""
        if after is None or (before is not None and tuple(bound_to(before)) == tuple(bound_to(after))):
            return ()
        nodes = (self._nodes.get(name) for name in bound_to(after))
        return [name_of(node) for node in nodes if node is not None and (node.get("spec") or {}).get("taints")]

    def _lease_changed(self, before: Object | None, after: Object | None) -> Iterable[str]:
        """Heard of at once, so that a look that comes late does not take the node for silent."""
        if after is None or namespace_of(after) != LEASES or name_of(after) not in self._heard:
            return ()
        heard, renewed = self._heard[name_of(after)], _renewed(after)
        if heard.renewed == renewed:
            return ()
        heard.renewed, heard.at = renewed, self._clock.monotonic()
        return ()

    async def observe(self, key: str) -> Seen | None:
        node = self._nodes.get(key)
        if node is None:
            return None
        now, lease = self._clock.monotonic(), self._leases.get(f"{LEASES}/{key}")
        renewed = _renewed(lease) if lease is not None else ""
        heard = self._heard.setdefault(key, _Heard(renewed, now, {}))
        spec, status = node.get("spec") or {}, node.get("status") or {}
        taints = tuple(spec.get("taints") or ())
        names = {str(each.get("key")) for each in taints if each.get("effect") == "NoExecute"}
        heard.taints = {name: heard.taints.get(name, now) for name in names}
        return Seen(
            key,
            uid_of(node),
            version_of(node),
            tuple(status.get("conditions") or ()),
            taints,
            silent_seconds=now - heard.at,
            tainted_seconds={name: now - since for name, since in heard.taints.items()},
            pods=tuple(_bound(pod) for pod in self._pods.indexed(BY_NODE, key) if _is_staying(pod)),
        )

    def plan(self, seen: Seen, now: float) -> tuple[Action, ...]:
        return plan(seen, now)

    def refused(self, key: str, seen: Seen, action: Writing, refusal: Refused, now: float) -> tuple[Action, ...]:
        raise AssertionError(f"{key}: judging a node asks for no capacity, yet the ledger refused: {refusal}")


def bound_to(pod: Object) -> Iterable[str]:
    """The name of the node a Pod is bound to, if any: an index function."""
    node = (pod.get("spec") or {}).get("nodeName")
    return (str(node),) if node else ()


def _renewed(lease: Object) -> str:
    return str((lease.get("spec") or {}).get("renewTime") or "")


def _is_staying(pod: Object) -> bool:
    ended = (pod.get("status") or {}).get("phase") in ENDED
    return not ended and not (pod.get("metadata") or {}).get("deletionTimestamp")


def _bound(pod: Object) -> Bound:
    tolerations = tuple((pod.get("spec") or {}).get("tolerations") or ())
    return Bound(namespace_of(pod), name_of(pod), uid_of(pod), tolerations)
