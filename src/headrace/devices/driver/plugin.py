"""A driver as a kubelet's plug-in: publishes its slices, registers on a unix socket and serves the DRA API on another.

A claim is read from the store at each call and its uid compared: what was asked for a claim that is gone is refused.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
from structlog.typing import FilteringBoundLogger

from headrace.api.kinds import NODE, RESOURCE_CLAIM, RESOURCE_SLICE
from headrace.api.objects import uid_of
from headrace.devices.driver.interface import Driver, PrepareError, allocated
from headrace.devices.driver.slices import plan
from headrace.runtime.clock import Clock
from headrace.runtime.perform import perform
from headrace.store.protocol import NotFound, Store, StoreError
from headrace.wire.generated import dra_v1_pb2 as dra
from headrace.wire.generated import registration_pb2 as registration
from headrace.wire.generated.dra_v1_pb2_grpc import DRAPluginServicer, add_DRAPluginServicer_to_server
from headrace.wire.generated.registration_pb2_grpc import RegistrationServicer, add_RegistrationServicer_to_server

PUBLISH_SECONDS = 30.0
RETRY_SECONDS = 1.0
STOP_SECONDS = 2.0
SOCKET_PATH_BYTES = 107  # of a unix address


class Plugin:
    """One driver on one node. `directory` is the agent's (a kubelet's): `plugins/DRIVER/` and `plugins_registry/`."""

    def __init__(
        self, driver: Driver, node: str, store: Store, directory: Path, *, clock: Clock, log: FilteringBoundLogger
    ) -> None:
        self._driver, self._node, self._store, self._clock = driver, node, store, clock
        self._log = log.bind(driver=driver.name, node=node)
        self.endpoint = directory / "plugins" / driver.name / "dra.sock"
        self.registry = directory / "plugins_registry" / f"{driver.name}-reg.sock"
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Until cancelled. Slices stay when it ends: devices that are in use do not vanish with their driver."""
        async with self._serving():
            ready()
            while True:
                try:
                    pause = PUBLISH_SECONDS if await self.publish() else RETRY_SECONDS
                except StoreError as error:
                    self._log.warning("slices not published", error=str(error))
                    pause = RETRY_SECONDS
                await self._clock.sleep(pause)

    async def publish(self) -> bool:
        """Bring the slices up to date; whether the node is there to publish for. Raises StoreError."""
        try:
            node = await self._store.get(NODE, self._node)
        except NotFound:
            return False
        known = await self._store.list(RESOURCE_SLICE, fields=f"spec.nodeName={self._node}")
        for action in plan(self._driver.name, node, self._driver.pools(), known.items):
            await perform(self._store, action)
        return True

    async def prepare(self, claim: dra.Claim) -> dra.NodePrepareResourceResponse:
        with self._one_at_a_time(claim.uid) as lock:
            async with lock:
                try:
                    found = await self._store.get(RESOURCE_CLAIM, claim.name, claim.namespace)
                    if uid_of(found) != claim.uid:
                        raise PrepareError(
                            f"claim {claim.name!r} with uid {claim.uid} is gone; another has its name now"
                        )
                    devices = allocated(found, self._driver.name)
                    if not devices:
                        raise PrepareError(f"claim {claim.name!r} has no device of {self._driver.name} allocated")
                    prepared = self._driver.prepare(claim.uid, devices)
                except (PrepareError, StoreError) as error:
                    return dra.NodePrepareResourceResponse(error=str(error))
        return dra.NodePrepareResourceResponse(
            devices=[
                dra.Device(
                    request_names=[each.allocated.request],
                    pool_name=each.allocated.pool,
                    device_name=each.allocated.device,
                    cdi_device_ids=each.cdi_names,
                    share_id=each.allocated.share_id,
                )
                for each in prepared
            ]
        )

    async def unprepare(self, claim: dra.Claim) -> dra.NodeUnprepareResourceResponse:
        with self._one_at_a_time(claim.uid) as lock:
            async with lock:
                try:
                    self._driver.unprepare(claim.uid)
                except PrepareError as error:
                    return dra.NodeUnprepareResourceResponse(error=str(error))
        return dra.NodeUnprepareResourceResponse()

    @contextlib.asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        """The DRA socket first: who registers must be able to answer."""
        servers = []
        try:
            for path, add, servicer in (
                (self.endpoint, add_DRAPluginServicer_to_server, _Dra(self)),
                (
                    self.registry,
                    add_RegistrationServicer_to_server,
                    _Registration(self._driver.name, self.endpoint, self._log),
                ),
            ):
                servers.append(await _listen(path, add, servicer))
            yield
        finally:
            self.registry.unlink(missing_ok=True)
            for server in reversed(servers):
                await server.stop(STOP_SECONDS)
            self.endpoint.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _one_at_a_time(self, uid: str) -> Iterator[asyncio.Lock]:
        """The claim's lock, kept only while somebody holds it or waits for it."""
        lock, users = self._locks.get(uid, (asyncio.Lock(), 0))
        self._locks[uid] = (lock, users + 1)
        try:
            yield lock
        finally:
            lock, users = self._locks.pop(uid)
            if users > 1:
                self._locks[uid] = (lock, users - 1)


class _Dra(DRAPluginServicer):
    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin

    async def NodePrepareResources(
        self, request: dra.NodePrepareResourcesRequest, context: Any
    ) -> dra.NodePrepareResourcesResponse:
        return dra.NodePrepareResourcesResponse(
            claims={claim.uid: await self._plugin.prepare(claim) for claim in request.claims}
        )

    async def NodeUnprepareResources(
        self, request: dra.NodeUnprepareResourcesRequest, context: Any
    ) -> dra.NodeUnprepareResourcesResponse:
        return dra.NodeUnprepareResourcesResponse(
            claims={claim.uid: await self._plugin.unprepare(claim) for claim in request.claims}
        )


class _Registration(RegistrationServicer):
    def __init__(self, name: str, endpoint: Path, log: FilteringBoundLogger) -> None:
        self._name, self._endpoint, self._log = name, endpoint, log

    async def GetInfo(self, request: registration.InfoRequest, context: Any) -> registration.PluginInfo:
        return registration.PluginInfo(
            type="DRAPlugin", name=self._name, endpoint=str(self._endpoint), supported_versions=["v1.DRAPlugin"]
        )

    async def NotifyRegistrationStatus(
        self, request: registration.RegistrationStatus, context: Any
    ) -> registration.RegistrationStatusResponse:
        if request.plugin_registered:
            self._log.info("registered")
        else:
            self._log.warning("refused by the agent", error=request.error)
        return registration.RegistrationStatusResponse()


async def _listen(path: Path, add: Callable[[Any, Any], None], servicer: Any) -> Any:
    """A gRPC server on a unix socket that only its owner may reach. Raises OSError."""
    _make_way(path)
    server = grpc.aio.server()
    add(servicer, server)
    server.add_insecure_port(f"unix://{path}")
    await server.start()
    return server


def _make_way(path: Path) -> None:
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise OSError(f"socket {path}: longer than {SOCKET_PATH_BYTES} bytes; choose a shorter data directory")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
