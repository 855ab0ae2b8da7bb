"""What the scheduler knows of nodes and devices, kept by the informers' changes.

A placement that was decided is *assumed* until the caches show it, so that the next Pod is not promised the same room.
The guard of the store decides; an assumption only saves its refusals.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.api.amounts import total
from headrace.api.objects import Fields, Object, key_of, name_of, uid_of, version_of
from headrace.devices.allocate.in_use import results_of
from headrace.devices.allocate.inventory import Inventory
from headrace.devices.taint_rules import selects, tainted
from headrace.ledger.node import Ledger
from headrace.ledger.nodes import facts_of
from headrace.ledger.pods import charged
from headrace.ledger.reservations import reservation_of
from headrace.runtime.cache import Informer
from headrace.scheduling.extended import classes_by_resource
from headrace.scheduling.filters import Candidate, Wanted, host_ports

Ports = frozenset[tuple[str, str, int]]
NO_PORTS: Ports = frozenset()


@dataclass(frozen=True, slots=True)
class _Given:
    """Devices assumed to be a claim's since a Pod's placement; `version` is the claim's that was decided on."""

    pod: str
    version: str


class View:
    """Candidates with their ledgers, and the inventory of devices. Fed by `watch`; reads need no I/O."""

    def __init__(
        self,
        nodes: Informer,
        pods: Informer,
        claims: Informer,
        slices: Informer,
        classes: Informer,
        reservations: Informer,
        taint_rules: Informer,
    ) -> None:
        self.inventory = Inventory()
        self.class_of: Mapping[str, str] = {}  # extended resource to the class behind it
        self._claims, self._slices, self._rules = claims, slices, taint_rules
        self.nodes: dict[str, Object] = {}
        self.reserved: set[str] = set()  # nodes with reservations, whose room is not the same for all Pods
        self.epoch = self.changed = 0
        self._changes: dict[str, int] = {}  # by node, in order of the last change
        self._candidates: dict[str, Candidate] = {}
        self._ledgers: dict[str, Ledger] = {}
        self._ports: dict[str, dict[str, Ports]] = {}
        self._placed: dict[str, str] = {}
        self._assumed: dict[str, tuple[str, ...]] = {}  # Pods, and the claims that were given to them
        self._given: dict[str, _Given] = {}
        self._withheld: dict[str, tuple[Fields, ...]] = {}
        nodes.subscribe(self._node_changed)
        pods.subscribe(self._pod_changed)
        claims.subscribe(self._changed(self._put_claim, self.inventory.drop_claim, key_of))
        reservations.subscribe(self._reservation_changed)
        slices.subscribe(self._changed(self._put_slice, self.inventory.drop_slice, name_of))
        classes.subscribe(self._changed(self.inventory.put_class, self.inventory.drop_class, name_of))
        classes.subscribe(lambda before, after: self._classes_changed(classes))
        taint_rules.subscribe(self._rule_changed)

    def candidates(self) -> Iterator[Candidate]:
        for name in self.nodes:
            candidate = self.candidate(name)
            assert candidate is not None
            yield candidate

    def candidate(self, name: str) -> Candidate | None:
        """The node as it is now; the same object until it changes."""
        known = self._candidates.get(name)
        if known is None and (node := self.nodes.get(name)) is not None:
            ports = self._ports.get(name)
            used = NO_PORTS.union(*ports.values()) if ports else NO_PORTS
            known = self._candidates[name] = Candidate(node, self._ledgers[name], used)
        return known

    def changes_since(self, changed: int) -> Iterator[str]:
        """The nodes that changed since `changed` had that value, within one `epoch` (which ends when a node goes)."""
        for name in reversed(self._changes):
            if self._changes[name] <= changed:
                return
            yield name

    def _touch(self, name: str) -> None:
        self._candidates.pop(name, None)
        self._changes.pop(name, None)
        self.changed += 1
        self._changes[name] = self.changed

    def _put_ledger(self, name: str, ledger: Ledger) -> None:
        self._ledgers[name] = ledger
        if ledger.floors:
            self.reserved.add(name)
        else:
            self.reserved.discard(name)
        self._touch(name)

    def assume(self, pod: Wanted, node: str, allocations: Mapping[str, Fields]) -> None:
        """Count the Pod on the node, and its claims' devices as in use, until the caches say what is so."""
        self.forget(pod.key)
        self._assumed[pod.key] = tuple(allocations)
        ledger = self._ledgers.get(node)
        self._hold(pod.key, node, pod.amounts if ledger is None else pod.amounts_on(ledger), pod.ports)
        for claim, allocation in allocations.items():
            known = self._claims.get(claim)
            self._given[claim] = _Given(pod.key, version_of(known) if known is not None else "")
            self.inventory.hold(claim, results_of(({"status": {"allocation": allocation}},)))

    def forget(self, key: str) -> None:
        """The assumption about this Pod is over: it was refused, or it is looked at anew."""
        claims = self._assumed.pop(key, None)
        if claims is None:
            return
        self._release(key)
        for claim in claims:
            given = self._given.get(claim)
            if given is not None and given.pod == key:
                self._settle(claim, self._claims.get(claim))

    def withhold(self, results: Iterable[Fields], holder: str) -> None:
        """The guard says that these devices are somebody's, though no claim shows it: let go, and still in use."""
        self._withheld[holder] = (*self._withheld.get(holder, ()), *results)
        self.inventory.hold(holder, self._withheld[holder])

    def ask_again(self) -> bool:
        """Something was released: whether that may be what was withheld. The guard is asked for it anew."""
        withheld, self._withheld = self._withheld, {}
        for holder in withheld:
            self.inventory.hold(holder, ())
        return bool(withheld)

    def node_of(self, pod: str) -> str:
        """Where this Pod (by key) is, or is about to be; empty: nowhere."""
        return self._placed.get(pod, "")

    def is_given(self, claim: str, pod: str) -> bool:
        """Whether the claim is about to be allocated for another Pod."""
        given = self._given.get(claim)
        return given is not None and given.pod != pod

    def _settle(self, key: str, claim: Object | None) -> None:
        self._given.pop(key, None)
        if claim is None:
            self.inventory.drop_claim(key)
        else:
            self.inventory.put_claim(key, claim)

    # Changes that the informers tell

    def _node_changed(self, before: Object | None, after: Object | None) -> None:
        if after is None:
            assert before is not None
            name = name_of(before)
            for known in (self.nodes, self._candidates, self._changes):
                known.pop(name, None)
            self.epoch += 1
            self.inventory.drop_node(name)
            return
        facts = facts_of(after)
        name = name_of(after)
        self.nodes[name] = after
        self.inventory.put_node(after)
        old = self._ledgers.get(name)
        holders = {} if old is None else {k: v for k, v in old.holders.items() if not k.startswith("stray ")}
        holders.update(facts.strays)
        floors = old.floors if old is not None else {}
        allocated = total(holders.values())
        self._put_ledger(name, Ledger(facts.capacity, facts.reserved, holders, allocated, name, floors))

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        if before is not None and after is not None and uid_of(before) != uid_of(after):
            self._pod_changed(before, None)  # replaced while nobody watched
        pod = after if after is not None else before
        assert pod is not None
        key = key_of(pod)
        held = charged(after) if after is not None else None
        if held is None:
            if after is None or not self._is_pending(after):
                self.forget(key)
                self._release(key)
            return
        self._assumed.pop(key, None)  # what its claims were given is settled by the claims themselves
        self._hold(key, held.node, held.held(), host_ports(pod.get("spec") or {}))

    def _reservation_changed(self, before: Object | None, after: Object | None) -> None:
        for obj, remains in ((before, False), (after, True)):
            if obj is not None:
                found = reservation_of(obj)
                ledger = self._ledgers.get(found.node) or Ledger({}, {}, node=found.node)
                self._put_ledger(found.node, ledger.record_floor(found.name, found.floor if remains else None))

    @staticmethod
    def _is_pending(pod: Fields) -> bool:
        return not (pod.get("spec") or {}).get("nodeName")

    def _put_claim(self, claim: Object) -> None:
        key = key_of(claim)
        given = self._given.get(key)
        if given is not None and not _is_allocated(claim) and version_of(claim) == given.version:
            return  # the write that allocates it is on its way
        self._settle(key, claim)

    def _put_slice(self, resource_slice: Object) -> None:
        self.inventory.put_slice(name_of(resource_slice), tainted(resource_slice, self._rules))

    def _rule_changed(self, before: Object | None, after: Object | None) -> None:
        rules = [each for each in (before, after) if each is not None]
        for resource_slice in self._slices:
            if any(selects(rule, resource_slice) for rule in rules):
                self._put_slice(resource_slice)

    def _classes_changed(self, classes: Informer) -> None:
        self.class_of = classes_by_resource(classes)

    def _hold(self, key: str, node: str, amounts: Mapping[str, int], ports: Ports) -> None:
        self._release(key)
        ledger = self._ledgers.get(node) or Ledger({}, {}, node=node)
        self._placed[key] = node
        if ports:
            self._ports.setdefault(node, {})[key] = ports
        self._put_ledger(node, ledger.record(_holder(key), amounts))

    def _release(self, key: str) -> None:
        node = self._placed.pop(key, None)
        if node is not None:
            self._ports.get(node, {}).pop(key, None)
            self._put_ledger(node, self._ledgers[node].release(_holder(key)))

    @staticmethod
    def _changed(
        put: Callable[[Object], None], drop: Callable[[str], None], key: Callable[[Fields], str]
    ) -> Callable[[Object | None, Object | None], None]:
        def told(before: Object | None, after: Object | None) -> None:
            if after is not None:
                put(after)
            elif before is not None:
                drop(key(before))

        return told


def _is_allocated(claim: Fields) -> bool:
    return bool((claim.get("status") or {}).get("allocation"))


def _holder(key: str) -> str:
    return f"Pod {key}"
