"""The agent as a client of DRA drivers: a Pod's claims are prepared before it starts, unprepared after their last user.

Both are idempotent. One claim is in the hands of one call at a time, so nobody runs on what is being unprepared.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import msgspec

from headrace.api.cdi import InvalidCdi
from headrace.api.kinds import RESOURCE_CLAIM
from headrace.api.objects import Object, metadata, uid_of
from headrace.node.cdi import edits
from headrace.node.device_record import DeviceRecord, PreparedClaim, PreparedDevice, PreparedDriver
from headrace.node.plugins import Plugin, channel_to
from headrace.node.pod import Container, Pod
from headrace.store.protocol import NotFound, Store
from headrace.wire.generated import dra_v1_pb2 as dra
from headrace.wire.generated.dra_v1_pb2_grpc import DRAPluginStub

CALL_SECONDS = 45.0  # the kubelet's limit for a driver


class DeviceProblem(Exception):
    """A claim cannot be prepared or unprepared now; the message says which, and by whose fault. Tried again."""


class Devices:
    """`find` gives a registered driver by name. Claims are read from the store, never from a cache: a claim that was
    deleted and made anew has another uid, and what was meant for the old one is refused."""

    def __init__(
        self, store: Store, record: DeviceRecord, find: Callable[[str], Plugin | None], cdi_directory: Path
    ) -> None:
        self._store, self._record, self._find, self._cdi = store, record, find, cdi_directory
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    async def prepare(self, pod: Pod) -> None:
        """All claims of the Pod, ready for its containers. Raises DeviceProblem, StoreError."""
        for entry in pod.spec.resource_claims:
            claim = await self._claim(pod, entry)
            if claim is None:
                continue
            with self._one_at_a_time(uid_of(claim)) as lock:
                async with lock:
                    await self._prepare(pod, claim)

    async def release(self, pod_uid: str) -> None:
        """The Pod uses its claims no more; what nobody else uses is unprepared. Raises DeviceProblem."""
        for claim in self._record.of_pod(pod_uid):
            with self._one_at_a_time(claim.uid) as lock:
                async with lock:
                    await self._release(claim.uid, pod_uid)

    async def audit(self, pods: Collection[str]) -> list[str]:
        """Release what belongs to Pods that are not here any more; answers what could not be released, and why."""
        failures: list[str] = []
        for pod_uid in {uid for claim in self._record.claims() for uid in claim.pods} - set(pods):
            try:
                await self.release(pod_uid)
            except DeviceProblem as problem:
                failures.append(str(problem))
        return failures

    def cdi_names(self, pod: Pod, container: Container) -> list[str]:
        """The CDI devices of a container, in the order of its claims. Raises DeviceProblem if one is not prepared."""
        found: list[str] = []
        for use in container.resources.get("claims") or ():
            entry = next((each for each in pod.spec.resource_claims if each["name"] == use["name"]), None)
            name = claim_name(pod, entry) if entry else None
            claim = next((each for each in self._record.of_pod(pod.uid) if each.name == name), None)
            if claim is None or not all(driver.prepared for driver in claim.drivers.values()):
                raise DeviceProblem(f"claim {use['name']!r} of container {container.name!r} is not prepared")
            for driver in claim.drivers.values():
                for device in driver.devices:
                    if _serves(device, use.get("request") or ""):
                        found += device.cdi
        return list(dict.fromkeys(found))

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
        if entry.get("resourceClaimTemplateName") and not _is_owned(claim, pod.uid):
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
        wanted = sorted({str(result["driver"]) for result in results})
        for driver in wanted:  # before anything is recorded: what no driver was asked for, none has to undo
            self._plugin(driver)
        known = self._record.get(uid)
        drivers = {driver: PreparedDriver(False) for driver in wanted} | (known.drivers if known else {})
        users = tuple(dict.fromkeys((*(known.pods if known else ()), pod.uid)))
        record = PreparedClaim(pod.namespace, name, uid, users, drivers)
        self._record.put(record)
        for driver in wanted:
            if drivers[driver].prepared and self._resolves(drivers[driver]):
                continue
            devices = await self._call_prepare(driver, record)
            drivers = drivers | {driver: PreparedDriver(True, devices)}
            record = msgspec.structs.replace(record, drivers=drivers)
            self._record.put(record)

    def _resolves(self, driver: PreparedDriver) -> bool:
        """Whether the driver's CDI documents are still there: some directories do not outlive a restart."""
        try:
            edits(self._cdi, [name for device in driver.devices for name in device.cdi])
        except InvalidCdi:
            return False
        return True

    async def _call_prepare(self, driver: str, claim: PreparedClaim) -> tuple[PreparedDevice, ...]:
        request = dra.NodePrepareResourcesRequest(claims=[_reference(claim)])
        try:
            async with self._channel(driver) as channel:
                answer = await _stub(channel).NodePrepareResources(request, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise DeviceProblem(f"driver {driver}: prepare claim {claim.name!r}: {error.details()}") from None
        result = answer.claims.get(claim.uid)
        if result is None:
            raise DeviceProblem(f"driver {driver}: prepare claim {claim.name!r}: the answer does not name its uid")
        if result.error:
            raise DeviceProblem(f"driver {driver}: prepare claim {claim.name!r}: {result.error}")
        return tuple(
            PreparedDevice(tuple(each.request_names), each.pool_name, each.device_name, tuple(each.cdi_device_ids))
            for each in result.devices
        )

    async def _release(self, uid: str, pod_uid: str) -> None:
        claim = self._record.get(uid)
        if claim is None or pod_uid not in claim.pods:
            return
        others = tuple(user for user in claim.pods if user != pod_uid)
        if others:
            self._record.put(msgspec.structs.replace(claim, pods=others))
            return
        for driver in claim.drivers:
            await self._call_unprepare(driver, claim)
        self._record.remove(uid)

    async def _call_unprepare(self, driver: str, claim: PreparedClaim) -> None:
        request = dra.NodeUnprepareResourcesRequest(claims=[_reference(claim)])
        try:
            async with self._channel(driver) as channel:
                answer = await _stub(channel).NodeUnprepareResources(request, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise DeviceProblem(f"driver {driver}: unprepare claim {claim.name!r}: {error.details()}") from None
        result = answer.claims.get(claim.uid)
        if result is None or result.error:
            why = result.error if result else "the answer does not name its uid"
            raise DeviceProblem(f"driver {driver}: unprepare claim {claim.name!r}: {why}")

    def _plugin(self, driver: str) -> Plugin:
        plugin = self._find(driver)
        if plugin is None:
            raise DeviceProblem(f"driver {driver} is not registered on this node")
        return plugin

    def _channel(self, driver: str) -> grpc.aio.Channel:
        return channel_to(self._plugin(driver).endpoint)

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


def claim_name(pod: Pod, entry: Mapping[str, Any]) -> str | None:
    """The ResourceClaim behind an entry of spec.resourceClaims; None while (or because) there is none."""
    if direct := entry.get("resourceClaimName"):
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


def _stub(channel: grpc.aio.Channel) -> DRAPluginStub:
    return DRAPluginStub(channel)  # type: ignore[no-untyped-call]  # generated code has no types


def _reference(claim: PreparedClaim) -> dra.Claim:
    return dra.Claim(namespace=claim.namespace, uid=claim.uid, name=claim.name)
