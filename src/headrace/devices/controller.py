"""Runs the claim plans: claims from templates for Pods, and the release of claims that nobody uses."""

from collections.abc import Callable, Iterable, Sequence

from headrace.api.kinds import NODE, POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from headrace.api.objects import Fields, Object, key_of, metadata, name_of, namespace_of, uid_of
from headrace.devices import plan
from headrace.devices.plan import ClaimSeen, PodSeen
from headrace.runtime.actions import Action, Create
from headrace.runtime.cache import Informers
from headrace.runtime.controller import Source, own_key
from headrace.runtime.perform import Writing
from headrace.store.protocol import Refused, Store

BY_UID = "uid"
BY_TEMPLATE = "claim template"
BY_CLAIM = "claim of a placed Pod"


def owning_pods(before: Object | None, after: Object | None) -> Iterable[str]:
    """The keys of the Pods that own a claim."""
    claim = after if after is not None else before
    if claim is None:
        return ()
    owners = [each for each in plan.owners(claim) if each.get("controller") and each.get("kind") == "Pod"]
    return [f"{namespace_of(claim)}/{each.get('name')}" for each in owners]


def templates_named(pod: Fields) -> Iterable[str]:
    entries = (pod.get("spec") or {}).get("resourceClaims") or ()
    named = {each.get("resourceClaimTemplateName") for each in entries}
    return [f"{namespace_of(pod)}/{name}" for name in named if name]


def claims_named_where_placed(pod: Fields) -> Iterable[str]:
    """The keys of the claims that a Pod on a node names itself."""
    spec: Fields = pod.get("spec") or {}
    entries = spec.get("resourceClaims") or () if spec.get("nodeName") else ()
    named = {each.get("resourceClaimName") for each in entries}
    return [f"{namespace_of(pod)}/{name}" for name in named if name]


def claims_of(pod: Fields) -> list[str]:
    """The keys of the claims that a Pod uses, as far as its spec and status name them."""
    names = [plan.claim_of_entry(pod, entry) for entry in (pod.get("spec") or {}).get("resourceClaims") or ()]
    names.append(((pod.get("status") or {}).get("extendedResourceClaimStatus") or {}).get("resourceClaimName"))
    return [f"{namespace_of(pod)}/{name}" for name in names if name]


class PodClaims:
    """For each Pod with claims: those from templates exist and its status names them; on a node, they are reserved."""

    name = "pod-claims"

    def __init__(self, informers: Informers) -> None:
        self._pods = informers.of(POD)
        self._claims = informers.of(RESOURCE_CLAIM)
        self._templates = informers.of(RESOURCE_CLAIM_TEMPLATE)
        self._pods.add_index(BY_TEMPLATE, templates_named)
        self._pods.add_index(BY_CLAIM, claims_named_where_placed)
        self.sources: Sequence[Source] = (
            Source(self._pods, self._unless_done),
            Source(self._claims, self._owners),
            Source(self._claims, self._placed_before_it_was_allocated),
            Source(self._templates, self._pods_of_template),
        )

    # What the caches show to be done costs no look: most changes of Pods and claims are the end of what was done here.

    def _unless_done(self, before: Object | None, after: Object | None) -> Iterable[str]:
        if after is None or not (after.get("spec") or {}).get("resourceClaims") or self._is_served(after):
            return ()
        return (key_of(after),) if plan.plan_pod(self._seen(after), 0.0) else ()

    def _is_served(self, pod: Object) -> bool:
        """Whether its claims are there, its own and reserved for it: then the plan is empty, and is not made."""
        for entry in pod["spec"]["resourceClaims"]:
            name = plan.claim_of_entry(pod, entry)
            claim = self._claims.get(f"{namespace_of(pod)}/{name}") if name is not None else None
            is_made = entry.get("resourceClaimTemplateName") is not None
            if (is_made and (claim is None or not plan.is_owned_by(claim, pod))) or plan.lacks_reservation(pod, claim):
                return False
        return True

    def _placed_before_it_was_allocated(self, before: Object | None, after: Object | None) -> Iterable[str]:
        if after is None or not _allocation(after) or (before is not None and _allocation(before)):
            return
        for pod in self._pods.indexed(BY_CLAIM, key_of(after)):
            yield from self._unless_done(None, pod)

    def _owners(self, before: Object | None, after: Object | None) -> Iterable[str]:
        for key in owning_pods(before, after):
            yield from self._unless_done(None, self._pods.get(key))

    def _pods_of_template(self, before: Object | None, after: Object | None) -> Iterable[str]:
        return [key_of(pod) for key in own_key(before, after) for pod in self._pods.indexed(BY_TEMPLATE, key)]

    async def observe(self, key: str) -> PodSeen | None:
        pod = self._pods.get(key)
        return self._seen(pod) if pod is not None else None

    def _seen(self, pod: Object) -> PodSeen:
        namespace, templates, claims = namespace_of(pod), {}, {}
        for entry in (pod.get("spec") or {}).get("resourceClaims") or ():
            template = entry.get("resourceClaimTemplateName")
            if template is not None:
                templates[template] = self._templates.get(f"{namespace}/{template}")
            name = plan.claim_of_entry(pod, entry) or plan.generated_name(pod, entry["name"])
            claim = self._claims.get(f"{namespace}/{name}")
            if claim is not None:
                claims[name] = claim
        return PodSeen(pod, templates, claims)

    def plan(self, seen: PodSeen, now: float) -> tuple[Action, ...]:
        return plan.plan_pod(seen, now)

    def refused(self, key: str, seen: PodSeen, action: Writing, refusal: Refused, now: float) -> tuple[Action, ...]:
        """The claim may not be made, as by a quota: it is told of, and tried again with growing delay."""
        assert isinstance(action, Create), f"{key}: {action} asks for no capacity, yet it was refused: {refusal}"
        return (plan.not_made(seen.pod, action.object, str(refusal)),)


