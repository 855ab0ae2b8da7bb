"""Runs the eviction plan: claims whose allocated devices have a NoExecute taint lose their Pods; rules tell of it."""

from collections.abc import Iterable, Mapping, Sequence

from headrace.api.kinds import DEVICE_TAINT_RULE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from headrace.api.objects import Fields, Object, key_of, metadata, name_of, uid_of
from headrace.devices import evictions, taint_rule_status
from headrace.devices.controller import BY_UID, claims_of
from headrace.devices.evictions import Seen
from headrace.devices.taint_rules import selects
from headrace.runtime.actions import Action, Delete
from headrace.runtime.cache import Informers
from headrace.runtime.controller import Source
from headrace.runtime.perform import Writing
from headrace.store.protocol import Refused

BY_POOL = "allocated in pool"
BY_SLICE_POOL = "pool"


class DeviceTaintEvictions:
    """A key is a claim's."""

    name = "device-taint-evictions"

    def __init__(self, informers: Informers) -> None:
        self.evicted: dict[str, int] = {}  # by where the taint came from, how many Pods went
        self._going: dict[str, str] = {}  # Pods (by uid) that are being evicted, and because of what
        self._claims, self._pods = informers.of(RESOURCE_CLAIM), informers.of(POD)
        self._slices, self._rules = informers.of(RESOURCE_SLICE), informers.of(DEVICE_TAINT_RULE)
        self._claims.add_index(BY_POOL, lambda claim: {_pool(result) for result in _results(claim)})
        self._slices.add_index(BY_SLICE_POOL, lambda each: (_pool_of(each),))
        self._pods.add_index(BY_UID, lambda pod: (uid_of(pod),))
        self.sources: Sequence[Source] = (
            Source(self._claims, self._tainted),
            Source(self._pods, self._pod_changed),
            Source(self._slices, self._claims_of_slice),
            Source(self._rules, self._claims_of_rule),
        )

    def _tainted(self, before: Object | None, after: Object | None) -> Iterable[str]:
        """Devices without a taint, which is nearly all, cost no look."""
        if after is not None and any(taint for result in _results(after) for taint in self._taints(result)):
            yield key_of(after)

    def _pod_changed(self, before: Object | None, after: Object | None) -> Iterable[str]:
        if before is not None and _has_gone(before, after) and (origin := self._going.pop(uid_of(before), None)):
            self.evicted[origin] = self.evicted.get(origin, 0) + 1
        return self._claims_of_bound(before, after)

    def _claims_of_bound(self, before: Object | None, after: Object | None) -> Iterable[str]:
        """A claim is allocated before its Pod is bound, and only then is there somebody to evict."""
        if after is not None and _is_bound(after) and not (before is not None and _is_bound(before)):
            for key in claims_of(after):
                yield from self._tainted(None, self._claims.get(key))

    def _claims_of_slice(self, before: Object | None, after: Object | None) -> Iterable[str]:
        pools = {_pool_of(each) for each in (before, after) if each is not None}
        return [key_of(claim) for pool in pools for claim in self._claims.indexed(BY_POOL, pool)]

    def _claims_of_rule(self, before: Object | None, after: Object | None) -> Iterable[str]:
        if after is None:
            return ()
        return [key_of(claim) for claim in self._claims if any(selects(after, _as_slice(r)) for r in _results(claim))]

    async def observe(self, key: str) -> Seen | None:
        claim = self._claims.get(key)
        if claim is None or not _results(claim):
            return None
        uids = [str(each.get("uid")) for each in (claim.get("status") or {}).get("reservedFor") or ()]
        pods = {uid: pod for uid in uids for pod in self._pods.indexed(BY_UID, uid)}
        return Seen(claim, pods, [list(self._taints(result)) for result in _results(claim)])

    def _taints(self, result: Fields) -> Iterable[tuple[Fields, str]]:
        slices = self._slices.indexed(BY_SLICE_POOL, _pool(result))
        newest = max((_generation(each) for each in slices), default=0)
        for each in slices:
            for device in (each.get("spec") or {}).get("devices") or ():
                if _generation(each) == newest and device.get("name") == result.get("device"):
                    told = f"ResourceSlice {name_of(each)} {_pool(result)}/{device.get('name')}"
                    yield from ((taint, told) for taint in device.get("taints") or ())
        for rule in self._rules:
            if selects(rule, _as_slice(result), str(result.get("device"))):
                yield rule["spec"]["taint"], rule_origin(rule)

    def plan(self, seen: Seen, now: float) -> tuple[Action, ...]:
        """What it evicts is counted once the Pod is seen to go: a plan may be made twice, or not carried out."""
        due = evictions.due_at(seen, now)
        actions = evictions.plan(seen, now)
        for action in actions:
            if due is not None and isinstance(action, Delete) and (leaving := action.deletion.preconditions.uid):
                self._going[leaving] = due[1]
        return actions

    def refused(self, key: str, seen: Seen, action: Writing, refusal: Refused, now: float) -> tuple[Action, ...]:
        raise AssertionError(f"{key}: evicting asks for no capacity, yet the ledger refused: {refusal}")


