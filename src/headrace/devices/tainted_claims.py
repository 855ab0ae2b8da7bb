"""Runs the eviction plan: claims whose allocated devices have a NoExecute taint lose their Pods."""

from collections.abc import Iterable, Sequence

from headrace.api.kinds import DEVICE_TAINT_RULE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from headrace.api.objects import Fields, Object, key_of, name_of, uid_of
from headrace.devices import evictions
from headrace.devices.controller import BY_UID
from headrace.devices.evictions import Seen
from headrace.devices.taint_rules import selects
from headrace.runtime.actions import Action
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
        self._claims, self._pods = informers.of(RESOURCE_CLAIM), informers.of(POD)
        self._slices, self._rules = informers.of(RESOURCE_SLICE), informers.of(DEVICE_TAINT_RULE)
        self._claims.add_index(BY_POOL, lambda claim: {_pool(result) for result in _results(claim)})
        self._slices.add_index(BY_SLICE_POOL, lambda each: (_pool_of(each),))
        self._pods.add_index(BY_UID, lambda pod: (uid_of(pod),))
        self.sources: Sequence[Source] = (
            Source(self._claims, _allocated),
            Source(self._slices, self._claims_of_slice),
            Source(self._rules, self._claims_of_rule),
        )

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
                yield rule["spec"]["taint"], f"DeviceTaintRule {name_of(rule)}"

    def plan(self, seen: Seen, now: float) -> tuple[Action, ...]:
        return evictions.plan(seen, now)

    def refused(self, key: str, seen: Seen, action: Writing, refusal: Refused, now: float) -> tuple[Action, ...]:
        raise AssertionError(f"{key}: evicting asks for no capacity, yet the ledger refused: {refusal}")


def _allocated(before: Object | None, after: Object | None) -> Iterable[str]:
    return (key_of(after),) if after is not None and _results(after) else ()


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
