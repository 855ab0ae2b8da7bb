"""Why a node cannot take a Pod: kube-scheduler's filters in its order and its words (pure).

Each filter answers the reasons of the first plug-in that refuses, as kube-scheduler stops at the first per node.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.api import node_selectors
from headrace.api.objects import Fields, metadata, name_of
from headrace.api.taints import untolerated
from headrace.ledger.node import Ledger, Shortfall

UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a Pod asks of any node: worked out once, asked of each. `amounts` includes one `pods`.

    `backed`: extended resources that a node need not have, since a class of devices stands for them.
    """

    key: str
    spec: Fields
    amounts: Mapping[str, int]
    ports: frozenset[tuple[str, str, int]]
    backed: frozenset[str] = frozenset()

    def amounts_on(self, ledger: Ledger) -> Mapping[str, int]:
        """Without what is served by devices there."""
        if not self.backed:
            return self.amounts
        served = self.served_on(ledger)
        return {name: amount for name, amount in self.amounts.items() if name not in served}

    def served_on(self, ledger: Ledger) -> list[str]:
        """The extended resources that are served by devices on this node: those that it does not offer itself."""
        return [name for name in sorted(self.backed) if ledger.total.get(name, 0) - ledger.reserved.get(name, 0) <= 0]

    @property
    def tolerations(self) -> Sequence[Fields]:
        found: Sequence[Fields] = self.spec.get("tolerations") or ()
        return found


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node with what its ledger says and which host ports its Pods use."""

    node: Fields
    ledger: Ledger
    ports: frozenset[tuple[str, str, int]] = frozenset()

    @property
    def name(self) -> str:
        return name_of(self.node)


def host_ports(spec: Fields) -> frozenset[tuple[str, str, int]]:
    """(hostIP, protocol, hostPort) of every container that asks for one and stays, sidecars among them."""
    sidecars = (each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always")
    return frozenset(
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])
        for container in (*sidecars, *(spec.get("containers") or ()))
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


def reasons(pod: Wanted, candidate: Candidate) -> tuple[str, ...]:
    """Empty when the node can take the Pod (devices apart)."""
    spec, node = pod.spec, candidate.node
    node_spec = node.get("spec") or {}
    if node_spec.get("unschedulable") and untolerated([UNSCHEDULABLE_TAINT], pod.tolerations):
        return ("node(s) were unschedulable",)
    if untolerated(node_spec.get("taints") or (), pod.tolerations):
        return ("node(s) had untolerated taint(s)",)
    if not matches_placement(spec, node):
        return ("node(s) didn't match Pod's node affinity/selector",)
    if ports_conflict(pod.ports, candidate.ports):
        return ("node(s) didn't have free ports for the requested pod ports",)
    return insufficient(pod, candidate.ledger)


def insufficient(pod: Wanted, ledger: Ledger) -> tuple[str, ...]:
    answer = ledger.admit(f"Pod {pod.key}", pod.amounts_on(ledger))
    if not isinstance(answer, Shortfall):
        return ()
    return tuple("Too many pods" if name == "pods" else f"Insufficient {name}" for name in sorted(answer.missing))


def matches_placement(spec: Fields, node: Fields) -> bool:
    """nodeSelector and required node affinity."""
    labels: Mapping[str, str] = metadata(node).get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return affinity is None or node_selectors.matches(affinity, node)


def ports_conflict(wanted: Iterable[tuple[str, str, int]], used: Iterable[tuple[str, str, int]]) -> bool:
    taken = list(used)
    return any(
        port == other_port and protocol == other_protocol and (address == other or "0.0.0.0" in (address, other))
        for address, protocol, port in wanted
        for other, other_protocol, other_port in taken
    )


def summary(refusals: Mapping[str, Sequence[str]]) -> str:
    """kube-scheduler's sentence: `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable.`"""
    counts: dict[str, int] = {}
    for each in refusals.values():
        for reason in each:
            counts[reason] = counts.get(reason, 0) + 1
    told = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    if not refusals:
        return "no nodes available to schedule pods"
    return f"0/{len(refusals)} nodes are available: {told}."
