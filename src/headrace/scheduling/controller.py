"""Runs the scheduler on the embedded home: one Pod at a time, by priority, allocation searched in small slices."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from headrace.api import node_selectors
from headrace.api.kinds import CAPACITY_RESERVATION, DEVICE_CLASS, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from headrace.api.objects import Fields, Object, key_of, metadata, name_of, namespace_of
from headrace.devices.allocate.allocator import Allocated, Failed, GaveUp, Outcome, Search, Unsatisfiable
from headrace.devices.allocate.why import report
from headrace.devices.plan import RESERVED_LIMIT, claim_of_entry
from headrace.ledger.pods import TERMINAL, charged, contribution
from headrace.runtime.actions import Action, Again, Subresource
from headrace.runtime.cache import Informers
from headrace.runtime.controller import Source
from headrace.runtime.perform import Writing
from headrace.runtime.refusals import Refusal, Refusals
from headrace.scheduling import plan
from headrace.scheduling.filters import Candidate, Wanted, host_ports, reasons
from headrace.scheduling.plan import Placement, Seen
from headrace.scheduling.view import View, score
from headrace.store.protocol import Refused

SCHEDULER_NAME = "default-scheduler"
PENDING = "pending"
SEARCH_AGAIN_SECONDS = 30.0
EXPLAINED_NODES = 10  # on larger fleets the condition counts nodes, and `headrace explain` has the details


class Scheduler:
    """`new_id` names shares of devices; `yield_now` lets others run between two slices of a search."""

    name = "scheduler"

    def __init__(
        self, informers: Informers, *, new_id: Callable[[], str], yield_now: Callable[[], Awaitable[None]]
    ) -> None:
        self._pods = informers.of(POD)
        self._claims = informers.of(RESOURCE_CLAIM)
        nodes, slices, classes = informers.of(NODE), informers.of(RESOURCE_SLICE), informers.of(DEVICE_CLASS)
        self._pods.add_index(PENDING, lambda pod: (PENDING,) if is_pending(pod) else ())
        reservations = informers.of(CAPACITY_RESERVATION)
        self.view = View(nodes, self._pods, self._claims, slices, classes, reservations)
        self._new_id, self._yield_now = new_id, yield_now
        self._refusals: Refusals[str] = Refusals()
        self.sources: Sequence[Source] = (
            Source(self._pods, self._after_pod),
            Source(nodes, self._after_node),
            Source(self._claims, self._after_claim),
            Source(slices, self._everyone),
            Source(classes, self._everyone),
            Source(reservations, self._after_reservation),
        )

    # What makes which Pod be looked at again

    def _waiting(self) -> list[str]:
        pods = sorted(self._pods.indexed(PENDING, PENDING), key=_order)
        return [key_of(pod) for pod in pods]

    def _everyone(self, before: Object | None, after: Object | None) -> Iterable[str]:
        return self._waiting()

    def _after_pod(self, before: Object | None, after: Object | None) -> Iterable[str]:
        if after is not None and is_pending(after):
            return (key_of(after),)
        if before is None or not (node := (before.get("spec") or {}).get("nodeName")):
            return ()
        held = charged(before)
        left = charged(after) if after is not None else None
        if held is None or (left is not None and left.held() == held.held()):
            return ()
        self._refusals.ledger_changed(str(node))
        return self._waiting()

    def _after_node(self, before: Object | None, after: Object | None) -> Iterable[str]:
        if before is not None and after is not None and _placement_facts(before) == _placement_facts(after):
            return ()
        node = after if after is not None else before
        assert node is not None
        self._refusals.ledger_changed(name_of(node))
        return self._waiting()

    def _after_reservation(self, before: Object | None, after: Object | None) -> Iterable[str]:
        for each in (before, after):
            if each is not None:
                self._refusals.ledger_changed(str((each.get("spec") or {}).get("node")))
        return self._waiting()

    def _after_claim(self, before: Object | None, after: Object | None) -> Iterable[str]:
        was = (before or {}).get("status") or {}
        now = (after or {}).get("status") or {}
        if was.get("allocation") and not now.get("allocation"):
            return self._waiting()
        claim = after if after is not None else before
        assert claim is not None
        key = key_of(claim)
        return [pod for pod in self._waiting() if key in self._claim_keys(self._pods.get(pod) or {})]

    @staticmethod
    def _claim_keys(pod: Fields) -> list[str]:
        names = [claim_of_entry(pod, entry) for entry in (pod.get("spec") or {}).get("resourceClaims") or ()]
        return [f"{namespace_of(pod)}/{name}" for name in names if name]

    # One look

    async def observe(self, key: str) -> Seen | None:
        self.view.forget(key)
        pod = self._pods.get(key)
        if pod is None or not is_pending(pod):
            return None
        spec: Fields = pod.get("spec") or {}
        wanted = Wanted(key, spec, contribution(pod).admitted(), host_ports(spec))
        candidates = list(self.view.candidates())
        if unmade := _unmade_claim(pod):
            told = f'waiting for the resourceclaim of entry "{unmade}" to be created from its template'
            return Seen(pod, (), waiting=told)
        claims, blocked = self._claims_of(pod)
        placements = [
            Placement(each.name, self._reasons(wanted, each), score(each.ledger, wanted.amounts)) for each in candidates
        ]
        if claims and not blocked:
            nodes = {each.name: each.node for each in candidates}
            placements, blocked = await self._with_devices(placements, claims, nodes)
        return Seen(pod, placements, claims, blocked)

    def _reasons(self, wanted: Wanted, candidate: Candidate) -> tuple[str, ...]:
        refusal = self._refusals.of(wanted.key)
        if refusal is not None and refusal.node == candidate.name:
            return (refusal.message,)
        return reasons(wanted, candidate)

    def _claims_of(self, pod: Object) -> tuple[dict[str, Object], str]:
        """The Pod's claims by name, or why it cannot be placed anywhere yet."""
        claims: dict[str, Object] = {}
        for entry in (pod.get("spec") or {}).get("resourceClaims") or ():
            name = str(claim_of_entry(pod, entry))
            claim = self._claims.get(f"{namespace_of(pod)}/{name}")
            if claim is None:
                return {}, f'resourceclaim "{name}" not found'
            if metadata(claim).get("deletionTimestamp"):
                return {}, f'resourceclaim "{name}" is being deleted'
            reserved = (claim.get("status") or {}).get("reservedFor") or ()
            if len(reserved) >= RESERVED_LIMIT and not any(r.get("uid") == metadata(pod)["uid"] for r in reserved):
                return {}, "resourceclaim in use"
            claims[name] = claim
        return claims, ""

    async def _with_devices(
        self, placements: Sequence[Placement], claims: Mapping[str, Object], nodes: Mapping[str, Fields]
    ) -> tuple[list[Placement], str]:
        """Search the nodes that fit, best first, until one serves every claim that is not allocated yet."""
        missing = {name: claim for name, claim in claims.items() if not (claim.get("status") or {}).get("allocation")}
        selectors = [
            claim["status"]["allocation"]["nodeSelector"]
            for claim in claims.values()
            if ((claim.get("status") or {}).get("allocation") or {}).get("nodeSelector")
        ]
        found = {each.node: each for each in placements}
        for each in sorted(placements, key=lambda one: (-one.score, one.node)):
            if each.reasons:
                continue
            if not all(node_selectors.matches(selector, nodes[each.node]) for selector in selectors):
                found[each.node] = replace(each, reasons=("resourceclaim not available on the node",))
                continue
            if not missing:
                continue
            outcome = await self._search(nodes[each.node], list(missing.values()))
            match outcome:
                case Allocated(results):
                    chosen = replace(each, allocations=dict(zip(missing, results, strict=True)))
                    # The others stay unsearched: they fit no better, and one is enough.
                    others = [replace(one, reasons=("not searched",)) for one in placements if one.node != each.node]
                    return [chosen, *others], ""
                case Unsatisfiable():
                    short = self._why(nodes[each.node], list(missing.values())) if len(found) <= EXPLAINED_NODES else ""
                    words = f"cannot allocate all claims ({short})" if short else "cannot allocate all claims"
                    found[each.node] = replace(each, reasons=(words,))
                case Failed(error=error, fatal=True):
                    return list(found.values()), error
                case Failed(error=error):
                    found[each.node] = replace(each, reasons=(error,))
                case GaveUp():
                    found[each.node] = replace(each, reasons=(outcome.text,))
        return list(found.values()), ""

    async def _search(self, node: Fields, claims: Sequence[Object]) -> Outcome:
        search = Search(node, claims, self.view.inventory, self._ids())
        while (outcome := search.run()) is None:
            await self._yield_now()
        return outcome

    def _why(self, node: Fields, claims: Sequence[Object]) -> str:
        return report(node, claims, self.view.inventory, with_conflict=False).short()

    def _ids(self) -> Iterator[str]:
        while True:
            yield self._new_id()

    def plan(self, seen: Seen, now: float) -> tuple[Action, ...]:
        actions = plan.plan(seen, now)
        for action in actions:
            if isinstance(action, Subresource):
                self._assume(seen, str(action.body["target"]["name"]))
        if any("search gave up" in reason for each in seen.placements for reason in each.reasons):
            return (*actions, Again(SEARCH_AGAIN_SECONDS))
        return actions

    def _assume(self, seen: Seen, node: str) -> None:
        pod = seen.pod
        spec: Fields = pod.get("spec") or {}
        wanted = Wanted(key_of(pod), spec, contribution(pod).admitted(), host_ports(spec))
        chosen = next(each for each in seen.placements if each.node == node)
        namespace = namespace_of(pod)
        self.view.assume(wanted, node, {f"{namespace}/{name}": a for name, a in chosen.allocations.items()})

    def refused(self, key: str, seen: Seen, action: Writing, refusal: Refused, now: float) -> tuple[Action, ...]:
        """The view was behind the ledger: leave that node out until it changes, and look again."""
        self.view.forget(key)
        if isinstance(action, Subresource):
            node = str(action.body["target"]["name"])
            missing = refusal.shortfall.missing
            words = ", ".join(f"Insufficient {name}" for name in sorted(missing)) or str(refusal)
            self._refusals.remember(Refusal(key, node, node, words))
        return ()


def is_pending(pod: Fields) -> bool:
    """Ours to place: not bound, not ended, not leaving, and not another scheduler's."""
    spec: Fields = pod.get("spec") or {}
    return (
        not spec.get("nodeName")
        and not metadata(pod).get("deletionTimestamp")
        and (pod.get("status") or {}).get("phase") not in TERMINAL
        and (spec.get("schedulerName") or SCHEDULER_NAME) == SCHEDULER_NAME
    )


def _unmade_claim(pod: Fields) -> str:
    """The first entry of spec.resourceClaims whose claim has not been made from its template yet."""
    entries = (pod.get("spec") or {}).get("resourceClaims") or ()
    return next((str(entry["name"]) for entry in entries if claim_of_entry(pod, entry) is None), "")


def _order(pod: Fields) -> tuple[int, str, str]:
    """Higher priority first, then older ones."""
    priority = (pod.get("spec") or {}).get("priority") or 0
    return (-priority, str(metadata(pod).get("creationTimestamp", "")), key_of(pod))


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
