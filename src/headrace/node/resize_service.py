"""NodeAgent, the service of runtime changes of limits, at the agent: what is admitted is applied, and nothing else is.

Amounts on the wire are whole CPUs and MiB, rounded up, with the exact values beside them.
"""

from dataclasses import replace

import grpc

from headrace.api.kinds import POD
from headrace.node.actuator import Actuator, Actuators
from headrace.node.admitted import held_to, wants_restart
from headrace.node.containers import runs_of
from headrace.node.pod import view
from headrace.node.pod_worker import PodWorker
from headrace.node.pods import Pods
from headrace.node.refusal import Refused
from headrace.node.runtimes.protocol import Limits
from headrace.node.states import States
from headrace.store.protocol import NotFound, Store, StoreError
from headrace.wire.generated import resize_pb2 as wire

MIB = 1024 * 1024


class ResizeService:
    """Plain async functions; the stream is a thin shell around them. They raise Refused."""

    def __init__(self, store: Store, pods: Pods, states: States, actuators: Actuators) -> None:
        self._store, self._pods, self._states, self._actuators = store, pods, states, actuators

    async def update(self, request: wire.UpdateResourcesRequest) -> wire.UpdateResourcesResponse:
        """Converge to what is admitted, if that is what is asked for, and answer what was read back."""
        worker, container = self._workload(request.workload_id)
        wanted = self._wanted(request)
        limits = _admitted(worker, container)
        if request.revision > worker.pod.version or replace(limits, **wanted) != limits:
            await self._catch_up(worker)  # our watch may not have told yet what was admitted
            limits = _admitted(worker, container)
        pod = worker.pod
        asked = replace(limits, **wanted)
        if asked != limits:
            raise Refused(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"not admitted: {request.workload_id} asked for {asked}, "
                f"but {limits} is allocated at revision {pod.version}; resize the Pod first",
            )
        actuator = self._actuator(worker, container)
        if wants_restart(pod.container(container), pod.container_status(container), actuator.id):
            worker.wake()
            raise Refused(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"{request.workload_id} is restarted to be resized, as its resizePolicy says: ask again when it runs",
            )
        actuator.aim(limits, pod.version)
        await actuator.converge()
        worker.wake()
        problem = actuator.problem
        return wire.UpdateResourcesResponse(
            success=problem is None, message=problem.message if problem else "", status=_status(actuator)
        )

    async def status(self, request: wire.GetResourceStatusRequest) -> wire.GetResourceStatusResponse:
        """What enforces the container now: read, not remembered."""
        worker, container = self._workload(request.workload_id)
        actuator = self._actuator(worker, container)
        found = await actuator.reading()
        actual, is_known = found or Limits(), found is not None
        status = wire.ResourceRuntimeStatus(
            cpu_limit=whole_cpus(actual),
            memory_limit=mebibytes(actual),
            runtime_id=actuator.id,
            cpu_milli=actual.cpu_milli or 0,
            memory_bytes=actual.memory_bytes or 0,
            cpu_unlimited=actual.cpu_milli is None and is_known,
            memory_unlimited=actual.memory_bytes is None and is_known,
        )
        return wire.GetResourceStatusResponse(success=is_known, status=status)

    def _workload(self, id: str) -> tuple[PodWorker, str]:
        parts = id.split("/")
        if len(parts) != 3:
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, f"workload_id {id!r}: must be namespace/pod/container")
        namespace, name, container = parts
        worker = self._pods.find(namespace, name)
        if worker is None:
            raise Refused(grpc.StatusCode.NOT_FOUND, f"workload {id!r}: no such Pod on this node")
        spec = worker.pod.spec
        if container not in [each.name for each in (*spec.init_containers, *spec.containers)]:
            raise Refused(grpc.StatusCode.NOT_FOUND, f"workload {id!r}: the Pod has no such container")
        return worker, container

    def _wanted(self, request: wire.UpdateResourcesRequest) -> dict[str, int]:
        wanted: dict[str, int] = {}
        if request.HasField("cpu_milli") or request.HasField("cpu_limit"):
            exact = request.HasField("cpu_milli")
            wanted["cpu_milli"] = request.cpu_milli if exact else request.cpu_limit * 1000
        if request.HasField("memory_bytes") or request.HasField("memory_limit"):
            exact = request.HasField("memory_bytes")
            wanted["memory_bytes"] = request.memory_bytes if exact else request.memory_limit * MIB
        if 0 in wanted.values():
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "a limit must be greater than 0; an unset one is kept")
        return wanted

    def _actuator(self, worker: PodWorker, container: str) -> Actuator:
        runs = runs_of(worker.pod, container, self._states.of(worker.pod.uid))
        found = self._actuators.get(runs[-1].state.id) if runs and runs[-1].is_running else None
        if found is None:
            raise Refused(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"container {container!r} of {worker.pod.key} does not run; what is admitted is applied when it starts",
            )
        return found

    async def _catch_up(self, worker: PodWorker) -> None:
        try:
            worker.offer(view(await self._store.get(POD, worker.pod.name, worker.pod.namespace)))
        except NotFound:
            raise Refused(grpc.StatusCode.NOT_FOUND, f"Pod {worker.pod.key} is gone") from None
        except StoreError as error:
            raise Refused(grpc.StatusCode.UNAVAILABLE, str(error)) from None


def _admitted(worker: PodWorker, container: str) -> Limits:
    return held_to(worker.pod.container(container), worker.pod.container_status(container))


def whole_cpus(limits: Limits) -> int:
    return -(-(limits.cpu_milli or 0) // 1000)


def mebibytes(limits: Limits) -> int:
    return -(-(limits.memory_bytes or 0) // MIB)


def _status(actuator: Actuator) -> wire.ResourceStatus:
    found = actuator.actual if actuator.is_read else None  # what was read some time ago is not what is in force
    actual, is_known = found or Limits(), found is not None
    states = wire.ResourceUpdateState
    state = states.SUCCESS if actuator.is_converged else states.FAILED if actuator.problem else states.RUNNING
    return wire.ResourceStatus(
        actual_cpu_limit=whole_cpus(actual),
        actual_memory_limit=mebibytes(actual),
        update_state=state,
        cpu_milli=actual.cpu_milli or 0,
        memory_bytes=actual.memory_bytes or 0,
        cpu_unlimited=actual.cpu_milli is None and is_known,
        memory_unlimited=actual.memory_bytes is None and is_known,
        revision=max(0, actuator.in_force),
    )
