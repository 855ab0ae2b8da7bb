"""The services of resizing on the gRPC port: who calls, may they, and the plain functions of the job."""

import contextlib
from collections.abc import AsyncIterator

import grpc

from headrace.apiserver.agents import Callers, Context
from headrace.resize.monitoring import BadMetrics, Monitoring
from headrace.resize.service import ResizeServices, ServiceError
from headrace.store.protocol import Refused, StoreError
from headrace.wire.generated import resize_pb2 as wire
from headrace.wire.generated.resize_pb2_grpc import (
    ActionControllerServicer,
    MonitoringServerServicer,
    ResourceManagerServicer,
    add_ActionControllerServicer_to_server,
    add_MonitoringServerServicer_to_server,
    add_ResourceManagerServicer_to_server,
)


class ResourceManagerService(ResourceManagerServicer):
    def __init__(self, services: ResizeServices, callers: Callers) -> None:
        self._services, self._callers = services, callers

    async def ValidateResourceUpdate(
        self, request: wire.ValidateResourceUpdateRequest, context: Context
    ) -> wire.ValidateResourceUpdateResponse:
        await self._callers.identity(context, "admin", "controller")
        async with aborting(context):
            return await self._services.validate(request)
        raise AssertionError("an abort raises")

    async def UpdateDesiredState(
        self, request: wire.UpdateDesiredStateRequest, context: Context
    ) -> wire.UpdateDesiredStateResponse:
        await self._callers.identity(context, "admin", "controller")
        async with aborting(context):
            return await self._services.update_desired(request)
        raise AssertionError("an abort raises")

    async def ReportActualState(
        self, request: wire.ReportActualStateRequest, context: Context
    ) -> wire.ReportActualStateResponse:
        await self._callers.identity(context, "admin", "controller", "viewer")
        async with aborting(context):
            return await self._services.report_actual(request)
        raise AssertionError("an abort raises")

    async def GetResourceState(
        self, request: wire.GetResourceStateRequest, context: Context
    ) -> wire.GetResourceStateResponse:
        await self._callers.identity(context, "admin", "controller", "viewer")
        async with aborting(context):
            return await self._services.state(request)
        raise AssertionError("an abort raises")


class ActionControllerService(ActionControllerServicer):
    def __init__(self, services: ResizeServices, callers: Callers) -> None:
        self._services, self._callers = services, callers

    async def RequestResourceScaling(
        self, request: wire.ScalingActionRequest, context: Context
    ) -> wire.ScalingActionResponse:
        await self._callers.identity(context, "admin", "controller")
        async with aborting(context):
            return await self._services.request_scaling(request)
        raise AssertionError("an abort raises")


class MonitoringService(MonitoringServerServicer):
    def __init__(self, monitoring: Monitoring, callers: Callers) -> None:
        self._monitoring, self._callers = monitoring, callers

    async def ReportMetrics(self, request: wire.ReportMetricsRequest, context: Context) -> wire.ReportMetricsResponse:
        await self._callers.identity(context, "admin", "controller")
        try:
            self._monitoring.report(request.workload_id, dict(request.metrics))
        except BadMetrics as wrong:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(wrong))
        return wire.ReportMetricsResponse()

    async def WatchPerformanceEvents(
        self, request: wire.WatchPerformanceEventsRequest, context: Context
    ) -> AsyncIterator[wire.PerformanceEvent]:
        await self._callers.identity(context, "admin", "controller", "viewer")
        await context.send_initial_metadata(())  # from here on nothing is missed
        async for text in self._monitoring.events(request.workload_id):
            yield wire.PerformanceEvent(json=text)


@contextlib.asynccontextmanager
async def aborting(context: Context) -> AsyncIterator[None]:
    """Ends the call with the status that an error of the job means."""
    try:
        yield
    except ServiceError as error:
        await context.abort(getattr(grpc.StatusCode, error.code), error.message)
    except Refused as refused:
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(refused))
    except StoreError as error:
        await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))


def add_services(server: grpc.aio.Server, callers: Callers, services: ResizeServices, monitoring: Monitoring) -> None:
    watching = MonitoringService(monitoring, callers)
    add_MonitoringServerServicer_to_server(watching, server)  # type: ignore[no-untyped-call]
    manager, actions = ResourceManagerService(services, callers), ActionControllerService(services, callers)
    add_ResourceManagerServicer_to_server(manager, server)  # type: ignore[no-untyped-call]
    add_ActionControllerServicer_to_server(actions, server)  # type: ignore[no-untyped-call]
