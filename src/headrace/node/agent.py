"""The node agent, put together: it watches its Pods like a kubelet, runs them, and reports its machine.

It needs a Store, a Runtime and a directory; where these come from is the caller's business.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import grpc
from structlog.typing import FilteringBoundLogger

from headrace.api.kinds import NODE, POD
from headrace.api.objects import uid_of
from headrace.node.actuator import SYNC_SECONDS, Actuators
from headrace.node.device_health import HealthBook, HealthWatch
from headrace.node.device_record import DeviceRecord
from headrace.node.devices import Devices
from headrace.node.driver_slices import DriverSlices
from headrace.node.machine import RESERVED, Machine
from headrace.node.plugins import Plugins
from headrace.node.pod_worker import Means
from headrace.node.pods import Pods
from headrace.node.registration import Registration, node_fields, words_of
from headrace.node.resize_service import ResizeService
from headrace.node.runtimes.protocol import Runtime
from headrace.node.samples import Outgoing
from headrace.node.states import States
from headrace.node.stream import FIRST_SECONDS, LONGEST_SECONDS, Stream
from headrace.runtime.actions import Event
from headrace.runtime.backoff import Backoff
from headrace.runtime.cache import Informer
from headrace.runtime.clock import Clock
from headrace.runtime.events import Recorder
from headrace.store.protocol import Store, StoreError

REGISTER_SECONDS = 1.0
ABANDON_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Settings:
    """`sync_seconds`: how often limits in force are compared with what they are to be.

    `reserved` is kept from Pods for the system and headrace itself (--system-reserved). `abandon_seconds`: how long
    an ending Pod waits for a device driver that is gone.
    """

    node: str
    directory: Path
    address: str = "127.0.0.1"
    sync_seconds: float = SYNC_SECONDS
    reserved: Mapping[str, str] = field(default_factory=lambda: dict(RESERVED))
    abandon_seconds: float = ABANDON_SECONDS
    version: str = field(default_factory=lambda: version("headrace"))

    @property
    def pods(self) -> Path:
        return self.directory / "pods"

    @property
    def cdi(self) -> Path:
        return self.directory / "cdi"

    @property
    def plugin_registry(self) -> Path:
        return self.directory / "plugins_registry"


class Agent:
    """`run` works until cancelled. Containers outlive it; the next agent finds them again by their ids."""

    def __init__(
        self,
        settings: Settings,
        machine: Machine,
        store: Store,
        runtime: Runtime,
        *,
        clock: Clock,
        log: FilteringBoundLogger,
        dial: Callable[[], grpc.aio.Channel] | None = None,
        samples: Outgoing | None = None,
    ) -> None:
        """`dial` makes a channel to the control plane's gRPC port; without it there are no logs from afar.

        `samples` are sent there as they come.
        """
        self._settings, self._machine, self._store, self._runtime = settings, machine, store, runtime
        self._clock, self._log, self._dial = clock, log.bind(node=settings.node), dial
        self._samples = samples
        self.ready = asyncio.Event()

    async def run(self) -> None:
        settings, store, clock, log = self._settings, self._store, self._clock, self._log
        for directory in (settings.pods, settings.cdi, settings.plugin_registry):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)  # volumes are reached by mounts, not by paths
        informer = Informer(
            store,
            POD,
            clock=clock,
            random=random.random,
            log=log,
            fields=f"spec.nodeName={settings.node}",
        )
        recorder = Recorder(store, clock=clock, log=log, component="headrace-agent")

        def warn(reason: str, message: str) -> None:
            uid = uid_of(registration.node)
            recorder.record(Event(NODE, "", settings.node, uid, "Warning", reason, message))

        plugins = Plugins(settings.plugin_registry, clock=clock, log=log, warn=warn)
        book = HealthBook(clock.monotonic)
        record = DeviceRecord(settings.directory / "devices.json", self._machine.boot_id)
        async with asyncio.TaskGroup() as tasks:
            states = States(
                self._runtime,
                lambda uid: pods.changed(uid),
                clock=clock,
                random=random.random,
                log=log,
            )
            means = Means(
                store=store,
                runtime=self._runtime,
                states=states,
                actuators=Actuators(self._runtime, tasks, settings.sync_seconds),
                devices=Devices(store, record, plugins.get, settings.cdi, lambda uid: pods.hurry_one(uid), book.of),
                recorder=recorder,
                clock=clock,
                log=log,
                directory=settings.pods,
                cdi_directory=settings.cdi,
                address=settings.address,
                abandon_seconds=settings.abandon_seconds,
                allocatable=lambda: registration.allocatable,
            )
            if self._samples is not None:
                self._samples.drifts = lambda: means.actuators.drifts
            pods = Pods(means, tasks, lambda: informer.revision)
            registration = Registration(
                store,
                node_fields(
                    settings.node,
                    self._machine,
                    self._runtime.capabilities(),
                    settings.reserved,
                    version=settings.version,
                    address=settings.address,
                ),
                strays=pods.strays,
                confirmed=pods.confirmed,
                problem=states.problem,
                clock=clock,
                log=log,
            )
            await states.look()  # once, so that the node is ready only if its containers are known
            await self._register(registration)
            tasks.create_task(recorder.run(), name="events")
            tasks.create_task(plugins.run(), name="plugins")
            tasks.create_task(_hurry_for_drivers(plugins, pods), name="waiting for drivers")
            slices = DriverSlices(store, settings.node, plugins.names, clock=clock, log=log)
            watch = HealthWatch(plugins, book, lambda devices: pods.ailing(devices), clock=clock, log=log)
            tasks.create_task(watch.run(), name="health of devices")
            tasks.create_task(slices.run(), name="slices of drivers that left")
            tasks.create_task(states.follow(), name="container states")
            tasks.create_task(registration.run(), name="registration")
            await states.known()
            informer.subscribe(pods.observe)
            tasks.create_task(informer.run(), name="informer pods")
            await informer.wait_until_synced()
            pods.take_orphans()
            tasks.create_task(pods.audit(), name="device audit")
            tasks.create_task(pods.find_strays(), name="strays")
            if self._dial is not None:
                stream = Stream(
                    settings.node,
                    settings.version,
                    self._dial,
                    pods,
                    states,
                    ResizeService(store, pods, states, means.actuators),
                    directory=settings.pods,
                    clock=clock,
                    backoff=Backoff(random.random, FIRST_SECONDS, LONGEST_SECONDS),
                    log=log,
                    samples=self._samples,
                )
                tasks.create_task(stream.run(), name="stream")
            self.ready.set()
            log.info("agent ready")

    async def _register(self, registration: Registration) -> None:
        while True:
            try:
                await registration.register()
            except StoreError as error:
                self._log.warning("node not registered", error=words_of(error, self._settings.node))
                await self._clock.sleep(REGISTER_SECONDS)
            else:
                return


async def _hurry_for_drivers(plugins: Plugins, pods: Pods) -> None:
    while True:
        await plugins.changes()
        pods.hurry()
