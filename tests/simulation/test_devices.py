"""200 Pods at once for 64 devices under faults: crashes, conflicts, lost and doubled writes, slices written anew.

After each commit no device belongs to two claims, and none is given while a container of another claim still has it.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from headrace.api.kinds import (
    DEVICE_CLASS,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
from headrace.api.objects import Object, metadata, name_of, uid_of, version_of
from headrace.devices.controller import Claims, PodClaims
from headrace.devices.pool_health import ResourcePools
from headrace.devices.tainted_claims import DeviceTaintEvictions
from headrace.ledger.departed import Departed
from headrace.runtime.clock import LoopClock
from headrace.runtime.manager import ControllerManager
from headrace.runtime.metrics import ControllerMetrics
from headrace.scheduling.controller import Scheduler
from headrace.serve.controllers import unconfirmed_end
from headrace.store.protocol import AlreadyExists, Deletion, Preconditions, StoreError
from headrace.store.rows import Write
from tests.simulation.harness.faults import Faults, FaultyStore
from tests.simulation.harness.loop import run
from tests.simulation.harness.processes import Process
from tests.simulation.harness.server import Server

NODES, DEVICES, PODS = 8, 8, 200
TROUBLE_SECONDS, PEACE_SECONDS = 60.0, 900.0
GPU = "gpu.example.com"
QUIET = structlog.wrap_logger(structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(50))
EPOCH = 1_800_000_000.0
CONFIRMED = "headrace.dev/confirmed-revision"
Device = tuple[str, str]


@dataclass
class Law:
    """Witness of all commits. `running`: by container (a Pod's uid), the claim and the devices it has in truth."""

    given: dict[str, set[Device]] = field(default_factory=dict)
    running: dict[str, dict[Device, str]] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    handed_out: int = 0

    def committed(self, write: Write, revision: int, before: Object | None) -> None:
        if write.key.resource != RESOURCE_CLAIM.resource:
            return
        name = write.key.name
        had = self.given.pop(name, set())
        gets = devices_of(write.object) if write.body is not None else set()
        for device in gets - had:
            self.handed_out += 1
            self._is_free(device, name, revision)
        if gets:
            self.given[name] = gets

    def _is_free(self, device: Device, name: str, revision: int) -> None:
        owners = [each for each, devices in self.given.items() if device in devices]
        users = [claims[device] for claims in self.running.values() if claims.get(device, name) != name]
        if owners or users:
            self.broken.append(f"at {revision} {device} was given to {name}: it is {owners}'s, and used by {users}")


def devices_of(claim: Object) -> set[Device]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return {(each["pool"], each["device"]) for each in (allocation.get("devices") or {}).get("results") or ()}


class World:
    """`trusts_deletions`: the planted bug, a Pod whose object is gone is taken for gone."""

    def __init__(self, seed: int, directory: Any, *, trusts_deletions: bool = False) -> None:
        self.trusts_deletions = trusts_deletions
        self.random, self.law, self.faults = Random(seed), Law(), Faults(slow=0.005, watch_slow=0.001)
        self.server = Server(directory, self.wall)
        self.running: dict[str, dict[str, dict[Device, str]]] = {f"node-{at}": {} for at in range(NODES)}
        self.ended: set[str] = set()  # Pods whose container ran to its end: as on a real node, it never runs again
        self.processes = {
            "server": Process("server", self._serve, self._stream("server"), lambda text: None),
            "controllers": Process("controllers", self._control, self._stream("controllers"), lambda text: None),
            **{name: Process(name, self._agent(name), self._stream(name), lambda text: None) for name in self.running},
        }

    def wall(self) -> float:
        return EPOCH + asyncio.get_running_loop().time()

    def _stream(self, name: str) -> Random:
        return Random(f"{self.random.random()}/{name}")

    def client(self, process: Process, user: str) -> FaultyStore:
        return FaultyStore(self.server, process, user, lambda: self.faults, self._stream(process.name), self._interfere)

    async def _interfere(self, kind: Any, name: str, namespace: str) -> None:
        """Somebody labels the object just before it is written: the write meets a conflict."""
        fields = {"metadata": {"labels": {"seen": str(self.random.randrange(1000))}}}
        with suppress(StoreError):
            await self.server.store("system:admin").patch(kind, name, namespace, fields=fields)

    async def _serve(self, process: Process) -> None:
        await self.server.open(self.law)
        try:
            await asyncio.Event().wait()
        finally:
            await self.server.kill()

    async def _control(self, process: Process) -> None:
        store, clock = self.client(process, "system:headrace"), LoopClock(self.wall)
        random = self._stream("control")
        metrics = ControllerMetrics(CollectorRegistry())
        manager = ControllerManager(store, clock=clock, random=random.random, metrics=metrics, log=QUIET)
        informers = manager.informers
        ids = iter(range(10**9))
        scheduler = Scheduler(informers, clock=clock, new_id=lambda: f"share-{next(ids)}", yield_now=_yield)
        manager.add(scheduler, workers=8)
        manager.add(PodClaims(informers))
        manager.add(Claims(informers, store, self._unconfirmed))
        manager.add(DeviceTaintEvictions(informers))
        manager.add(ResourcePools(informers))
        await manager.run()

    def _unconfirmed(self, pod: str) -> str:
        return "" if self.trusts_deletions else unconfirmed_end(self.server.store("system:headrace"))(pod)

    # The nodes

    def _agent(self, name: str) -> Callable[[Process], Any]:
        async def main(process: Process) -> None:
            store = self.client(process, f"system:node:{name}")
            while True:
                with suppress(StoreError):
                    await self._look(name, store)
                await asyncio.sleep(self.random.uniform(0.2, 2.0))

        return main

    async def _look(self, name: str, store: FaultyStore) -> None:
        listing = await store.list(POD, fields=f"spec.nodeName={name}")
        pods, running = {uid_of(pod): pod for pod in listing.items}, self.running[name]
        for uid in [uid for uid in running if uid not in pods]:
            await asyncio.sleep(self.random.uniform(2.0, 20.0))  # it does not heed SIGTERM
            self._stopped(name, uid)
        fields = {"metadata": {"annotations": {CONFIRMED: listing.revision}}}
        await store.patch(NODE, name, fields=fields)
        for uid, pod in pods.items():
            if metadata(pod).get("deletionTimestamp"):
                self._stopped(name, uid)
                await store.delete(POD, name_of(pod), "default", Deletion(Preconditions(uid=uid), grace_seconds=0))
            elif uid in self.ended or (uid in running and self.random.random() < 0.02):
                await self._succeeded(name, uid, pod, store)
            elif uid not in running:
                await self._start(name, uid, pod, store)

    async def _succeeded(self, name: str, uid: str, pod: Object, store: FaultyStore) -> None:
        """As an agent tells it: with the version that it has seen, so that a late copy changes nothing."""
        self._stopped(name, uid)
        self.ended.add(uid)
        if (pod.get("status") or {}).get("phase") != "Succeeded":
            done, version = {"status": {"phase": "Succeeded"}}, version_of(pod)
            await store.patch(POD, name_of(pod), "default", fields=done, version=version, subresource="status")

    async def _start(self, name: str, uid: str, pod: Object, store: FaultyStore) -> None:
        """As an agent does: the claim is read anew and must be this Pod's."""
        statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
        claim = await store.get(RESOURCE_CLAIM, statuses[0]["resourceClaimName"], "default")
        users = {each["uid"] for each in (claim.get("status") or {}).get("reservedFor") or ()}
        if uid in users:
            self.running[name][uid] = self.law.running[uid] = dict.fromkeys(devices_of(claim), name_of(claim))

    def _stopped(self, name: str, uid: str) -> None:
        self.running[name].pop(uid, None)
        self.law.running.pop(uid, None)

    # The history

    async def history(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(process.run()) for process in self.processes.values()]
            await self.server.opened.wait()
            await self._found()
            trouble = tasks.create_task(self._trouble())
            await self._users()
            trouble.cancel()
            self.faults = Faults.none()
            await self._peace()
            for task in running:
                task.cancel()

    async def _insist(self, call: Callable[[Any], Any]) -> None:
        while True:
            try:
                await call(self.server.store("system:admin"))
                return
            except AlreadyExists:
                return
            except StoreError:
                await asyncio.sleep(0.1)

    async def _found(self) -> None:
        await self._insist(lambda store: store.create(NAMESPACE, {"metadata": {"name": "default"}}))
        device_class = {"metadata": {"name": GPU}, "spec": {}}
        await self._insist(lambda store: store.create(DEVICE_CLASS, device_class))
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": GPU}}]}}
        template = {"metadata": {"name": "one-gpu"}, "spec": {"spec": spec}}
        await self._insist(lambda store: store.create(RESOURCE_CLAIM_TEMPLATE, template, "default"))
        for name in self.running:
            await self._insist(lambda store, n=name: store.create(NODE, {"metadata": {"name": n}}))
            status = {"status": {"capacity": {"cpu": "64", "memory": "64Gi", "pods": "250"}}}
            await self._insist(lambda store, n=name, s=status: store.patch(NODE, n, fields=s, subresource="status"))
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            devices = [{"name": f"gpu-{at}"} for at in range(DEVICES)]
            spec = {"driver": GPU, "nodeName": name, "pool": pool, "devices": devices}
            made = {"metadata": {"name": f"{name}-gpus"}, "spec": spec}
            await self._insist(lambda store, m=made: store.create(RESOURCE_SLICE, m))

    async def _users(self) -> None:
        for number in range(PODS):
            await self._insist(lambda store, n=number: store.create(POD, pod(n), "default"))
        end = asyncio.get_running_loop().time() + TROUBLE_SECONDS
        while asyncio.get_running_loop().time() < end:
            await asyncio.sleep(self.random.expovariate(1.0))
            name = f"p{self.random.randrange(PODS)}"
            grace = self.random.choice((0, None))
            with suppress(StoreError):
                await self.server.store("system:admin").delete(POD, name, "default", Deletion(grace_seconds=grace))

    async def _trouble(self) -> None:
        generation = 1
        while True:
            await asyncio.sleep(self.random.expovariate(0.3))
            self.processes[self.random.choice(list(self.processes))].kill()
            generation += 1
            slice_name = f"node-{self.random.randrange(NODES)}-gpus"
            fields = {"spec": {"pool": {"generation": generation}}}
            with suppress(StoreError):
                await self.server.store("system:admin").patch(RESOURCE_SLICE, slice_name, fields=fields)

    async def _peace(self) -> None:
        """In the end every device that somebody waits for is somebody's."""
        end = asyncio.get_running_loop().time() + PEACE_SECONDS
        while True:
            await asyncio.sleep(5)
            with suppress(StoreError):
                pods = (await self.server.store("system:admin").list(POD, "default")).items
                waiting = [each for each in pods if not each["spec"].get("nodeName")]
                given = sum(len(devices) for devices in self.law.given.values())
                if not waiting or given == NODES * DEVICES:
                    return
            assert asyncio.get_running_loop().time() < end, f"{len(waiting)} wait, but {given} devices are given"


def pod(number: int) -> Object:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1m"}, "claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    spec = {"resourceClaims": claims, "containers": [container], "terminationGracePeriodSeconds": 2}
    return {"metadata": {"name": f"p{number}"}, "spec": spec}


async def _yield() -> None:
    await asyncio.sleep(0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_no_device_is_given_twice_nor_while_its_last_container_runs(seed, tmp_path):
    world = World(seed, tmp_path)
    run(world.history())
    assert world.law.broken == []
    assert world.law.handed_out > NODES * DEVICES


@pytest.mark.slow
def test_the_law_finds_a_device_that_is_handed_on_too_early(tmp_path, monkeypatch):
    monkeypatch.setattr(Departed, "is_still_charged", lambda *_: False)  # else the ledger keeps the devices by itself
    world = World(1, tmp_path, trusts_deletions=True)
    run(world.history())
    assert any("and used by" in each for each in world.law.broken)