class DeviceTaintRuleStatus:
    """For each rule: its condition. `evicted` is what the evictions have counted."""

    name = "device-taint-rules"

    def __init__(self, informers: Informers, evicted: Mapping[str, int]) -> None:
        self._evicted = evicted
        self._claims, self._pods = informers.of(RESOURCE_CLAIM), informers.of(POD)
        self._slices, self._rules = informers.of(RESOURCE_SLICE), informers.of(DEVICE_TAINT_RULE)
        self._pods.add_index(BY_UID, lambda pod: (uid_of(pod),))
        self.sources: Sequence[Source] = (
            Source(self._rules),
            Source(self._claims, self._rules_of_claim),
            Source(self._pods, self._all_rules),
        )

    def _all_rules(self, before: Object | None, after: Object | None) -> Iterable[str]:
        """Where there are no rules, Pods cost nothing here."""
        return [name_of(rule) for rule in self._rules]

    def _rules_of_claim(self, before: Object | None, after: Object | None) -> Iterable[str]:
        results = [result for claim in (before, after) if claim is not None for result in _results(claim)]
        return [name_of(rule) for rule in self._rules if any(selects(rule, _as_slice(result)) for result in results)]

    async def observe(self, key: str) -> taint_rule_status.Seen | None:
        rule = self._rules.get(key)
        if rule is None:
            return None
        pending: dict[str, Object] = {}
        allocated = 0
        for claim in self._claims:
            chosen = [each for each in _results(claim) if selects(rule, _as_slice(each), str(each.get("device")))]
            allocated += len(chosen)
            if chosen and any(not evictions.is_tolerated_for_ever(rule["spec"]["taint"], each) for each in chosen):
                pending.update(self._users(claim))
        published = sum(
            selects(rule, each, str(device.get("name")))
            for each in self._slices
            for device in (each.get("spec") or {}).get("devices") or ()
        )
        evicted = self._evicted.get(rule_origin(rule), 0)
        return taint_rule_status.Seen(rule, list(pending.values()), evicted, published, allocated)

    def _users(self, claim: Object) -> Iterable[tuple[str, Object]]:
        for each in (claim.get("status") or {}).get("reservedFor") or ():
            for pod in self._pods.indexed(BY_UID, str(each.get("uid"))):
                if evictions.is_evictable(pod):
                    yield uid_of(pod), pod

    def plan(self, seen: taint_rule_status.Seen, now: float) -> tuple[Action, ...]:
        return taint_rule_status.plan(seen, now)

    def refused(
        self, key: str, seen: taint_rule_status.Seen, action: Writing, refusal: Refused, now: float
    ) -> tuple[Action, ...]:
        raise AssertionError(f"{key}: telling of a rule asks for no capacity, yet the ledger refused: {refusal}")


def rule_origin(rule: Fields) -> str:
    return f"DeviceTaintRule {name_of(rule)}"


def _has_gone(before: Object, after: Object | None) -> bool:
    return after is None or uid_of(after) != uid_of(before) or bool(metadata(after).get("deletionTimestamp"))


def _is_bound(pod: Fields) -> bool:
    return bool((pod.get("spec") or {}).get("nodeName"))


def _results(claim: Fields) -> Sequence[Fields]:
    allocation: Fields = (claim.get("status") or {}).get("allocation") or {}
    found: Sequence[Fields] = (allocation.get("devices") or {}).get("results") or ()
    return found


def _pool(result: Fields) -> str:
    return f"{result.get('driver')}/{result.get('pool')}"


def _pool_of(resource_slice: Fields) -> str:
    spec: Fields = resource_slice.get("spec") or {}
    return f"{spec.get('driver')}/{(spec.get('pool') or {}).get('name')}"


def _generation(resource_slice: Fields) -> int:
    return int(((resource_slice.get("spec") or {}).get("pool") or {}).get("generation") or 0)


def _as_slice(result: Fields) -> Fields:
    """As much of the device's slice as rules look at: it may be gone."""
    return {"spec": {"driver": result.get("driver"), "pool": {"name": result.get("pool")}}}
