"""A driver as a kubelet's plug-in: publishes its slices, registers on a unix socket and serves the DRA API on another.

A claim is read from the store at each call and its uid compared: what was asked for a claim that is gone is refused.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import grpc
from structlog.typing import FilteringBoundLogger

from headrace.api.kinds import NODE, RESOURCE_CLAIM, RESOURCE_SLICE
from headrace.api.objects import Fields, Object, name_of, uid_of
from headrace.devices.driver.interface import Driver, PrepareError, allocated
from headrace.devices.driver.services import serve_driver, serve_registration
from headrace.devices.driver.slices import asked_spec, generations, has_same_content, plan
from headrace.devices.driver.sockets import endpoint_of, registry_of
from headrace.runtime.actions import Delete
from headrace.runtime.cache import Informer
from headrace.runtime.clock import Clock
from headrace.runtime.perform import perform
from headrace.store.protocol import NotFound, Store, StoreError
from headrace.wire.generated import dra_v1_pb2 as dra

PUBLISH_SECONDS = 30.0  # the devices are asked for again at least this often
RETRY_SECONDS = 1.0
STOP_SECONDS = 2.0


class Plugin:
    """One driver on one node. `directory` is the agent's (a kubelet's): `plugins/DRIVER/` and `plugins_registry/`."""

    def __init__(
        self, driver: Driver, node: str, store: Store, directory: Path, *, clock: Clock, log: FilteringBoundLogger
    ) -> None:
        self._driver, self._node, self._store, self._clock = driver, node, store, clock
        self._log = log.bind(driver=driver.name, node=node)
        self.endpoint = endpoint_of(directory, driver.name)
        self.registry = registry_of(directory, driver.name)
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}
        self._generations: dict[str, int] = {}  # the newest that this process has seen, by pool: never to go back
        self._answered: dict[str, tuple[Fields, Fields]] = {}  # by slice: the spec that was asked for, and the answer's
        self._stale = asyncio.Event()

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Until cancelled. Slices stay when it ends: the agent removes them if no driver comes back in time."""
        informer = Informer(
            self._store,
            RESOURCE_SLICE,
            clock=self._clock,
            random=random.random,
            log=self._log,
            fields=f"spec.nodeName={self._node},spec.driver={self._driver.name}",
        )
        informer.subscribe(self._changed)
        async with self._serving():
            watching = asyncio.create_task(informer.run(), name=f"informer of slices of {self._driver.name}")
            try:
                ready()
                while True:
                    await self._publish_until_changed()
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    def _changed(self, before: Object | None, after: Object | None) -> None:
        self._remember(generations([each for each in (before, after) if each is not None]))
        self._stale.set()

    async def _publish_until_changed(self) -> None:
        """A kubelet that starts removes all slices of its node, and people do: they are written anew at once."""
        self._stale.clear()
        try:
            is_published = await self.publish()
        except (StoreError, OSError) as error:
            self._log.warning("slices not published", error=str(error))
            is_published = False
        if not is_published:
            await self._clock.sleep(RETRY_SECONDS)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PUBLISH_SECONDS):
                await self._stale.wait()

    async def publish(self) -> bool:
        """Bring the slices up to date; whether the node is there to publish for. Raises StoreError, OSError."""
        try:
            node = await self._store.get(NODE, self._node)
        except NotFound:
            return False
        pools = await asyncio.to_thread(self._driver.pools)
        fields = f"spec.nodeName={self._node},spec.driver={self._driver.name}"
        found = (await self._store.list(RESOURCE_SLICE, fields=fields)).items
        self._remember(generations(found))
        known = [self._as_asked(each) for each in found]
        for action in plan(self._driver.name, node, pools, known, self._generations):
            written = await perform(self._store, action)
            if written is not None and not isinstance(action, Delete):
                self._remember_answer(asked_spec(action), written.object)
        return True

    def _as_asked(self, resource_slice: Object) -> Object:
        """A slice that is as our last write left it is as we want it, whatever the server dropped: to write it again
        would change nothing, for ever."""
        asked, answered = self._answered.get(name_of(resource_slice), ({}, {}))
        return {**resource_slice, "spec": asked} if answered == resource_slice["spec"] else resource_slice

    def _remember_answer(self, asked: Fields, answer: Object) -> None:
        self._answered[name_of(answer)] = asked, answer["spec"]
        if not has_same_content(asked, answer["spec"]):
            told = "the server did not keep all that was published: a feature may be off there"
            self._log.warning(told, slice=name_of(answer))

    def _remember(self, found: Mapping[str, int]) -> None:
        for pool, generation in found.items():
            self._generations[pool] = max(generation, self._generations.get(pool, 0))

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
                    prepared = await asyncio.to_thread(self._driver.prepare, claim.uid, devices)
                except (PrepareError, StoreError) as error:
                    return dra.NodePrepareResourceResponse(error=str(error))
                except Exception as error:  # a fault with one claim must not be that of all that were asked for with it
                    return dra.NodePrepareResourceResponse(error=self._fault("prepare", claim, error))
        return dra.NodePrepareResourceResponse(
            devices=[
                dra.Device(
                    # Kubernetes' own library strips subrequests: a container names requests.
                    request_names=[each.allocated.request.partition("/")[0]],
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
                    await asyncio.to_thread(self._driver.unprepare, claim.uid)
                except PrepareError as error:
                    return dra.NodeUnprepareResourceResponse(error=str(error))
                except Exception as error:
                    return dra.NodeUnprepareResourceResponse(error=self._fault("unprepare", claim, error))
        return dra.NodeUnprepareResourceResponse()

    def _fault(self, call: str, claim: dra.Claim, error: Exception) -> str:
        self._log.error("driver failed", call=call, claim=f"{claim.namespace}/{claim.name}", exc_info=error)
        return f"{type(error).__name__}: {error}"

    @contextlib.asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        """The DRA socket first: who registers must be able to answer."""
        servers: list[grpc.aio.Server] = []
        try:
            servers.append(await serve_driver(self.endpoint, self, self._driver, self._clock))
            name = self._driver.name
            servers.append(await serve_registration(self.registry, name, self.endpoint, self._driver, self._log))
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