Unconfirmed = Callable[[str], str]
"""The node that has not confirmed the end of a Pod (by key) that was deleted; empty: there is none."""


class Claims:
    """For each claim: consumers that are done leave, and with the last of them the allocation."""

    name = "claims"

    def __init__(self, informers: Informers, store: Store, unconfirmed: Unconfirmed = lambda key: "") -> None:
        self._pods = informers.of(POD)
        self._claims = informers.of(RESOURCE_CLAIM)
        self._store, self._unconfirmed = store, unconfirmed
        self._held_for: dict[str, set[str]] = {}  # nodes, and the claims that wait for their word
        self._pods.add_index(BY_UID, lambda pod: (uid_of(pod),))
        self.sources: Sequence[Source] = (
            Source(self._claims, self._unless_in_use),
            Source(self._pods, self._claims_of_pod),
            Source(informers.of(NODE), self._claims_of_node),
        )

    def _claims_of_node(self, before: Object | None, after: Object | None) -> Iterable[str]:
        node = after if after is not None else before
        if node is None or (before is not None and after is not None and _annotations(before) == _annotations(after)):
            return ()
        return self._held_for.pop(name_of(node), ())

    def _unless_in_use(self, before: Object | None, after: Object | None) -> Iterable[str]:
        """A claim whose Pods are all known to need it costs no look: their end makes it looked at."""
        if after is None:
            return ()
        known = self._known(after)
        pods = {uid: pod for uid, pod in known.items() if pod is not None}
        is_settled = len(pods) == len(known) and not plan.plan_claim(ClaimSeen(after, pods), 0.0)
        return () if is_settled else (key_of(after),)

    def _claims_of_pod(self, before: Object | None, after: Object | None) -> Iterable[str]:
        """Only a Pod that is done with its claims changes anything for them."""
        is_same = before is not None and after is not None and uid_of(before) == uid_of(after)
        pod = after if is_same or before is None else before
        if pod is None or (pod is after and not plan.is_done(pod)):
            return ()
        return claims_of(pod)

    async def observe(self, key: str) -> ClaimSeen | None:
        claim = self._claims.get(key)
        if claim is None or not self._pods.is_synced:
            return None
        uids = {str(each.get("uid")): str(each.get("name")) for each in self._consumers(claim)}
        pods = {uid: pod for uid, pod in self._known(claim).items() if pod is not None}
        for uid in uids.keys() - pods.keys():
            # A claim may be seen before the Pod that it is for: only the store can say that a Pod is really gone.
            listing = await self._store.list(POD, namespace_of(claim), fields=f"metadata.name={uids[uid]}")
            pods.update((uid, pod) for pod in listing.items if uid_of(pod) == uid)
        unconfirmed = {}
        for uid in uids.keys() - pods.keys():
            if node := self._unconfirmed(f"{namespace_of(claim)}/{uids[uid]}"):
                unconfirmed[uid] = node
                self._held_for.setdefault(node, set()).add(key)
        return ClaimSeen(claim, pods, unconfirmed)

    def _known(self, claim: Object) -> dict[str, Object | None]:
        """The consumers by uid, as the cache has them."""
        uids = [str(each.get("uid")) for each in self._consumers(claim)]
        return {uid: next(iter(self._pods.indexed(BY_UID, uid)), None) for uid in uids}

    @staticmethod
    def _consumers(claim: Object) -> Iterable[Fields]:
        reserved = (claim.get("status") or {}).get("reservedFor") or ()
        yield from (each for each in reserved if each.get("resource") == "pods" and not each.get("apiGroup"))
        yield from (each for each in plan.owners(claim) if each.get("controller") and each.get("kind") == "Pod")

    def plan(self, seen: ClaimSeen, now: float) -> tuple[Action, ...]:
        return plan.plan_claim(seen, now)

    def refused(self, key: str, seen: ClaimSeen, action: Writing, refusal: Refused, now: float) -> tuple[Action, ...]:
        raise AssertionError(f"{key}: releasing a claim asks for no capacity, yet the ledger refused: {refusal}")


def _allocation(claim: Fields) -> Fields | None:
    return (claim.get("status") or {}).get("allocation")


def _annotations(obj: Fields) -> Fields:
    found: Fields = metadata(obj).get("annotations") or {}
    return found
