"""The agent as a client of DRA drivers: a Pod's claims are prepared before it starts, unprepared after their last user.

Both are idempotent. One claim is in the hands of one call at a time, so nobody runs on what is being unprepared.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from headrace.api.cdi import InvalidCdi
from headrace.api.kinds import RESOURCE_CLAIM
from headrace.api.objects import Object, metadata, uid_of
from headrace.node.cdi import edits
from headrace.node.device_health import DeviceID, Health
from headrace.node.device_record import DeviceRecord, PreparedClaim, PreparedDevice, PreparedDriver, unprepared
from headrace.node.driver_client import DeviceProblem, DriverClient, DriverGone
from headrace.node.plugins import Plugin
from headrace.node.pod import Container, Pod
from headrace.store.protocol import NotFound, Store

EXTENDED = "<extended-resources>"  # no name that an entry of spec.resourceClaims may have
SKIP_PREPARE, SKIP_UNPREPARE = {"NodePrepareResources", "*"}, {"NodeUnprepareResources", "*"}


class Devices:
    """`find` gives a registered driver by name. Claims are read from the store, never from a cache: a claim that was
    deleted and made anew has another uid, and what was meant for the old one is refused.

    Whatever the control plane believes, no device is prepared for a claim while it is another's here: after a Node
    was deleted, say, whose containers still end. `look_again` wakes the Pod (uid) that waited for one.
    """

    def __init__(
        self,
        store: Store,
        record: DeviceRecord,
        find: Callable[[str], Plugin | None],
        cdi_directory: Path,
        look_again: Callable[[str], None] = lambda pod_uid: None,
        health: Callable[[DeviceID], Health] = lambda device: Health(),
    ) -> None:
        self._store, self._record, self._cdi = store, record, cdi_directory
        self._look_again, self._health = look_again, health
        self._waiting: set[str] = set()  # Pods, for a device that is another claim's
        self._drivers = DriverClient(find)
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    async def prepare(self, pod: Pod) -> None:
        """All claims of the Pod, ready for its containers. Raises DeviceProblem, StoreError."""
        for entry in entries(pod):
            claim = await self._claim(pod, entry)
            if claim is None:
                continue
            with self._one_at_a_time(uid_of(claim)) as lock:
                async with lock:
                    await self._prepare(pod, claim)

    async def release(self, pod_uid: str) -> None:
        """The Pod uses its claims no more; what nobody else uses is unprepared. Raises DeviceProblem, and DriverGone
        only where nothing but drivers that are gone stands in the way."""
        problems: list[DeviceProblem] = []
        for claim in self._record.of_pod(pod_uid):
            try:
                with self._one_at_a_time(claim.uid) as lock:
                    async with lock:
                        await self._release(claim.uid, pod_uid)
            except DeviceProblem as problem:
                problems.append(problem)
        _raise(problems)

    async def abandon(self, pod_uid: str) -> None:
        """Let the Pod go without those drivers that are gone. What they prepared stays recorded as owed: it is
        unprepared when they are back, and never given to anybody as it is."""
        for claim in self._record.of_pod(pod_uid):
            with self._one_at_a_time(claim.uid) as lock:
                async with lock:
                    known = self._record.get(claim.uid)
                    if known is None or pod_uid not in known.pods:
                        continue
                    others = tuple(user for user in known.pods if user != pod_uid)
                    owed = known.drivers if others else unprepared(known.drivers)
                    self._record.put(msgspec.structs.replace(known, pods=others, drivers=owed))

    async def audit(self, pods: Collection[str]) -> list[str]:
        """Release what belongs to Pods that are not here any more, or to none; answers what could not be, and why."""
        failures: list[str] = []
        for claim in self._record.claims():
            for pod_uid in set(claim.pods) - set(pods) or ({""} if not claim.pods else ()):
                try:
                    with self._one_at_a_time(claim.uid) as lock:
                        async with lock:
                            await self._release(claim.uid, pod_uid)
                except DeviceProblem as problem:
                    failures.append(str(problem))
        return failures

    def cdi_names(self, pod: Pod, container: Container) -> list[str]:
        """The CDI devices of a container, in the order of its claims. Raises DeviceProblem if one is not prepared."""
        found: list[str] = []
        for use in _uses(pod, container):
            entry = next((each for each in entries(pod) if each["name"] == use["name"]), None)
            name = claim_name(pod, entry) if entry else None
            claim = next((each for each in self._record.of_pod(pod.uid) if each.name == name), None)
            if claim is None or not all(driver.prepared for driver in claim.drivers.values()):
                raise DeviceProblem(f"claim {use['name']!r} of container {container.name!r} is not prepared")
            for driver in claim.drivers.values():
                for device in driver.devices:
                    if _serves(device, use.get("request") or ""):
                        found += device.cdi
        return list(dict.fromkeys(found))

    def allocated_status(self, pod: Pod, container: Container) -> list[dict[str, Any]]:
        """A container's `allocatedResourcesStatus` as a kubelet writes it: the health of each device of its claims."""
        found: dict[str, list[dict[str, Any]]] = {}
        for use in container.resources.get("claims") or ():
            request = str(use.get("request") or "")
            entry = next((each for each in entries(pod) if each["name"] == use["name"]), None)
            name = claim_name(pod, entry) if entry else None
            claim = next((each for each in self._record.of_pod(pod.uid) if each.name == name), None)
            told: dict[str, dict[str, Any]] = {}
            for driver, known in sorted((claim.drivers if claim else {}).items()):
                for device in known.devices:
                    if _serves(device, request.partition("/")[0]):
                        id = device.cdi[0] if device.cdi else f"{driver}/{device.pool}/{device.device}"
                        health = self._health((driver, device.pool, device.device))
                        message = {"message": health.message} if health.message else {}
                        told.setdefault(id, {"resourceID": id, "health": health.status} | message)
            if told:
                found[f"claim:{use['name']}" + (f"/{request}" if request else "")] = list(told.values())
        return [{"name": name, "resources": resources} for name, resources in found.items()]

    def users_of(self, devices: Collection[DeviceID]) -> set[str]:
        """The Pods (uids) whose claims have any of these devices."""
        return {
            pod
            for claim in self._record.claims()
            for driver, known in claim.drivers.items()
            for device in known.devices
            if (driver, device.pool, device.device) in devices
            for pod in claim.pods
        }

    async def _claim(self, pod: Pod, entry: Mapping[str, Any]) -> Object | None:
        """The claim behind an entry of spec.resourceClaims, checked to be this Pod's to use; None: it needs none."""
        name = claim_name(pod, entry)
        if name is None:
            if any(status["name"] == entry["name"] for status in pod.status.get("resourceClaimStatuses") or ()):
                return None
            raise DeviceProblem(f"claim {entry['name']!r}: not created from its template yet")
        try:
            claim = await self._store.get(RESOURCE_CLAIM, name, pod.namespace)
        except NotFound:
            raise DeviceProblem(f"resourceclaim {name!r} not found") from None
        if not entry.get("resourceClaimName") and not _is_owned(claim, pod.uid):
            raise DeviceProblem(f"resourceclaim {name!r} was not created for Pod {pod.key}")
        status = claim.get("status") or {}
        if not status.get("allocation"):
            raise DeviceProblem(f"resourceclaim {name!r} is not allocated")
        if not any(user.get("uid") == pod.uid for user in status.get("reservedFor") or ()):
            raise DeviceProblem(f"resourceclaim {name!r} is not reserved for Pod {pod.key}")
        return claim

    async def _prepare(self, pod: Pod, claim: Object) -> None:
        uid, name = uid_of(claim), str(metadata(claim)["name"])
        results = claim["status"]["allocation"].get("devices", {}).get("results") or ()
        wanted = {driver: _skipped(results, driver) for driver in sorted({str(each["driver"]) for each in results})}
        for driver, skips in wanted.items():
            # Before anything is recorded: what no driver was asked for, none has to undo.
            if not SKIP_PREPARE & skips:
                self._drivers.plugin(driver)
        whole = _whole(results)
        self._must_be_free(whole, uid, pod.uid)
        known = self._record.get(uid)
        drivers = {driver: PreparedDriver(False, skips=tuple(sorted(skips))) for driver, skips in wanted.items()}
        drivers |= known.drivers if known else {}
        users = tuple(dict.fromkeys((*(known.pods if known else ()), pod.uid)))
        record = PreparedClaim(pod.namespace, name, uid, users, drivers, whole)
        self._record.put(record)
        for driver in wanted:
            if drivers[driver].prepared and self._resolves(drivers[driver]):
                continue
            skips = set(drivers[driver].skips)
            devices = () if SKIP_PREPARE & skips else await self._drivers.prepare(driver, record)
            drivers = drivers | {driver: msgspec.structs.replace(drivers[driver], prepared=True, devices=devices)}
            record = msgspec.structs.replace(record, drivers=drivers)
            self._record.put(record)

    def _must_be_free(self, whole: tuple[str, ...], uid: str, pod_uid: str) -> None:
        for other in self._record.claims():
            if other.uid != uid and (taken := sorted(set(whole).intersection(other.whole))):
                self._waiting.add(pod_uid)
                raise DeviceProblem(
                    f"device {', '.join(taken)} is still prepared for resourceclaim {other.name!r} in namespace "
                    f"{other.namespace}: it is free when the containers that use it have ended"
                )

    def _resolves(self, driver: PreparedDriver) -> bool:
        """Whether the driver's CDI documents are still there: some directories do not outlive a restart."""
        try:
            edits(self._cdi, [name for device in driver.devices for name in device.cdi])
        except InvalidCdi:
            return False
        return True

    async def _release(self, uid: str, pod_uid: str) -> None:
        """`pod_uid` empty: nobody's."""
        claim = self._record.get(uid)
        if claim is None or (pod_uid not in claim.pods if pod_uid else claim.pods):
            return
        others = tuple(user for user in claim.pods if user != pod_uid)
        if others:
            self._record.put(msgspec.structs.replace(claim, pods=others))
            return
        problems: list[DeviceProblem] = []
        for driver, known in claim.drivers.items():
            if not SKIP_UNPREPARE & set(known.skips):
                try:
                    await self._drivers.unprepare(driver, claim)
                except DeviceProblem as problem:
                    problems.append(problem)
        _raise(problems)
        self._record.remove(uid)
        waiting, self._waiting = self._waiting, set()
        for each in waiting:
            self._look_again(each)

    @contextmanager
    def _one_at_a_time(self, uid: str) -> Iterator[asyncio.Lock]:
        """The claim's lock, kept only while somebody holds it or waits for it."""
        lock, users = self._locks.get(uid, (asyncio.Lock(), 0))
        self._locks[uid] = (lock, users + 1)
        try:
            yield lock
        finally:
            lock, users = self._locks[uid]
            if users == 1:
                del self._locks[uid]
            else:
                self._locks[uid] = (lock, users - 1)


