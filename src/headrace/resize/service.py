"""ResourceManager and ActionController as gRPC faces: plain async functions under a thin shell.

They raise ServiceError; the words of refusals are the ledger's, behind the design's ("Insufficient CPU: …").
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headrace.api.amounts import CPU, MEMORY, PODS, Amounts, quantities, read
from headrace.api.kinds import CAPACITY_RESERVATION, NODE, POD, RESOURCE_SCALING_ACTION
from headrace.api.objects import Object, key_of, marked_name, name_of, namespace_of, uid_of, version_of
from headrace.api.times import to_micro_time
from headrace.ledger.node import Ledger
from headrace.ledger.pods import contribution
from headrace.objects.validation.resizing import LEAST_MILLICORES
from headrace.resize import workload
from headrace.resize.actions_plan import is_finished
from headrace.resize.sync import SYNC_NUMBERS
from headrace.runtime.actions import RESIZE
from headrace.store.protocol import AlreadyExists, Conflict, Invalid, NotFound, Refused, Store, StoreError
from headrace.wire.generated import resize_pb2 as wire

MIB = 1024 * 1024
RESERVATION_SECONDS = 10.0
ANSWER_SECONDS = 120.0
DECISION_SECONDS = 2.0
ATTEMPTS = 5

Code = Literal["INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "UNAVAILABLE", "DEADLINE_EXCEEDED"]


class ServiceError(Exception):
    """A gRPC status by name, and a sentence."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass(frozen=True, slots=True)
class _Place:
    pod: Object
    container: str

    @property
    def node(self) -> str:
        return str(self.pod["spec"].get("nodeName") or "")

    def wished(self, target: Amounts) -> Object:
        return workload.with_resources(self.pod, self.container, workload.resized(self.pod, self.container, target))


