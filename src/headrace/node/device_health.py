"""How the devices of this node are, as their drivers tell it: a stream of each, and Unknown for what is not heard of.

Source: KEP-4680, pkg/kubelet/cm/dra (healthinfo.go, manager.go) of Kubernetes 1.37.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import grpc
from structlog.typing import FilteringBoundLogger

from headrace.node.plugins import Plugin, channel_to
from headrace.runtime.clock import Clock
from headrace.wire.generated import health_v1_pb2 as wire
from headrace.wire.generated import health_v1_pb2_grpc, health_v1alpha1_pb2_grpc

TIMEOUT_SECONDS = 30.0  # unless the driver names another
LOOK_SECONDS = 5.0
RETRY_SECONDS = 5.0
MOST_DEVICES = 10_000  # of one driver
MESSAGE_CHARACTERS = 1024
STUBS = {
    "v1.DRAResourceHealth": health_v1_pb2_grpc.DRAResourceHealthStub,
    "v1alpha1.DRAResourceHealth": health_v1alpha1_pb2_grpc.DRAResourceHealthStub,
}

DeviceID = tuple[str, str, str]
"""Driver, pool and device."""


@dataclass(frozen=True, slots=True)
class Health:
    """In the words of a Pod's status. What nobody tells is Unknown."""

    status: Literal["Healthy", "Unhealthy", "Unknown"] = "Unknown"
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Told:
    health: Health
    until: float


class HealthBook:
    """What was told last, until its time is over. `now` is monotonic seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._told: dict[DeviceID, _Told] = {}

    def of(self, device: DeviceID) -> Health:
        told = self._told.get(device)
        return told.health if told is not None and self._now() <= told.until else Health()

    def take(self, driver: str, devices: Iterable[wire.DeviceHealth]) -> set[DeviceID]:
        """A report of all that the driver knows; answers what has changed by it."""
        now, changed = self._now(), self.expired()
        known = sum(1 for device in self._told if device[0] == driver)
        for each in devices:
            device = (driver, each.device.pool_name, each.device.device_name)
            if device not in self._told:
                if known >= MOST_DEVICES:
                    continue
                known += 1
            health = Health(_status(each.health), each.message[:MESSAGE_CHARACTERS])
            if health != self.of(device):
                changed.add(device)
            seconds = each.health_check_timeout_seconds
            self._told[device] = _Told(health, now + (seconds if seconds > 0 else TIMEOUT_SECONDS))
        return changed

    def expired(self) -> set[DeviceID]:
        """What was not told again in time and is Unknown from now on: it is forgotten."""
        now = self._now()
        late = {device for device, told in self._told.items() if told.until < now}
        return {device for device in late if self._told.pop(device).health != Health()}

    def forget(self, driver: str) -> set[DeviceID]:
        """The driver left, or its stream ended; answers what has become Unknown by it."""
        gone = {device for device in self._told if device[0] == driver}
        return {device for device in gone if self._told.pop(device).health != Health()}


class Drivers(Protocol):
    """Who is registered."""

    def get(self, driver: str) -> Plugin | None: ...

    def names(self) -> list[str]: ...

    async def changes(self) -> None: ...


class HealthWatch:
    """Follows the drivers that report health. `changed` is told of the devices whose health is another than before."""

    def __init__(
        self,
        drivers: Drivers,
        book: HealthBook,
        changed: Callable[[set[DeviceID]], None],
        *,
        clock: Clock,
        log: FilteringBoundLogger,
    ) -> None:
        self._drivers, self._book, self._changed = drivers, book, changed
        self._clock, self._log = clock, log

    async def run(self) -> None:
        """Until cancelled."""
        streams: dict[Plugin, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._expire(), name="devices that are not heard of")
            while True:
                found = (self._drivers.get(name) for name in self._drivers.names())
                known = {plugin for plugin in found if plugin is not None and plugin.health}
                for gone in streams.keys() - known:
                    streams.pop(gone).cancel()
                for new in sorted(known - streams.keys(), key=lambda each: each.name):
                    streams[new] = tasks.create_task(self._follow(new), name=f"health of {new.name}")
                await self._drivers.changes()

    async def _follow(self, plugin: Plugin) -> None:
        """A stream that ends is begun again; a driver that does not serve it after all is left alone."""
        while True:
            try:
                await self._read(plugin)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    return
                self._log.info("health of devices is not told", driver=plugin.name, error=error.details())
            except Exception:  # one driver's trouble is not the node's
                self._log.exception("health of devices is not told", driver=plugin.name)
            finally:
                self._changed(self._book.forget(plugin.name))
            await self._clock.sleep(RETRY_SECONDS)

    async def _read(self, plugin: Plugin) -> None:
        """Raises AioRpcError."""
        async with channel_to(plugin.endpoint) as channel:
            stub = _stub(plugin, channel)
            async for answer in stub.NodeWatchResources(wire.NodeWatchResourcesRequest()):
                self._changed(self._book.take(plugin.name, answer.devices))

    async def _expire(self) -> None:
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            self._changed(self._book.expired())


def _stub(plugin: Plugin, channel: grpc.aio.Channel) -> Any:
    """Both versions have the same call and messages."""
    return STUBS[plugin.health](channel)  # type: ignore[no-untyped-call]  # generated code has no types


def _status(health: int) -> Literal["Healthy", "Unhealthy", "Unknown"]:
    if health == wire.HEALTHY:
        return "Healthy"
    return "Unhealthy" if health == wire.UNHEALTHY else "Unknown"
