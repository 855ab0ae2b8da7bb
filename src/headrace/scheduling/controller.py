"""Runs the scheduler on the embedded home: one decision at a time, its writes beside those of others.

Decisions are made one after another on a view that counts what was decided but not yet written, so that the writes of
several Pods may be on their way at once. The guard of the store has the last word.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from headrace.api import node_selectors
from headrace.api.kinds import (
    CAPACITY_RESERVATION,
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
)
from headrace.api.objects import Fields, Object, key_of, metadata, name_of, namespace_of, uid_of
from headrace.devices.allocate.allocator import WORK_IN_ALL
from headrace.devices.plan import claim_of_entry
from headrace.ledger.pods import TERMINAL, charged, contribution
from headrace.runtime.actions import Action, Again, Create, Patch, Subresource
from headrace.runtime.cache import Informers
from headrace.runtime.clock import Clock
from headrace.runtime.controller import Source
from headrace.runtime.perform import Writing
from headrace.scheduling import extended, plan
from headrace.scheduling.claims import missing_class, unmade, unusable
from headrace.scheduling.devices import Demand, DeviceSearch
from headrace.scheduling.filters import Wanted, host_ports
from headrace.scheduling.kept import Kept, Offers, offers_of
from headrace.scheduling.neighbours import asks_of_neighbours, keeps_others_away, refusals
from headrace.scheduling.parked import AMOUNTS, DEVICES, EVERYTHING, NEIGHBOURS, Parked, claims_named, wants
from headrace.scheduling.plan import Placement, Seen
from headrace.scheduling.readiness import readiness
from headrace.scheduling.view import View
from headrace.store.protocol import Refused

SCHEDULER_NAME = "default-scheduler"
BY_CLAIM, KEEPING_AWAY = "claim", "has required anti-affinity"
SEARCH_AGAIN_SECONDS, SEARCH_AGAIN_LONGEST_SECONDS = 5.0, 300.0
WITHHELD_SECONDS = 30.0  # after which the guard is asked again, in case its release was not heard of
GIVEN_SECONDS = (
    5.0  # after which a claim is asked for anew that another Pod was about to get: that may have come to nothing
)
GAVE_UP = "search gave up"
BY_DEVICES = frozenset({DEVICES})
NOT_AVAILABLE = "resourceclaim not available on the node"


class Scheduler:
    """`new_id` names shares of devices; `yield_now` lets others run between two slices of a search, which gives up
    after `search_limit` of work on a node."""

    name = "scheduler"

    def __init__(
        self,
        informers: Informers,
        *,
        clock: Clock,
        new_id: Callable[[], str],
        yield_now: Callable[[], Awaitable[None]],
        search_limit: int = WORK_IN_ALL,
    ) -> None:
        self._pods = informers.of(POD)
        self._claims = informers.of(RESOURCE_CLAIM)
        nodes, slices, classes = informers.of(NODE), informers.of(RESOURCE_SLICE), informers.of(DEVICE_CLASS)
        reservations, rules = informers.of(CAPACITY_RESERVATION), informers.of(DEVICE_TAINT_RULE)
        self._namespaces = informers.of(NAMESPACE)
        self._pods.add_index(KEEPING_AWAY, lambda pod: ("",) if keeps_others_away(pod) else ())
        self._pods.add_index(BY_CLAIM, lambda pod: claim_keys(pod) if is_pending(pod) else ())
        self.view = View(nodes, self._pods, self._claims, slices, classes, reservations, rules)
        self._search = DeviceSearch(self.view.inventory, new_id=new_id, yield_now=yield_now, limit=search_limit)
        self._clock, self._kept, self._parked = clock, Kept(self.view), Parked()
        self._deciding = asyncio.Lock()
        self._refused: dict[str, dict[str, str]] = {}  # by Pod: the nodes on which the ledger refused it, and its words
        self._gave_up: dict[str, int] = {}
        self._ask_again_at = float("inf")
        self._looked: tuple[Object, Wanted] | None = None
        self._binding: set[str] = set()  # decided in full: only a failure of its writes makes it looked at again
        self.sources: Sequence[Source] = (
            Source(self._pods, self._after_pod),
            Source(nodes, self._after_node),
            Source(self._claims, self._after_claim),
            Source(slices, self._after_devices),
            Source(classes, self._after_devices),
            Source(rules, self._after_devices),
            Source(reservations, self._after_reservation),
            Source(self._namespaces, self._after_namespace),
        )

    # What makes which Pod be looked at again

    def _after_devices(self, before: Object | None, after: Object | None) -> Iterable[str]:
        return self._parked.waiting_for(DEVICES)

    def _after_namespace(self, before: Object | None, after: Object | None) -> Iterable[str]:
        return self._parked.waiting_for(NEIGHBOURS) if _labels(before) != _labels(after) else ()

    def _after_pod(self, before: Object | None, after: Object | None) -> Iterable[str]:
        keys = self._after_room(before, after)
        if _as_neighbour(before) == _as_neighbour(after):
            return keys
        return dict.fromkeys((*keys, *self._parked.waiting_for(NEIGHBOURS)))

    def _after_room(self, before: Object | None, after: Object | None) -> Iterable[str]:
        if before is not None and after is not None and uid_of(before) != uid_of(after):
            return (*self._after_room(before, None), *self._after_room(None, after))  # replaced while nobody watched
        if after is not None and is_pending(after):
            return (key_of(after),)
        if before is None:
            return ()
        if is_pending(before):
            self._gone(key_of(before))
        if not (node := (before.get("spec") or {}).get("nodeName")):
            return ()
        held = charged(before)
        left = charged(after) if after is not None else None
        if held is None or (left is not None and left.held() == held.held()):
            return ()
        self._ledger_changed(str(node))
        amounts = self._parked.waiting_for(AMOUNTS)
        return dict.fromkeys((*amounts, *self._parked.waiting_for(DEVICES))) if self.view.ask_again() else amounts

    def _gone(self, key: str) -> None:
        """It was placed, or it went: nothing is remembered of it."""
        self._parked.drop(key)
        self._binding.discard(key)
        self._refused.pop(key, None)
        self._gave_up.pop(key, None)

    def _ledger_changed(self, node: str) -> None:
        """What was refused there may be asked for again."""
        for refused in self._refused.values():
            refused.pop(node, None)

    def _after_node(self, before: Object | None, after: Object | None) -> Iterable[str]:
        if before is not None and after is not None and _placement_facts(before) == _placement_facts(after):
            return ()
        node = after if after is not None else before
        assert node is not None
        self._ledger_changed(name_of(node))
        self.view.ask_again()
        return self._parked.all()

    def _after_reservation(self, before: Object | None, after: Object | None) -> Iterable[str]:
        for each in (before, after):
            if each is not None:
                self._ledger_changed(str((each.get("spec") or {}).get("node")))
        return self._parked.waiting_for(AMOUNTS)

    def _after_claim(self, before: Object | None, after: Object | None) -> Iterable[str]:
        claim = after if after is not None else before
        assert claim is not None
        users = [key_of(pod) for pod in self._pods.indexed(BY_CLAIM, key_of(claim))]
        if len(users) == 1 and users[0] in self._binding:
            users = []  # it is its own write, or one that makes that write fail
        was = ((before or {}).get("status") or {}).get("allocation")
        now = ((after or {}).get("status") or {}).get("allocation")
        if not was or now:
            return users
        self.view.ask_again()
        return dict.fromkeys((*users, *self._parked.waiting_for(DEVICES)))

    # One look

    async def observe(self, key: str) -> Seen | None:
        """`plan` is called on the answer without a pause, so that no other Pod is decided in between."""
        async with self._deciding:
            self.view.forget(key)
            self._binding.discard(key)
            pod = self._pods.get(key)
            if pod is None or not is_pending(pod):
                return None
            self._parked.put(pod, EVERYTHING)
            return await self._look(key, pod)

    async def _look(self, key: str, pod: Object) -> Seen:
        if self._clock.monotonic() >= self._ask_again_at:
            self._ask_again_at = float("inf")
            self.view.ask_again()
        if (pod.get("spec") or {}).get("schedulingGates"):
            return Seen(pod, ())
        if entry := unmade(pod):
            told = f'waiting for the resourceclaim of entry "{entry}" to be created from its template'
            return Seen(pod, (), waiting=told)
        if given := next((each for each in claim_keys(pod) if self.view.is_given(each, key)), ""):
            return Seen(pod, (), waiting=f"resource claim {given} is in the process of being allocated")
        self._looked = None
        wanted = self._wanted(pod)
        claims, blocked = self._claims_of(pod)
        made = self._claims.get(f"{namespace_of(pod)}/{extended.claim_name(pod)}") if wanted.backed else None
        if made is not None and metadata(made).get("deletionTimestamp"):
            return Seen(pod, (), waiting=f'resourceclaim "{name_of(made)}" is being deleted')
        if made is not None:
            claims[name_of(made)] = made
        offers = self._beside_others(pod, self._without_refused(key, self._kept.offers(wanted)))
        if blocked or not (claims or wanted.backed):
            best = offers.best() if not blocked else None
            return Seen(pod, offers.all() if best is None else (best,), claims, blocked)
        offers = self._pinned(offers, claims)
        if wanted.backed:
            offers = offers_of(self._backed(each, pod, wanted) for each in offers.all())
        demand = self._demand(pod, offers, claims, made)
        placements, failed = await self._search.search(offers, self.view.nodes, demand)
        return Seen(pod, placements, claims, failed=failed, extended=made)

    def _without_refused(self, key: str, offers: Offers) -> Offers:
        """Nodes on which the ledger refused it are left out until they change."""
        refused = self._refused.get(key)
        if not refused:
            return offers
        return offers_of(replace(e, reasons=(refused[e.node],)) if e.node in refused else e for e in offers.all())

    def _beside_others(self, pod: Object, offers: Offers) -> Offers:
        """Nodes where the Pods that are there, or what it asks of them, keep it away are left out."""
        asks = asks_of_neighbours(pod)
        placed = self._placed(self._pods) if asks else []
        keeping = self._placed(self._pods.indexed(KEEPING_AWAY, ""))
        if not offers.fitting or not (asks or keeping):
            return offers
        told = refusals(pod, self.view.nodes, placed, keeping, lambda name: _labels(self._namespaces.get(name)))
        if not told:
            return offers
        return offers_of(
            replace(e, reasons=(told[e.node],)) if not e.reasons and e.node in told else e for e in offers.all()
        )

    def _placed(self, pods: Iterable[Object]) -> list[tuple[Object, str]]:
        return [(each, node) for each in pods if (node := self.view.node_of(key_of(each)))]

    def _wanted(self, pod: Object) -> Wanted:
        """What was found out in a look serves its plan, which follows at once."""
        if self._looked is None or self._looked[0] is not pod:
            spec: Fields = pod.get("spec") or {}
            backed = frozenset(name for name in extended.asked(pod) if name in self.view.class_of)
            wanted = Wanted(key_of(pod), spec, contribution(pod).admitted(), host_ports(spec), backed)
            self._looked = pod, wanted
        return self._looked[1]

    def _backed(self, placement: Placement, pod: Object, wanted: Wanted) -> Placement:
        candidate = self.view.candidate(placement.node)
        resources = wanted.served_on(candidate.ledger) if candidate is not None else ()
        backing = extended.backing(pod, {name: self.view.class_of[name] for name in resources}) if resources else None
        return replace(placement, backing=backing)

    def _claims_of(self, pod: Object) -> tuple[dict[str, Object], str]:
        """The Pod's claims by name, or why it cannot be placed anywhere yet."""
        claims: dict[str, Object] = {}
        for entry in (pod.get("spec") or {}).get("resourceClaims") or ():
            name = claim_of_entry(pod, entry)
            if name is None:
                continue  # the status says that this entry needs none
            claim = self._claims.get(f"{namespace_of(pod)}/{name}")
            if why := unusable(pod, entry, name, claim):
                return {}, why
            assert claim is not None
            claims[name] = claim
        return claims, missing_class(claims.values(), self.view.inventory.classes)

    def _pinned(self, offers: Offers, claims: Mapping[str, Object]) -> Offers:
        """Allocated claims decide which nodes are left; devices that failed to be attached leave none."""
        allocated = [claim["status"]["allocation"] for claim in claims.values() if _is_allocated(claim)]
        if not allocated:
            return offers
        selectors = [each["nodeSelector"] for each in allocated if each.get("nodeSelector")]
        failure = readiness(claims.values(), self._clock.wall()).failure
        reason = (f"{NOT_AVAILABLE} ({failure})" if failure else NOT_AVAILABLE,)

        def is_left(node: Fields) -> bool:
            return not failure and all(node_selectors.matches(selector, node) for selector in selectors)

        left = (
            e if e.reasons or is_left(self.view.nodes[e.node]) else replace(e, reasons=reason) for e in offers.all()
        )
        return offers_of(left)

    @staticmethod
    def _demand(pod: Object, offers: Offers, claims: Mapping[str, Object], made: Object | None) -> Demand:
        missing = {name: claim for name, claim in claims.items() if not _is_allocated(claim)}
        if made is not None:
            return Demand(missing)
        particular: dict[str, Mapping[str, Object]] = {}
        for _, node, each in offers.fitting:
            if each.backing is not None:
                claim = extended.claim_for(pod, each.backing.requests)
                particular[node] = {**missing, name_of(claim): claim}
        return Demand(missing, particular)

    def plan(self, seen: Seen, now: float) -> tuple[Action, ...]:
        actions = plan.plan(seen, now)
        key = key_of(seen.pod)
        if node := _chosen(seen, actions):
            self._parked.drop(key)
            self._gave_up.pop(key, None)
            self._assume(seen, node)
            if any(isinstance(action, Subresource) for action in actions):
                self._binding.add(key)
            return actions
        refusals = {each.node: each.reasons for each in seen.placements}
        self._parked.put(seen.pod, BY_DEVICES if seen.blocked or seen.failed else wants(refusals))
        if any(reason.startswith(GAVE_UP) for each in refusals.values() for reason in each):
            times = self._gave_up[key] = self._gave_up.get(key, 0) + 1
            delay = min(SEARCH_AGAIN_LONGEST_SECONDS, SEARCH_AGAIN_SECONDS * 2.0 ** (times - 1))
            return (*actions, Again(delay))
        if seen.waiting and any(self.view.is_given(each, key) for each in claim_keys(seen.pod)):
            return (*actions, Again(GIVEN_SECONDS))
        return actions

    def _assume(self, seen: Seen, node: str) -> None:
        chosen = next(each for each in seen.placements if each.node == node)
        namespace = namespace_of(seen.pod)
        given = {f"{namespace}/{name}": a for name, a in chosen.allocations.items() if name in seen.claims}
        self.view.assume(self._wanted(seen.pod), node, given)

    def refused(self, key: str, seen: Seen, action: Writing, refusal: Refused, now: float) -> tuple[Action, ...]:
        """The view was behind the ledger: leave that node, or those devices, out until it changes, and look again.

        A claim that may not be made (a quota) is told of, and tried again later.
        """
        self.view.forget(key)
        if isinstance(action, Patch) and action.kind == RESOURCE_CLAIM:
            results = action.fields["status"]["allocation"]["devices"]["results"]
            devices = {name.partition(" ")[0] for name in refusal.shortfall.missing}  # short, or short of capacity
            taken = [each for each in results if _path(each) in devices]
            self.view.withhold(taken, refusal.shortfall.holders[0] if refusal.shortfall.holders else "others")
            self._ask_again_at = self._clock.monotonic() + WITHHELD_SECONDS
            return (Again(WITHHELD_SECONDS),)
        if isinstance(action, Subresource):
            node = str(action.body["target"]["name"])
            missing = refusal.shortfall.missing
            words = ", ".join(f"Insufficient {name}" for name in sorted(missing)) or str(refusal)
            self._refused.setdefault(key, {})[node] = words
        if isinstance(action, Create):
            return plan.unschedulable(seen.pod, f"claim for extended resources not made: {refusal}")
        return ()