class ResizeServices:
    """`wall` is seconds since the epoch; `ledger_of` the committed ledger of a node, to tell what is available."""

    def __init__(
        self, store: Store, *, wall: Callable[[], float], ledger_of: Callable[[str], Ledger | None] = lambda _: None
    ) -> None:
        self._store, self._wall, self._ledger_of = store, wall, ledger_of

    # ResourceManager

    async def validate(self, request: wire.ValidateResourceUpdateRequest) -> wire.ValidateResourceUpdateResponse:
        """Allowed means kept: the reservation is the check, made where every admission is made."""
        target = wanted(request.requested_cpu, request.requested_memory, request.cpu_milli, request.memory_bytes)
        place = await self._on_a_node(request.workload_id)
        after = place.wished(target)
        if workload.changes_qos(place.pod, after):
            return self._answer(
                False, f"Resource Validation Failed: {workload.words(target)} would change the QoS class", place
            )
        wish = contribution(workload.as_admitted(after, place.container)).wish(contribution(place.pod))
        try:
            name = await self._reserve(place, {each: wish[each] for each in wish if each != PODS})
        except Refused as refused:
            reason = "InsufficientMemory" if MEMORY in refused.shortfall.missing else "InsufficientCPU"
            return self._answer(False, f"{workload.BEGINNINGS[reason]}: {refused}", place)
        return self._answer(True, "", place, name)

    async def _reserve(self, place: _Place, floor: Mapping[str, int]) -> str:
        """One reservation a workload: asking again moves it and prolongs it."""
        pod = place.pod
        mark = hashlib.sha256(f"{uid_of(pod)}/{place.container}".encode()).hexdigest()[:8]
        name = marked_name(f"resize-{name_of(pod)}", mark)
        spec = {
            "node": place.node,
            "resources": quantities(floor),
            "beneficiaries": {"pods": [name_of(pod)]},
            "expirationTime": to_micro_time(self._wall() + RESERVATION_SECONDS),
        }
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod)}
        wanted = {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec}
        for _ in range(ATTEMPTS):
            try:
                await self._store.patch(CAPACITY_RESERVATION, name, namespace_of(pod), fields={"spec": spec})
            except NotFound:
                try:
                    await self._store.create(CAPACITY_RESERVATION, wanted, namespace_of(pod))
                except AlreadyExists:
                    continue  # somebody else has just asked
            return f"{namespace_of(pod)}/{name}"
        raise ServiceError("UNAVAILABLE", f"reservation {name}: changed by others {ATTEMPTS} times")

    def _answer(
        self, allowed: bool, reason: str, place: _Place, reservation: str = ""
    ) -> wire.ValidateResourceUpdateResponse:
        ledger = self._ledger_of(place.node)
        available = ledger.available() if ledger is not None else {}
        return wire.ValidateResourceUpdateResponse(
            allowed=allowed,
            reason=reason,
            available_cpu_milli=available.get(CPU, 0),
            available_memory_bytes=available.get(MEMORY, 0),
            reservation=reservation,
        )

    async def update_desired(self, request: wire.UpdateDesiredStateRequest) -> wire.UpdateDesiredStateResponse:
        """Recorded, and answered as soon as it is admitted or waits: the answer's sync_state and message say which."""
        target = wanted(request.cpu_limit, request.memory_limit, request.cpu_milli, request.memory_bytes)
        try:
            pod, container = await self._desire(request.workload_id, target)
        except Invalid as wrong:
            failed = wire.ResourceSyncState.State.FAILED
            told = f"Resource Validation Failed: {wrong}"
            return wire.UpdateDesiredStateResponse(success=False, sync_state=failed, message=told)
        pod = await self._decided(pod)
        node = await self._node(pod)
        judged = workload.judge(pod, container, node)
        told = workload.begun(judged.reason, judged.message, node)
        return wire.UpdateDesiredStateResponse(
            success=True, sync_state=_sync(judged.sync), message=told, revision=int(version_of(pod) or 0)
        )

    async def _desire(self, id: str, target: Amounts) -> tuple[Object, str]:
        """The Pod with these limits desired. What is not in `target` stays what it is in the write, not before it."""
        for _ in range(ATTEMPTS):
            place = _living(id, await self._place(id))
            pod, name = place.pod, place.container
            given = {"name": name, "resources": workload.resized(pod, name, target)}
            fields = {"spec": {workload.field_of(pod, name): [given]}}
            at = (POD, name_of(pod), namespace_of(pod))
            try:
                changed = await self._store.patch(
                    *at, fields=fields, version=version_of(pod), subresource=RESIZE, strategic=True
                )
            except Conflict:
                continue
            return changed, name
        raise ServiceError(
            "UNAVAILABLE", f"workload {id!r}: its Pod was changed by others {ATTEMPTS} times in between; ask again"
        )

    async def _decided(self, pod: Object) -> Object:
        """The Pod as the ResourceManager has answered it; as it is where that takes long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DECISION_SECONDS):
                while not workload.is_decided(pod):
                    place = f"metadata.name={name_of(pod)}"
                    changes = self._store.watch(POD, namespace_of(pod), since=version_of(pod), fields=place)
                    async for event in changes:
                        if event.type == "DELETED":
                            return pod
                        if event.type != "BOOKMARK":
                            pod = event.object
                        if workload.is_decided(pod):
                            break
        return pod

    async def report_actual(self, request: wire.ReportActualStateRequest) -> wire.ReportActualStateResponse:
        """Compared with what is desired. Nothing is recorded: the actual state is the agent's own, read back by it."""
        place = await self._place(request.workload_id)
        states = wire.ResourceSyncState.State
        if not request.update_success:
            return wire.ReportActualStateResponse(sync_state=states.FAILED)
        actual = {CPU: request.cpu_milli or request.cpu_limit * 1000}
        actual[MEMORY] = request.memory_bytes or request.memory_limit * MIB
        desired = workload.desired_limits(place.pod, place.container)
        exact = {CPU: bool(request.cpu_milli), MEMORY: bool(request.memory_bytes)}
        same = all(_same(each, desired.get(each, 0), actual[each], exact[each]) for each in (CPU, MEMORY))
        if same:
            return wire.ReportActualStateResponse(synchronized=True, sync_state=states.SYNCHRONIZED)
        admitted = workload.admitted_limits(place.pod, place.container)
        if admitted != desired:
            return wire.ReportActualStateResponse(sync_state=states.PENDING)
        return wire.ReportActualStateResponse(sync_state=states.DRIFT_DETECTED, drift_detected=True)

    async def state(self, request: wire.GetResourceStateRequest) -> wire.GetResourceStateResponse:
        try:
            place = await self._place(request.workload_id)
        except ServiceError as error:
            if error.code != "NOT_FOUND":
                raise
            return wire.GetResourceStateResponse(found=False, message=error.message)
        pod, name = place.pod, place.container
        node = await self._node(pod)
        judged = workload.judge(pod, name, node)
        desired, admitted = workload.desired_limits(pod, name), workload.admitted_limits(pod, name)
        actual = workload.actual_limits(pod, name) or {}
        return wire.GetResourceStateResponse(
            found=True,
            desired_cpu=_cpus(desired),
            desired_memory=_mebibytes(desired),
            actual_cpu=_cpus(actual),
            actual_memory=_mebibytes(actual),
            sync_state=_sync(judged.sync),
            desired_cpu_milli=desired.get(CPU, 0),
            desired_memory_bytes=desired.get(MEMORY, 0),
            actual_cpu_milli=actual.get(CPU, 0),
            actual_memory_bytes=actual.get(MEMORY, 0),
            admitted_cpu_milli=admitted.get(CPU, 0),
            admitted_memory_bytes=admitted.get(MEMORY, 0),
            reason=judged.reason,
            message=workload.begun(judged.reason, judged.message, node),
        )

    # ActionController

    async def request_scaling(self, request: wire.ScalingActionRequest) -> wire.ScalingActionResponse:
        """Creates the action and answers when it has ended; at once when it is deferred."""
        target = wanted(request.target_cpu_limit, request.target_memory_limit, request.cpu_milli, request.memory_bytes)
        place = await self._on_a_node(request.workload_id)
        if request.node_id and request.node_id != place.node:
            said = f"node_id {request.node_id!r}: {request.workload_id} runs on {place.node!r}"
            raise ServiceError("INVALID_ARGUMENT", said)
        try:
            action = await self._store.create(
                RESOURCE_SCALING_ACTION,
                action_for(place.pod, place.container, target, request),
                namespace_of(place.pod),
            )
        except Invalid as wrong:
            raise ServiceError("INVALID_ARGUMENT", str(wrong)) from None
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                ended = await self._ended(action)
        except TimeoutError:
            said = f"{key_of(action)} has not ended within {ANSWER_SECONDS:g} s; it goes on"
            raise ServiceError("DEADLINE_EXCEEDED", said) from None
        return _response(ended, place)

    async def _ended(self, action: Object) -> Object:
        """Follows the action's own watch."""
        version, name = version_of(action), name_of(action)
        while True:
            changes = self._store.watch(
                RESOURCE_SCALING_ACTION, namespace_of(action), since=version, fields=f"metadata.name={name}"
            )
            async for event in changes:
                version = version_of(event.object)
                if event.type == "DELETED":
                    raise ServiceError("NOT_FOUND", f"{key_of(action)} was deleted")
                deferred = (event.object.get("status") or {}).get("reason") == "Deferred"
                if event.type != "BOOKMARK" and (is_finished(event.object) or deferred):
                    return event.object

    # What both need

    async def _place(self, id: str) -> _Place:
        parts = id.split("/")
        if len(parts) != 3 or not all(parts):
            raise ServiceError("INVALID_ARGUMENT", f"workload_id {id!r}: must be namespace/pod/container")
        namespace, name, container = parts
        try:
            pod = await self._store.get(POD, name, namespace)
        except NotFound:
            raise ServiceError("NOT_FOUND", f"workload {id!r}: no such Pod") from None
        except StoreError as error:
            raise ServiceError("UNAVAILABLE", str(error)) from None
        if workload.container_of(pod, container) is None:
            raise ServiceError("NOT_FOUND", f"workload {id!r}: the Pod has no such container")
        return _Place(pod, container)

    async def _on_a_node(self, id: str) -> _Place:
        place = await self._place(id)
        if not place.node:
            raise ServiceError("FAILED_PRECONDITION", f"workload {id!r}: the Pod is on no node yet")
        return _living(id, place)

    async def _node(self, pod: Object) -> Object | None:
        try:
            return await self._store.get(NODE, str(pod["spec"].get("nodeName") or ""))
        except StoreError:
            return None