def entries(pod: Pod) -> list[Mapping[str, Any]]:
    """What the Pod's spec names, and the claim that the scheduler made for its extended resources."""
    made = pod.status.get("extendedResourceClaimStatus") or {}
    if not made.get("resourceClaimName"):
        return list(pod.spec.resource_claims)
    return [*pod.spec.resource_claims, {"name": EXTENDED, "made": made["resourceClaimName"]}]


def _uses(pod: Pod, container: Container) -> list[Mapping[str, Any]]:
    made = pod.status.get("extendedResourceClaimStatus") or {}
    mapped = [each for each in made.get("requestMappings") or () if each.get("containerName") == container.name]
    requests = [{"name": EXTENDED, "request": each.get("requestName")} for each in mapped]
    return [*(container.resources.get("claims") or ()), *requests]


def claim_name(pod: Pod, entry: Mapping[str, Any]) -> str | None:
    """The ResourceClaim behind an entry of spec.resourceClaims; None while (or because) there is none."""
    if direct := entry.get("resourceClaimName") or entry.get("made"):
        return str(direct)
    for status in pod.status.get("resourceClaimStatuses") or ():
        if status["name"] == entry["name"]:
            name = status.get("resourceClaimName")
            return str(name) if name else None
    return None


def _is_owned(claim: Object, pod_uid: str) -> bool:
    return any(owner.get("uid") == pod_uid for owner in metadata(claim).get("ownerReferences") or ())


def _serves(device: PreparedDevice, request: str) -> bool:
    """Whether a device belongs to a container's request; a subrequest (`gpu/big`) belongs to its request."""
    if not request or not device.requests:
        return True
    return any(name == request or name.partition("/")[0] == request for name in device.requests)


def _raise(problems: Sequence[DeviceProblem]) -> None:
    """A driver that refuses comes before one that is gone: against it nothing is abandoned."""
    for problem in sorted(problems, key=lambda each: isinstance(each, DriverGone)):
        raise problem


def _whole(results: Collection[Mapping[str, Any]]) -> tuple[str, ...]:
    """Devices that nobody else may have: not shared, not looked into by an administrator."""
    mine = [each for each in results if not each.get("shareID") and not each.get("adminAccess")]
    return tuple(sorted({f"{each['driver']}/{each['pool']}/{each['device']}" for each in mine}))


def _skipped(results: Collection[Mapping[str, Any]], driver: str) -> set[str]:
    """The operations that every device of the driver says to need none of (skipNodeOperations)."""
    each = [set(result.get("skipNodeOperations") or ()) for result in results if result["driver"] == driver]
    named = set[str]().union(*each)
    return {operation for operation in named if all({operation, "*"} & skips for skips in each)}
