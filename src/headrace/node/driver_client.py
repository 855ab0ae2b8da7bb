"""The two calls that an agent makes to a driver, in the version of the API that the driver registered with.

Who does not answer is told apart from who refuses: without its driver a claim can be abandoned, against it not.
"""

from collections.abc import Callable

import grpc

from headrace.node.device_record import PreparedClaim, PreparedDevice
from headrace.node.plugins import Plugin, channel_to
from headrace.wire.generated import dra_v1_pb2 as dra
from headrace.wire.generated import dra_v1_pb2_grpc, dra_v1beta1_pb2_grpc

CALL_SECONDS = 45.0  # the kubelet's limit for a driver
STUBS = {"v1.DRAPlugin": dra_v1_pb2_grpc.DRAPluginStub, "v1beta1.DRAPlugin": dra_v1beta1_pb2_grpc.DRAPluginStub}


class DeviceProblem(Exception):
    """A claim cannot be prepared or unprepared now; the message says which, and by whose fault. Tried again."""


class DriverGone(DeviceProblem):
    """The driver is not registered, or nobody answers on its socket."""

    def __init__(self, driver: str, message: str) -> None:
        super().__init__(message)
        self.driver = driver


class DriverClient:
    """`find` gives a registered driver by name."""

    def __init__(self, find: Callable[[str], Plugin | None]) -> None:
        self._find = find

    def plugin(self, driver: str) -> Plugin:
        """Raises DriverGone."""
        plugin = self._find(driver)
        if plugin is None:
            words = f"is it running there? One that ships is started by `headrace driver {driver}`"
            raise DriverGone(driver, f"driver {driver} is not registered on this node: {words}")
        return plugin

    async def prepare(self, driver: str, claim: PreparedClaim) -> tuple[PreparedDevice, ...]:
        """Raises DeviceProblem."""
        what = f"driver {driver}: prepare claim {claim.name!r}"
        plugin = self.plugin(driver)
        request = dra.NodePrepareResourcesRequest(claims=[_reference(claim)])
        try:
            async with channel_to(plugin.endpoint) as channel:
                answer = await _stub(plugin, channel).NodePrepareResources(request, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise _failure(driver, what, error) from None
        result = answer.claims.get(claim.uid)
        if result is None:
            raise DeviceProblem(f"{what}: the answer does not name its uid")
        if result.error:
            raise DeviceProblem(f"{what}: {result.error}")
        return tuple(
            PreparedDevice(tuple(each.request_names), each.pool_name, each.device_name, tuple(each.cdi_device_ids))
            for each in result.devices
        )

    async def unprepare(self, driver: str, claim: PreparedClaim) -> None:
        """Raises DeviceProblem."""
        what = f"driver {driver}: unprepare claim {claim.name!r}"
        plugin = self.plugin(driver)
        request = dra.NodeUnprepareResourcesRequest(claims=[_reference(claim)])
        try:
            async with channel_to(plugin.endpoint) as channel:
                answer = await _stub(plugin, channel).NodeUnprepareResources(request, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise _failure(driver, what, error) from None
        result = answer.claims.get(claim.uid)
        if result is None or result.error:
            raise DeviceProblem(f"{what}: {result.error if result else 'the answer does not name its uid'}")


def _failure(driver: str, what: str, error: grpc.aio.AioRpcError) -> DeviceProblem:
    message = f"{what}: {error.details()}"
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        return DriverGone(driver, message)
    return DeviceProblem(message)


def _stub(plugin: Plugin, channel: grpc.aio.Channel) -> dra_v1_pb2_grpc.DRAPluginStub:
    """Both versions have the same calls and messages."""
    return STUBS[plugin.service](channel)  # type: ignore[no-untyped-call,return-value]


def _reference(claim: PreparedClaim) -> dra.Claim:
    return dra.Claim(namespace=claim.namespace, uid=claim.uid, name=claim.name)
