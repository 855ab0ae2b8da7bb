"""The books: a fold over objects. There is no other record of who holds what.

The store's writer asks `apply` before it commits an object; that is the only door. A write is judged only by the growth
of what is admitted: what is so, is written down.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from headrace.api.amounts import Amounts, total
from headrace.api.kinds import CAPACITY_RESERVATION, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from headrace.api.objects import Object
from headrace.ledger.departed import Departed, departed_claim, departed_object, departed_pod, left_behind
from headrace.ledger.devices import ClaimFacts, Grant, Pool, PoolKey, Slice, slice_of
from headrace.ledger.journal import Journal
from headrace.ledger.node import Ledger, Shortfall
from headrace.ledger.nodes import NodeFacts, facts_of
from headrace.ledger.pods import Contribution, charged
from headrace.ledger.reservations import ReservationFacts, reservation_of

Key = tuple[str, str, str]
"""Resource, namespace and name of an object."""

GUARDED: Final = frozenset(kind.resource for kind in (POD, NODE, RESOURCE_CLAIM, RESOURCE_SLICE, CAPACITY_RESERVATION))
"""Resources that the books read; writes to others pass unseen."""


class Books:
    """Mutable, but everything since `mark` can be taken back until `keep`."""

    def __init__(self) -> None:
        self._journal = Journal()
        self._pods: dict[Key, Contribution] = {}
        self._charged: dict[str, str] = {}  # by the uid of a Pod that is charged, also a departed one: its holder
        self._nodes: dict[str, NodeFacts] = {}
        self._claims: dict[Key, ClaimFacts] = {}
        self._slices: dict[str, Slice] = {}
        self._reservations: dict[Key, ReservationFacts] = {}
        self._departed: dict[int, Departed] = {}
        self._settled: list[int] = []
        self._ledgers: dict[str, Ledger] = {}
        self._pools: dict[PoolKey, Pool] = {}
        self._slices_of: dict[PoolKey, Mapping[str, Slice]] = {}

    @classmethod
    def fold(
        cls,
        objects: Iterable[tuple[Key, Object]],
        departed: Iterable[tuple[int, str, Object]] = (),
    ) -> "Books":
        """From nothing. `departed` are (revision, resource, object) of what was let go and not confirmed."""
        books = cls()
        for key, obj in objects:
            books._read(key, obj)
        books._charged = {pod.uid: pod.holder for pod in books._pods.values()}
        left = [gone for each in departed if (gone := departed_object(each[1], each[2], each[0])) is not None]
        for gone in sorted(left, key=lambda each: bool(each.grants)):  # Pods first: claims go by them
            if gone.is_still_charged(books._nodes, books._charged):
                books._departed[gone.revision] = gone
                if not gone.grants:
                    books._charged.update(dict.fromkeys(gone.uids, gone.holder))
        books._sum()
        return books

    def mark(self) -> int:
        return self._journal.mark()

    def undo(self, mark: int) -> None:
        """Be exactly what they were at `mark`."""
        self._journal.undo(mark)

    def keep(self) -> None:
        """What was applied is committed: forget how to undo it."""
        self._journal.keep()

    def apply(self, key: Key, after: Object | None, revision: int, confirmed: bool = True) -> Shortfall | None:
        """Enter one write (`after` is None for a delete). A wish that does not fit is answered, and changes nothing.

        A delete of a Pod that is not `confirmed` stays charged, and so do devices that a claim loses while a Pod that
        used them is charged. Raises InvalidQuantity, also without changing anything.
        """
        self._settled = []
        resource, _, name = key
        if resource == POD.resource:
            return self._apply_pod(key, None if after is None else charged(after), after is None, revision, confirmed)
        if resource == RESOURCE_CLAIM.resource:
            return self._apply_claim(key, None if after is None else ClaimFacts.of(after), revision)
        if resource == CAPACITY_RESERVATION.resource:
            return self._apply_reservation(key, None if after is None else reservation_of(after))
        if resource == NODE.resource:
            self._apply_node(name, None if after is None else facts_of(after))
        elif resource == RESOURCE_SLICE.resource:
            self._apply_slice(name, None if after is None else slice_of(after))
        return None

    def nodes(self) -> Mapping[str, Ledger]:
        """Of the nodes that are registered."""
        if len(self._ledgers) == len(self._nodes):  # no other node is charged
            return dict(self._ledgers)
        return {name: self._ledgers[name] for name in self._nodes}

    def pools(self) -> Mapping[PoolKey, Pool]:
        """Devices and who has them."""
        return dict(self._pools)

    def unbounded(self) -> Mapping[str, tuple[str, ...]]:
        """Holders with containers that have no limit of cpu or memory, and those containers."""
        return {pod.holder: found for pod in self._pods.values() if (found := pod.unbounded())}

    def departed_at(self, revision: int) -> Departed | None:
        """What was let go at this revision and is still charged."""
        return self._departed.get(revision)

    def settled(self) -> Sequence[int]:
        """Revisions at which something was let go that is charged no more since the last `apply`."""
        return self._settled

    def difference(self, other: "Books") -> tuple[str, ...]:
        """What the two disagree on, in sentences; nothing if they are the same books."""
        return tuple(
            f"{name} {key}: {mine.get(key)} here, {theirs.get(key)} there"
            for name, mine, theirs in (
                ("ledger of node", self._ledgers, other._ledgers),
                ("pool", self._pools, other._pools),
                ("pod", self._pods, other._pods),
                ("node", self._nodes, other._nodes),
                ("claim", self._claims, other._claims),
                ("slice", self._slices, other._slices),
                ("reservation", self._reservations, other._reservations),
                ("deletion at", self._departed, other._departed),
                ("charged pod", self._charged, other._charged),
            )
            for key in sorted({*mine, *theirs}, key=str)
            if mine.get(key) != theirs.get(key)
        )

    def _apply_pod(
        self, key: Key, after: Contribution | None, deleted: bool, revision: int, confirmed: bool
    ) -> Shortfall | None:
        before = self._pods.get(key)
        if after == before:
            return None
        if after is None:
            assert before is not None
            self._release(before.node, before.holder)
            self._journal.put(self._charged, before.uid, None)
            if deleted and not confirmed:
                self._depart(departed_pod(before, revision))
            self._settle_claims()
        else:
            assert before is None or before.node == after.node, "a bound Pod never moves"
            if after.node in self._nodes:  # a node that is not registered has no ledger to fit in
                answer = self._ledger(after.node).admit(after.holder, after.wish(before))
                if isinstance(answer, Shortfall):
                    return answer
            self._record(after.node, after.holder, after.held())
            if before is None:
                self._journal.put(self._charged, after.uid, after.holder)
        self._journal.put(self._pods, key, after)
        return None

    def _apply_claim(self, key: Key, after: ClaimFacts | None, revision: int) -> Shortfall | None:
        before = self._claims.get(key)
        had = before.grants if before else ()
        gets = after.grants if after else ()
        pools: dict[PoolKey, Pool] = {}
        released = [grant for grant in had if grant not in gets]
        for grant in released:
            pools[grant.pool] = self._pool(grant.pool, pools).release(grant)
        for grant in gets:
            if grant in had:
                continue
            pool = self._pool(grant.pool, pools)
            larger = next((each for each in released if grant.is_within(each)), None)
            if larger is not None:
                released.remove(larger)  # shrinking is always allowed, also on a device that is overfull
            answer = pool.admit(grant) if larger is None else pool.record(grant)
            if isinstance(answer, Shortfall):
                return answer
            pools[grant.pool] = answer
        for pool in pools.values():
            self._put_pool(pool)
        if before is not None and any(uid in self._charged for uid in left_behind(before, after)):
            self._depart(departed_claim(before, revision))
        self._journal.put(self._claims, key, after)
        return None

    def _apply_reservation(self, key: Key, after: ReservationFacts | None) -> Shortfall | None:
        before = self._reservations.get(key)
        if after == before:
            return None
        if after is not None and after.floor is not None and after.node in self._nodes:
            answer = self._ledger(after.node).reserve(after.name, after.floor)
            if isinstance(answer, Shortfall):
                return answer
        if before is not None:
            self._put_ledger(self._ledger(before.node).record_floor(before.name, None))
        if after is not None:
            self._put_ledger(self._ledger(after.node).record_floor(after.name, after.floor))
        self._journal.put(self._reservations, key, after)
        return None

    def _apply_node(self, name: str, after: NodeFacts | None) -> None:
        before = self._nodes.get(name)
        if after == before:
            return
        ledger = self._ledger(name)
        for holder, _ in before.strays if before else ():
            ledger = ledger.release(holder)
        for holder, held in after.strays if after else ():
            ledger = ledger.record(holder, held)
        capacity, reserved = (after.capacity, after.reserved) if after else ({}, {})
        self._journal.put(self._nodes, name, after)
        self._put_ledger(replace(ledger, total=capacity, reserved=reserved))
        for gone in [each for each in self._departed.values() if each.node == name]:
            if not gone.is_still_charged(self._nodes, self._charged):
                self._settle(gone)
        self._settle_claims()

    def _apply_slice(self, name: str, after: Slice | None) -> None:
        before = self._slices.get(name)
        if after == before:
            return
        self._journal.put(self._slices, name, after)
        for pool in {each.pool for each in (before, after) if each is not None}:
            slices = {other: each for other, each in self._slices_of.get(pool, {}).items() if other != name}
            if after is not None and after.pool == pool:
                slices[name] = after
            self._journal.put(self._slices_of, pool, slices or None)
            self._put_pool(self._pool(pool).known_from(slices.values()))

    def _depart(self, gone: Departed) -> None:
        if not gone.is_still_charged(self._nodes, self._charged):
            return
        self._journal.put(self._departed, gone.revision, gone)
        if not gone.grants:
            self._record(gone.node, gone.holder, gone.held)
            for uid in gone.uids:
                self._journal.put(self._charged, uid, gone.holder)
        for grant in gone.grants:
            self._put_pool(self._pool(grant.pool).record(grant))

    def _settle(self, gone: Departed) -> None:
        self._journal.put(self._departed, gone.revision, None)
        self._settled.append(gone.revision)
        if not gone.grants:
            self._release(gone.node, gone.holder)
            for uid in gone.uids:
                self._journal.put(self._charged, uid, None)
        for grant in gone.grants:
            self._put_pool(self._pool(grant.pool).release(grant))

    def _settle_claims(self) -> None:
        """Devices that were let go are free once no Pod that used them is charged."""
        for gone in [each for each in self._departed.values() if each.grants]:
            if not gone.is_still_charged(self._nodes, self._charged):
                self._settle(gone)

    def _ledger(self, node: str) -> Ledger:
        return self._ledgers.get(node) or Ledger({}, {}, node=node)

    def _pool(self, key: PoolKey, changed: Mapping[PoolKey, Pool] | None = None) -> Pool:
        return (changed or {}).get(key) or self._pools.get(key) or Pool(key)

    def _record(self, node: str, holder: str, held: Amounts) -> None:
        self._put_ledger(self._ledger(node).record(holder, held))

    def _release(self, node: str, holder: str) -> None:
        self._put_ledger(self._ledger(node).release(holder))

    def _put_ledger(self, ledger: Ledger) -> None:
        needed = ledger.node in self._nodes or ledger.holders or ledger.floors
        self._journal.put(self._ledgers, ledger.node, ledger if needed else None)

    def _put_pool(self, pool: Pool) -> None:
        needed = pool.key in self._slices_of or pool.used
        self._journal.put(self._pools, pool.key, pool if needed else None)

    def _read(self, key: Key, obj: Object) -> None:
        resource, _, name = key
        if resource == POD.resource:
            pod = charged(obj)
            if pod is not None:
                self._pods[key] = pod
        elif resource == NODE.resource:
            self._nodes[name] = facts_of(obj)
        elif resource == RESOURCE_CLAIM.resource:
            self._claims[key] = ClaimFacts.of(obj)
        elif resource == RESOURCE_SLICE.resource:
            self._slices[name] = slice_of(obj)
        elif resource == CAPACITY_RESERVATION.resource:
            self._reservations[key] = reservation_of(obj)

    def _sum(self) -> None:
        """Ledgers and pools from what was read, each summed once."""
        holders: dict[str, dict[str, Amounts]] = {node: dict(facts.strays) for node, facts in self._nodes.items()}
        for pod in self._pods.values():
            holders.setdefault(pod.node, {})[pod.holder] = pod.held()
        for gone in self._departed.values():
            if not gone.grants:
                holders.setdefault(gone.node, {})[gone.holder] = gone.held
        for node, held in holders.items():
            facts = self._nodes.get(node)
            capacity, reserved = (facts.capacity, facts.reserved) if facts else ({}, {})
            self._ledgers[node] = Ledger(capacity, reserved, held, total(held.values()), node)
        for kept in self._reservations.values():
            if kept.floor is not None:
                self._ledgers[kept.node] = self._ledger(kept.node).record_floor(kept.name, kept.floor)
        slices: dict[PoolKey, dict[str, Slice]] = {}
        for name, each in self._slices.items():
            slices.setdefault(each.pool, {})[name] = each
        self._slices_of.update(slices)
        for key, found in slices.items():
            self._pools[key] = Pool(key).known_from(found.values())
        owners: list[ClaimFacts | Departed] = [*self._claims.values(), *self._departed.values()]
        grants: Iterable[Grant] = (grant for owner in owners for grant in owner.grants)
        for grant in grants:
            self._pools[grant.pool] = self._pool(grant.pool).record(grant)