def _path(result: Fields) -> str:
    """How a Shortfall names a device."""
    return f"{result['driver']}/{result['pool']}/{result['device']}"


def _chosen(seen: Seen, actions: Sequence[Action]) -> str:
    """The node that these actions place the Pod on, or give it devices of."""
    fitting = [each for each in seen.placements if not each.reasons]
    for action in actions:
        if isinstance(action, Subresource):
            return str(action.body["target"]["name"])
        if (
            isinstance(action, Patch)
            and action.kind == RESOURCE_CLAIM
            and (action.fields.get("status") or {}).get("allocation")
        ):
            return plan.best_of(fitting).node
    return ""


def claim_keys(pod: Fields) -> list[str]:
    """Keys of the claims that a Pod names, as far as they are known, with the one for its extended resources."""
    entries = (pod.get("spec") or {}).get("resourceClaims") or ()
    names = [claim_of_entry(pod, entry) for entry in entries]
    return claims_named(pod, [*names, extended.claim_name(pod)] if extended.asked(pod) else names)


def _is_allocated(claim: Fields) -> bool:
    return bool((claim.get("status") or {}).get("allocation"))


def is_pending(pod: Fields) -> bool:
    """Ours to place: not bound, not ended, not leaving, and not another scheduler's."""
    spec: Fields = pod.get("spec") or {}
    return (
        not spec.get("nodeName")
        and not metadata(pod).get("deletionTimestamp")
        and (pod.get("status") or {}).get("phase") not in TERMINAL
        and (spec.get("schedulerName") or SCHEDULER_NAME) == SCHEDULER_NAME
    )


def _labels(obj: Fields | None) -> Mapping[str, str]:
    found: Mapping[str, str] = metadata(obj).get("labels") or {} if obj is not None else {}
    return found


def _as_neighbour(pod: Fields | None) -> tuple[object, ...] | None:
    """What others' affinities and spreads see of a Pod; None: it is nowhere."""
    spec: Fields = (pod or {}).get("spec") or {}
    if pod is None or not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in TERMINAL:
        return None
    meta = metadata(pod)
    return spec["nodeName"], meta.get("labels"), bool(meta.get("deletionTimestamp"))


def _placement_facts(node: Fields) -> tuple[object, ...]:
    status: Fields = node.get("status") or {}
    meta = metadata(node)
    spec: Fields = node.get("spec") or {}
    return (
        spec.get("unschedulable"),
        spec.get("taints"),
        meta.get("labels"),
        meta.get("annotations"),
        status.get("capacity"),
        status.get("allocatable"),
    )