def _living(id: str, place: _Place) -> _Place:
    if workload.is_leaving(place.pod):
        raise ServiceError("FAILED_PRECONDITION", f"workload {id!r}: the Pod has ended or is being deleted")
    return place


def wanted(cpus: int, mebibytes: int, cpu_milli: int, memory_bytes: int) -> Amounts:
    """New limits. Raises ServiceError if nothing is asked for, or less than the kernel's smallest quota."""
    target = {CPU: cpu_milli or cpus * 1000, MEMORY: memory_bytes or mebibytes * MIB}
    target = {name: amount for name, amount in target.items() if amount}
    if not target:
        raise ServiceError("INVALID_ARGUMENT", "a limit must be greater than 0; one that is not given is kept")
    if target.get(CPU, LEAST_MILLICORES) < LEAST_MILLICORES:
        raise ServiceError("INVALID_ARGUMENT", f"cpu limit {target[CPU]}m: must be at least {LEAST_MILLICORES}m")
    return target


def action_for(pod: Object, container: str, target: Amounts, request: wire.ScalingActionRequest) -> Object:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod)}
    spec: dict[str, Any] = {
        "workload": f"{name_of(pod)}/{container}",
        "node": str(pod["spec"].get("nodeName") or ""),
        "current": quantities(workload.admitted_limits(pod, container)),
        "target": quantities(target),
        "priority": request.priority,
    }
    if request.on_insufficient:
        spec["onInsufficient"] = request.on_insufficient
    prefix = f"{name_of(pod)}-{container}"[:200].rstrip(".")
    return {"metadata": {"generateName": f"{prefix}-", "ownerReferences": [owner]}, "spec": spec}


