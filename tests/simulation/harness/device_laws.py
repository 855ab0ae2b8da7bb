"""Law 5: a device has one claim, a claim is given up only when nobody runs on it, and nobody runs without it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from headrace.api.kinds import RESOURCE_CLAIM, RESOURCE_SLICE
from headrace.api.objects import Fields, Object
from headrace.store.rows import Key, Write

Device = tuple[str, str]
"""Pool and device; all are of one driver."""


def given(claim: Object) -> set[Device]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return {(each["pool"], each["device"]) for each in (allocation.get("devices") or {}).get("results") or ()}


def users(claim: Object) -> set[str]:
    return {str(each["uid"]) for each in (claim.get("status") or {}).get("reservedFor") or ()}


@dataclass(slots=True)
class DeviceLaws:
    """`runs`: whether a container of the Pod with this uid runs anywhere, in truth."""

    broken: Callable[[str], None]
    runs: Callable[[str], bool]
    claims: dict[Key, tuple[set[Device], set[str]]] = field(default_factory=dict)
    needs: dict[str, int] = field(default_factory=dict)
    handed_out: int = 0

    def pod_committed(self, pod: Object) -> None:
        if count := len(pod["spec"].get("resourceClaims") or ()):
            self.needs[pod["metadata"]["uid"]] = count

    def claim_committed(self, write: Write) -> None:
        had, used_by = self.claims.pop(write.key, (set(), set()))
        has, still_by = (given(write.object), users(write.object)) if write.body is not None else (set(), set())
        for uid in used_by - still_by if not had - has else used_by:
            if self.runs(uid):
                self.broken(f"law 5: {write.key} is taken from Pod {uid}, which runs: {had} become {has}")
        for device in has - had:
            self.handed_out += 1
            for other, (devices, _) in self.claims.items():
                if device in devices:
                    self.broken(f"law 5: {device} is given to {write.key.name} and belongs to {other.name}")
        if has or still_by:
            self.claims[write.key] = (has, still_by)

    def is_covered(self, pod_uid: str) -> None:
        """To be asked of each Pod that runs."""
        wanted = self.needs.get(pod_uid, 0)
        if wanted and sum(1 for devices, by in self.claims.values() if devices and pod_uid in by) < wanted:
            self.broken(f"law 5: Pod {pod_uid} runs without the devices of its {wanted} claims")

    # When all is quiet

    def unsettled(self, last: Mapping[Key, Object]) -> Iterator[str]:
        alive = {
            obj["metadata"]["uid"]
            for key, obj in last.items()
            if key.resource == "pods" and (obj.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        }
        for key, (devices, by) in self.claims.items():
            if not by & alive:
                yield f"law 5: {key} still holds {devices} for {by}, and nobody uses it"

        yield from self._made_twice(last)

    def _made_twice(self, last: Mapping[Key, Object]) -> Iterator[str]:
        """A claim is made once for each entry of a Pod, however often the reply was lost."""
        claims = (obj for key, obj in last.items() if key.resource == RESOURCE_CLAIM.resource)
        owners = Counter(each["uid"] for claim in claims for each in claim["metadata"].get("ownerReferences") or ())
        for uid, count in owners.items():
            if count > self.needs.get(uid, 0):
                yield f"law 5: Pod {uid} has {count} claims, and asks for {self.needs.get(uid, 0)}"

    def may_be_on(self, node: str, pod: Object, last: Mapping[Key, Object]) -> bool:
        """Whether the devices that the Pod waits for are there, by a naive count: each of its claims asks for one."""
        taken = {device for devices, _ in self.claims.values() for device in devices}
        free = _devices(node, last) - taken
        for entry in pod["spec"].get("resourceClaims") or ():
            claim = last.get(Key(RESOURCE_CLAIM.resource, pod["metadata"]["namespace"], _name(pod, entry)))
            if claim is None or "deletionTimestamp" in claim["metadata"]:
                return False
            if (devices := given(claim)) and not all(pool == node for pool, _ in devices):
                return False
            if not devices and not free:
                return False
        return True


def _name(pod: Object, entry: Fields) -> str:
    if direct := entry.get("resourceClaimName"):
        return str(direct)
    told = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return next((str(each["resourceClaimName"]) for each in told if each["name"] == entry["name"]), "")


def _devices(node: str, last: Mapping[Key, Object]) -> set[Device]:
    specs = [obj["spec"] for key, obj in last.items() if key.resource == RESOURCE_SLICE.resource]
    return {
        (each["pool"]["name"], device["name"])
        for each in specs
        if each["nodeName"] == node
        for device in each["devices"]
    }
