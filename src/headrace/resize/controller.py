"""The ResourceManager: sees each node with its ledger and Pods, and runs the admission plan over them.

A key is a node's name, because who is admitted first is decided among all Pods of a node.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from headrace.api.amounts import Amounts, total
from headrace.api.kinds import CAPACITY_RESERVATION, NODE, POD
from headrace.api.objects import Object, metadata, name_of, uid_of
from headrace.ledger.legible import legible
from headrace.ledger.node import Ledger
from headrace.ledger.nodes import facts_of
from headrace.ledger.pods import charged
from headrace.ledger.reservations import reservation_of
from headrace.resize.plan import Candidate, Seen, Unenforced, desired, is_settled, plan, wishes
from headrace.resize.workload import is_leaving
from headrace.runtime.actions import Action, Patch
from headrace.runtime.cache import Informers
from headrace.runtime.controller import Source
from headrace.runtime.perform import Writing
from headrace.runtime.refusals import Refusal, Refusals
from headrace.store.protocol import Refused

BY_NODE = "node name"
WISHING = "node on which it wishes"
ENFORCEMENT_ANNOTATION = "headrace.dev/enforcement"

Wish = dict[str, dict[str, Amounts]]
Fingerprint = tuple[Ledger, int]


class _Enforcement(msgspec.Struct, frozen=True):
    cpu: str = "enforced"
    memory: str = "enforced"
    detail: str = ""


class ResourceManager:
    """What is remembered here (refusals, resizes under way) may be lost: the next look finds out again."""

    name = "resource-manager"

    def __init__(self, informers: Informers) -> None:
        self._pods, self._nodes = informers.of(POD), informers.of(NODE)
        self._reservations = informers.of(CAPACITY_RESERVATION)
        self._reservations.add_index(BY_NODE, reserved_on)
        self._pods.add_index(BY_NODE, bound_to)
        self._pods.add_index(WISHING, wishing_on)
        self._refusals: Refusals[Wish] = Refusals()
        self._ledgers: dict[str, Fingerprint] = {}
        self._completed: set[str] = set()
        self._told: set[str] = set()  # Pods that cannot be read
        self.sources: Sequence[Source] = (
            Source(self._pods, self._pod_changed),
            Source(self._nodes, self._node_changed),
            Source(self._reservations, self._reservation_changed),
        )

    def _pod_changed(self, before: Object | None, after: Object | None) -> Iterable[str]:
        if before is not None and (after is None or uid_of(after) != uid_of(before)):
            self._refusals.forget(uid_of(before))
            self._completed.discard(uid_of(before))
            self._told.discard(uid_of(before))
        elif before is not None and after is not None and is_settled(after) and not is_settled(before):
            self._completed.add(uid_of(after))
        return {node for pod in (before, after) if pod is not None for node in bound_to(pod)}

    def _node_changed(self, before: Object | None, after: Object | None) -> Iterable[str]:
        name = name_of(after or before or {})
        if after is None:
            self._refusals.ledger_changed(name)
            self._ledgers.pop(name, None)
            return ()
        return (name,)

    def _reservation_changed(self, before: Object | None, after: Object | None) -> Iterable[str]:
        return {node for each in (before, after) if each is not None for node in reserved_on(each)}

    async def observe(self, key: str) -> Seen | None:
        """None while nobody wishes anything: with many Pods, one of them changes all the time."""
        node = self._nodes.get(key)
        if node is None or not (self._completed or self._pods.indexed(WISHING, key)):
            return None
        bound = [legible(pod) for pod in self._pods.indexed(BY_NODE, key)]
        reserved = self._reservations.indexed(BY_NODE, key)
        ledger, facts = ledger_of(node, (pod for pod, _ in bound), reserved), facts_of(node)
        fingerprint = (ledger, facts.confirmed)
        if self._ledgers.get(key) != fingerprint:
            self._refusals.ledger_changed(key)
            self._ledgers[key] = fingerprint
        staying = [(pod, why) for pod, why in bound if not is_leaving(pod)]
        pods = tuple(self._candidate(pod) for pod, why in staying if not why)
        odd = tuple(Candidate(pod, unreadable=why) for pod, why in staying if why and uid_of(pod) not in self._told)
        self._told.update(uid_of(each.pod) for each in odd)
        return Seen(ledger, pods + odd, unenforced(node))

    def _candidate(self, pod: Object) -> Candidate:
        uid = uid_of(pod)
        self._told.discard(uid)
        refusal = self._refusals.of(uid)
        refused = refusal.message if refusal is not None and refusal.wish == desired(pod) else None
        completed = uid in self._completed
        self._completed.discard(uid)
        return Candidate(pod, refused, completed)

    def plan(self, seen: Seen, now: float) -> tuple[Action, ...]:
        return plan(seen, now)

    def refused(self, key: str, seen: Seen, action: Writing, refusal: Refused, now: float) -> tuple[Action, ...]:
        """Remembered: the next look tells it in the Pod's condition, and asks again when the ledger has changed."""
        if not isinstance(action, Patch):
            raise AssertionError(f"{key}: only an admission can be refused, not {action}") from refusal
        for candidate in seen.pods:
            pod = candidate.pod
            if name_of(pod) == action.name and metadata(pod).get("namespace") == action.namespace:
                self._refusals.remember(Refusal(uid_of(pod), key, desired(pod), str(refusal)))
        return ()


def ledger_of(node: Object, bound: Iterable[Object], reservations: Iterable[Object] = ()) -> Ledger:
    """The node's ledger as far as Pods, reservations and strays tell it. Raises InvalidQuantity."""
    facts = facts_of(node)
    holders: dict[str, Amounts] = dict(facts.strays)
    for pod in bound:
        held = charged(pod)
        if held is not None:
            holders[held.holder] = held.held()
    ledger = Ledger(facts.capacity, facts.reserved, holders, total(holders.values()), name_of(node))
    for each in reservations:
        found = reservation_of(each)
        ledger = ledger.record_floor(found.name, found.floor)
    return ledger


def unenforced(node: Object) -> Unenforced:
    """What the node's agent says that it cannot enforce. Text that is not an agent's says nothing."""
    text = (metadata(node).get("annotations") or {}).get(ENFORCEMENT_ANNOTATION)
    if not text:
        return {}
    try:
        told = msgspec.json.decode(str(text), type=_Enforcement)
    except msgspec.DecodeError:
        return {}
    found: dict[str, Any] = {"cpu": told.cpu, "memory": told.memory}
    return {name: told.detail or "not enforced there" for name, how in found.items() if how == "none"}


def bound_to(pod: Object) -> Iterable[str]:
    node = (pod.get("spec") or {}).get("nodeName")
    return (str(node),) if node else ()


def wishing_on(pod: Object) -> Iterable[str]:
    return bound_to(pod) if wishes(pod) else ()


def reserved_on(reservation: Object) -> Iterable[str]:
    return (str((reservation.get("spec") or {}).get("node")),)