def _response(action: Object, place: _Place) -> wire.ScalingActionResponse:
    status = action["status"]
    actual = read(status.get("actual")) or workload.actual_limits(place.pod, place.container) or {}
    return wire.ScalingActionResponse(
        success=status["state"] == "Succeeded",
        message=str(status.get("message", "")),
        sync_state=_sync(status.get("syncState", "UNKNOWN")),
        actual_cpu_limit=_cpus(actual),
        actual_memory_limit=_mebibytes(actual),
        cpu_milli=actual.get(CPU, 0),
        memory_bytes=actual.get(MEMORY, 0),
        action=key_of(action),
        reason=str(status.get("reason", "")),
    )


def _sync(state: Any) -> Any:
    return SYNC_NUMBERS[state]


def _cpus(amounts: Amounts) -> int:
    return -(-amounts.get(CPU, 0) // 1000)


def _mebibytes(amounts: Amounts) -> int:
    return -(-amounts.get(MEMORY, 0) // MIB)


def _same(name: str, desired: int, actual: int, exact: bool) -> bool:
    """Whole numbers are rounded up, so they are compared as such; memory is kept in pages."""
    if name == MEMORY:
        unit = 4096 if exact else MIB
        return -(-desired // unit) == -(-actual // unit) or desired // unit == actual // unit
    return desired == actual if exact else -(-desired // 1000) * 1000 == actual
