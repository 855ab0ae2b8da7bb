"""What must hold after every step. A step is a commit of the store, or a change of what runs on a node."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.api.kinds import CAPACITY_RESERVATION, RESIZE_POLICY, RESOURCE_CLAIM, RESOURCE_SCALING_ACTION
from headrace.api.objects import Object
from headrace.ledger.books import GUARDED, Books
from headrace.ledger.node import Ledger
from headrace.store.rows import Key, Write
from tests.simulation.harness.action_laws import ActionLaws
from tests.simulation.harness.containers import Container, Machine
from tests.simulation.harness.device_laws import DeviceLaws
from tests.simulation.harness.model import (
    RESOURCES,
    DepartedModel,
    NodeModel,
    PodModel,
    Two,
    node_model,
    pod_model,
    two,
)


class Violation(AssertionError):
    """A law does not hold. The message names the law and the state that breaks it."""


@dataclass(slots=True)
class Laws:
    """Witness of all commits. `machines` by node are the truth that no report can hide, `ledgers` what the guard holds,
    `last` what was committed, `wall` the clock of all.

    What is found in the middle of somebody's write is kept and raised by `check`, so that no caller can swallow it.
    """

    machines: Mapping[str, Machine]
    ledgers: Callable[[], Mapping[str, Ledger]]
    last: Mapping[Key, Object]
    wall: Callable[[], float]
    pods: dict[tuple[str, str], PodModel] = field(default_factory=dict)
    nodes: dict[str, NodeModel] = field(default_factory=dict)
    departed: list[DepartedModel] = field(default_factory=list)
    reservations: dict[tuple[str, str], tuple[str, Two]] = field(default_factory=dict)
    revision: int = 0
    commits: int = 0
    violations: list[Violation] = field(default_factory=list)
    alarm: asyncio.Event = field(default_factory=asyncio.Event)
    devices: DeviceLaws = field(init=False)
    actions: ActionLaws = field(init=False)

    def __post_init__(self) -> None:
        self.devices = DeviceLaws(self.broken, self._runs)
        self.actions = ActionLaws(self.broken, self.wall, self.last)

    def _runs(self, pod_uid: str) -> bool:
        return any(each.spec.pod_uid == pod_uid for machine in self.machines.values() for each in machine.running())

    def check(self) -> None:
        if self.violations:
            raise self.violations[0]

    def broken(self, message: str) -> None:
        self.violations.append(Violation(message))
        self.alarm.set()

    # After each commit

    def committed(self, write: Write, revision: int, before: Object | None) -> None:
        self.commits += 1
        if revision <= self.revision:
            self.broken(f"revisions only grow: {revision} after {self.revision} ({write.key})")
        self.revision = revision
        if write.key.resource == "pods":
            self._pod_committed(write, revision)
            self.actions.quota.pod_committed(write)
        elif write.key.resource == "nodes":
            self._node_committed(write)
        elif write.key.resource == CAPACITY_RESERVATION.resource:
            self._reservation_committed(write)
        elif write.key.resource == RESOURCE_CLAIM.resource:
            self.devices.claim_committed(write)
        elif write.key.resource == RESOURCE_SCALING_ACTION.resource:
            self.actions.action_committed(write, before)
        elif write.key.resource == RESIZE_POLICY.resource:
            self.actions.policy_committed(write)
        if write.key.resource in GUARDED:  # nothing else changes what anybody holds
            self.truth()

    def _pod_committed(self, write: Write, revision: int) -> None:
        key = (write.key.namespace, write.key.name)
        before = self.pods.pop(key, None)
        if write.body is None:
            if before is not None and before.is_charged and before.node in self.nodes:
                self._deleted(write, DepartedModel(revision, before))
            return
        after = self.pods[key] = pod_model(write.object)
        self.devices.pod_committed(write.object)
        if after.is_charged:
            self._no_admission_overcommits(key, before, after)

    def _no_admission_overcommits(self, key: tuple[str, str], before: PodModel | None, after: PodModel) -> None:
        """Law 1: only a fact may make available negative."""
        if after.node not in self.nodes:
            return
        same = before is not None and before.node == after.node and before.is_charged
        had = before.held() if before is not None and same else (0, 0)
        wish = after.wish(before if same else None)
        others = self.held_on(after.node, without=after.uid)
        for number, resource in enumerate(RESOURCES):
            left = self.nodes[after.node].allocatable[number] - others[number] - wish[number]
            if wish[number] > had[number] and left < 0:
                self.broken(
                    f"law 1: admitting {wish[number]} {resource} for {'/'.join(key)} (it held {had[number]}) leaves "
                    f"{left} available on {after.node}: others hold {others[number]}"
                )

    def _reservation_committed(self, write: Write) -> None:
        """Law 1 of reservations, which here are for nobody: they hold all that they are until they are deleted."""
        key = (write.key.namespace, write.key.name)
        before = self.reservations.pop(key, None)
        if write.body is None:
            return
        spec = write.object["spec"]
        node, floor = str(spec["node"]), two(spec["resources"])
        others = self.held_on(node)
        self.reservations[key] = (node, floor)
        if before is not None or node not in self.nodes:
            return
        for number, resource in enumerate(RESOURCES):
            left = self.nodes[node].allocatable[number] - others[number] - floor[number]
            if left < 0:
                self.broken(f"law 1: reserving {floor[number]} {resource} ({write.key}) leaves {left} on {node}")

    def _deleted(self, write: Write, departed: DepartedModel) -> None:
        if not write.confirmed:
            self.departed.append(departed)
            return
        for container in self.machines[departed.pod.node].running():
            if container.spec.pod_uid == departed.pod.uid:
                self.broken(f"release only after it ended: {write.key} is gone, and {container.spec.id} still runs")

    def _node_committed(self, write: Write) -> None:
        if write.body is None:
            self.nodes.pop(write.key.name, None)
            self.departed = [each for each in self.departed if each.pod.node != write.key.name]
            return
        node = self.nodes[write.key.name] = node_model(write.object)
        self.departed = [
            each for each in self.departed if each.pod.node != write.key.name or each.revision > node.confirmed
        ]

    def held_on(self, node: str, without: str = "") -> Two:
        models = [pod for pod in self.pods.values() if pod.is_charged and pod.node == node and pod.uid != without]
        models += [each.pod for each in self.departed if each.pod.node == node]
        held = [pod.held() for pod in models]
        held += [floor for where, floor in self.reservations.values() if where == node]
        return sum(cpu for cpu, _ in held), sum(memory for _, memory in held)

    def room_on(self, node: str) -> Two:
        held, has = self.held_on(node), self.nodes[node].allocatable
        return has[0] - held[0], has[1] - held[1]

    # After each change of what runs

    def truth(self) -> None:
        """Reserve before you grow, release after you have shrunk: nothing that headrace started runs with more than the
        books hold for it, by the objects as by the guard's own ledger."""
        ledgers = self.ledgers()
        for node, machine in self.machines.items():
            if node not in self.nodes:
                continue
            for container in machine.running():
                self._is_covered(node, container, ledgers.get(node))
                self.devices.is_covered(container.spec.pod_uid)

    def _is_covered(self, node: str, container: Container, ledger: Ledger | None) -> None:
        uid, name = container.spec.pod_uid, container.spec.container
        charged = [pod for pod in self.pods.values() if pod.uid == uid and pod.is_charged and pod.node == node]
        charged += [each.pod for each in self.departed if each.pod.uid == uid]
        if not charged:
            self.broken(f"{container.spec.id} of {container.spec.pod} runs on {node}, and nobody is charged for it")
            return
        model = charged[0].containers.get(name)
        if model is None or not charged[0].managed or container.drifted:
            return
        self._is_held(node, container.spec.pod, charged[0], ledger)
        held = (max(model.admitted[0], model.actual[0]), max(model.admitted[1], model.actual[1]))
        real = (container.limits.cpu_milli, container.limits.memory_bytes)
        for number, resource in enumerate(RESOURCES):
            amount = real[number]
            if model.limits[number] is not None and (amount is None or amount > held[number]):
                self.broken(
                    f"nothing runs beyond what is held: {container.spec.pod} {name} is limited to {amount} "
                    f"{resource} on {node}, and the books hold {held[number]}"
                )

    def _is_held(self, node: str, pod: str, model: PodModel, ledger: Ledger | None) -> None:
        """The guard holds at least the larger of what its containers have and what they are to have."""
        if ledger is None:
            return
        names = [name for name in ledger.holders if name == f"Pod {pod}" or name.startswith(f"Pod {pod} (")]
        for number, resource in enumerate(RESOURCES):
            most = max((ledger.holders[name].get(resource, 0) for name in names), default=0)
            if most < model.held()[number]:
                self.broken(
                    f"reserve before you grow: the guard holds {most} {resource} for Pod {pod} on {node}, "
                    f"which has or is to have {model.held()[number]}"
                )

    # Now and then

    def books_are_the_fold(self, books: Books, folded: Books) -> None:
        """Law 3."""
        for difference in books.difference(folded):
            self.broken(f"law 3: the books are not the fold of the objects: {difference}")

    def nothing_acknowledged_is_lost(self, stored: Mapping[Key, int], last: Mapping[Key, Object]) -> None:
        """Law 4: what was committed before the server was killed, and nothing else, is there after it."""
        expected = {key: int(obj["metadata"]["resourceVersion"]) for key, obj in last.items()}
        if dict(stored) != expected:
            different = {key: (stored.get(key), expected.get(key)) for key in stored.keys() | expected.keys()}
            lost = {key: pair for key, pair in different.items() if pair[0] != pair[1]}
            self.broken(f"law 4: after a kill these differ (stored, acknowledged): {lost}")
