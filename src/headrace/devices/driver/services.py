"""The gRPC services of a plug-in on unix sockets: registration, DRA in two versions, health in two names.

Only translation and one rule: a call whose caller has gone is carried to its end, so that nothing runs beside it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import grpc
from structlog.typing import FilteringBoundLogger

from headrace.devices.driver.interface import DeviceHealth, ReportsHealth
from headrace.devices.driver.sockets import too_long
from headrace.runtime.clock import Clock
from headrace.wire.generated import dra_v1_pb2 as dra
from headrace.wire.generated import dra_v1_pb2_grpc, dra_v1beta1_pb2_grpc, health_v1_pb2_grpc, health_v1alpha1_pb2_grpc
from headrace.wire.generated import health_v1_pb2 as health
from headrace.wire.generated import registration_pb2 as registration
from headrace.wire.generated.registration_pb2_grpc import RegistrationServicer, add_RegistrationServicer_to_server

DRA_SERVICES = ("v1.DRAPlugin", "v1beta1.DRAPlugin")  # the first that both sides know is taken
HEALTH_SERVICES = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
HEALTH_SECONDS = 5.0
HEALTH_AGAIN_SECONDS = 10.0  # a kubelet takes a device for Unknown that it has not heard of for 30

T = TypeVar("T")


class Prepares(Protocol):
    async def prepare(self, claim: dra.Claim) -> dra.NodePrepareResourceResponse: ...
    async def unprepare(self, claim: dra.Claim) -> dra.NodeUnprepareResourceResponse: ...


class _Dra(dra_v1_pb2_grpc.DRAPluginServicer, dra_v1beta1_pb2_grpc.DRAPluginServicer):
    def __init__(self, plugin: Prepares) -> None:
        self._plugin = plugin
        self._calls: set[asyncio.Future[Any]] = set()

    async def NodePrepareResources(
        self, request: dra.NodePrepareResourcesRequest, context: Any
    ) -> dra.NodePrepareResourcesResponse:
        answers = await asyncio.gather(*(self._whole(self._plugin.prepare(claim)) for claim in request.claims))
        claims = {claim.uid: answer for claim, answer in zip(request.claims, answers, strict=True)}
        return dra.NodePrepareResourcesResponse(claims=claims)

    async def NodeUnprepareResources(
        self, request: dra.NodeUnprepareResourcesRequest, context: Any
    ) -> dra.NodeUnprepareResourcesResponse:
        answers = await asyncio.gather(*(self._whole(self._plugin.unprepare(claim)) for claim in request.claims))
        claims = {claim.uid: answer for claim, answer in zip(request.claims, answers, strict=True)}
        return dra.NodeUnprepareResourcesResponse(claims=claims)

    async def _whole(self, call: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(call)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return await asyncio.shield(task)


class _Health(health_v1_pb2_grpc.DRAResourceHealthServicer, health_v1alpha1_pb2_grpc.DRAResourceHealthServicer):
    def __init__(self, driver: ReportsHealth, clock: Clock) -> None:
        self._driver, self._clock = driver, clock

    async def NodeWatchResources(
        self, request: health.NodeWatchResourcesRequest, context: Any
    ) -> AsyncIterator[health.NodeWatchResourcesResponse]:
        """All devices at once, whenever one has changed, and now and then: silence would be taken for Unknown."""
        told: Sequence[DeviceHealth] | None = None
        told_at = 0.0
        while True:
            found, now = await asyncio.to_thread(self._driver.health), self._clock.monotonic()
            if found != told or now - told_at >= HEALTH_AGAIN_SECONDS:
                told, told_at = found, now
                yield health.NodeWatchResourcesResponse(devices=[_health(each, self._clock.wall()) for each in found])
            await self._clock.sleep(HEALTH_SECONDS)


class _Registration(RegistrationServicer):
    def __init__(self, name: str, endpoint: Path, versions: Sequence[str], log: FilteringBoundLogger) -> None:
        self._name, self._endpoint, self._versions, self._log = name, endpoint, versions, log

    async def GetInfo(self, request: registration.InfoRequest, context: Any) -> registration.PluginInfo:
        return registration.PluginInfo(
            type="DRAPlugin", name=self._name, endpoint=str(self._endpoint), supported_versions=self._versions
        )

    async def NotifyRegistrationStatus(
        self, request: registration.RegistrationStatus, context: Any
    ) -> registration.RegistrationStatusResponse:
        if request.plugin_registered:
            self._log.info("registered")
        else:
            self._log.warning("refused by the agent", error=request.error)
        return registration.RegistrationStatusResponse()


async def serve_driver(path: Path, plugin: Prepares, driver: object, clock: Clock) -> grpc.aio.Server:
    """Started; it answers DRA, and health where the driver reports it. Raises OSError."""
    server = _server(path)
    dra_services = _Dra(plugin)
    for module in (dra_v1_pb2_grpc, dra_v1beta1_pb2_grpc):
        _add(module.add_DRAPluginServicer_to_server, dra_services, server)
    if isinstance(driver, ReportsHealth):
        reports = _Health(driver, clock)
        for module in (health_v1_pb2_grpc, health_v1alpha1_pb2_grpc):
            _add(module.add_DRAResourceHealthServicer_to_server, reports, server)
    await server.start()
    return server


async def serve_registration(
    path: Path, name: str, endpoint: Path, driver: object, log: FilteringBoundLogger
) -> grpc.aio.Server:
    """Started, and so the kubelet comes and asks. Raises OSError."""
    versions = (*DRA_SERVICES, *(HEALTH_SERVICES if isinstance(driver, ReportsHealth) else ()))
    server = _server(path)
    _add(add_RegistrationServicer_to_server, _Registration(name, endpoint, versions, log), server)
    await server.start()
    return server


def _add(add: Callable[[Any, Any], None], servicer: object, server: grpc.aio.Server) -> None:
    add(servicer, server)


def _server(path: Path) -> grpc.aio.Server:
    """On a unix socket in a directory that only its owner may enter. Raises OSError."""
    if told := too_long(path):
        raise OSError(told)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    server = grpc.aio.server()
    server.add_insecure_port(f"unix://{path}")
    return server


def _health(found: DeviceHealth, now: float) -> health.DeviceHealth:
    return health.DeviceHealth(
        device=health.DeviceIdentifier(pool_name=found.pool, device_name=found.device),
        health=health.HEALTHY if found.healthy else health.UNHEALTHY,
        last_updated_time=int(now),
        message=found.message,
    )
