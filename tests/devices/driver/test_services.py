"""What a kubelet sees of a plug-in: both versions of the API answer alike, health is streamed, nothing is cut short."""

import asyncio
import threading
from contextlib import asynccontextmanager

import grpc
import pytest
import structlog

from headrace.api.kinds import RESOURCE_CLAIM
from headrace.devices.driver.interface import DeviceHealth
from headrace.devices.driver.plugin import Plugin
from headrace.devices.driver.simulated import NAME, SimulatedGpus
from headrace.runtime.clock import LoopClock
from headrace.wire.generated import dra_v1_pb2 as dra
from headrace.wire.generated import (
    dra_v1_pb2_grpc,
    dra_v1beta1_pb2_grpc,
    health_v1_pb2,
    health_v1_pb2_grpc,
    health_v1alpha1_pb2_grpc,
    registration_pb2,
)
from headrace.wire.generated.registration_pb2_grpc import RegistrationStub
from tests.devices.driver.test_published import directory, with_node
from tests.node.agent.home import as_node

CLAIM_SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": NAME}}]}}
CLAIM = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": CLAIM_SPEC}


class Sick(SimulatedGpus):
    """Its GPU is healthy until a test says what it has."""

    illness = ""

    def health(self):
        return [DeviceHealth("node-a", "gpu-0", not self.illness, self.illness)]


class Mute(SimulatedGpus):
    """Says nothing of its devices' health."""

    health = None


class Clock(LoopClock):
    """Polls fast."""

    async def sleep(self, seconds):
        await asyncio.sleep(min(seconds, 0.02))


@asynccontextmanager
async def serving(make=SimulatedGpus):
    """The running plug-in, its driver, a channel to it, and an allocated claim."""
    with directory() as path:
        store = await with_node()
        claim = await store.create(RESOURCE_CLAIM, CLAIM, "default")
        result = {"request": "gpu", "driver": NAME, "pool": "node-a", "device": "gpu-0"}
        status = {"allocation": {"devices": {"results": [result]}}}
        await store.patch(RESOURCE_CLAIM, "c", "default", fields={"status": status}, subresource="status")
        driver = make("node-a", path / "cdi")
        clock = Clock(lambda: 1_800_000_000.0)
        plugin = Plugin(driver, "node-a", as_node(store), path, clock=clock, log=structlog.get_logger())
        ready = asyncio.Event()
        task = asyncio.create_task(plugin.run(ready.set))
        await ready.wait()
        try:
            async with grpc.aio.insecure_channel(f"unix://{plugin.endpoint}") as channel:
                yield plugin, driver, channel, dra.Claim(namespace="default", name="c", uid=claim["metadata"]["uid"])
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_both_versions_of_the_api_answer_alike():
    async with serving() as (_, _, channel, claim):
        answers = []
        for module in (dra_v1_pb2_grpc, dra_v1beta1_pb2_grpc):
            stub = module.DRAPluginStub(channel)
            prepared = await stub.NodePrepareResources(dra.NodePrepareResourcesRequest(claims=[claim]))
            unprepared = await stub.NodeUnprepareResources(dra.NodeUnprepareResourcesRequest(claims=[claim]))
            answers.append((prepared, unprepared))
        assert answers[0] == answers[1]
        [device] = answers[0][0].claims[claim.uid].devices
        assert list(device.cdi_device_ids) == [f"{NAME}/claim={claim.uid}-gpu-0"]


@pytest.mark.parametrize(
    ("make", "versions"),
    [
        (Mute, ["v1.DRAPlugin", "v1beta1.DRAPlugin"]),
        (Sick, ["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"]),
    ],
    ids=["a driver without health", "a driver that reports health"],
)
async def test_a_plugin_registers_with_the_services_it_has(make, versions):
    async with serving(make) as (plugin, _, _, _):
        async with grpc.aio.insecure_channel(f"unix://{plugin.registry}") as channel:
            info = await RegistrationStub(channel).GetInfo(registration_pb2.InfoRequest())
        assert (info.type, info.name, info.endpoint) == ("DRAPlugin", NAME, str(plugin.endpoint))
        assert list(info.supported_versions) == versions


@pytest.mark.parametrize("module", [health_v1_pb2_grpc, health_v1alpha1_pb2_grpc], ids=["v1", "v1alpha1"])
async def test_health_is_told_at_once_and_when_it_changes(module):
    async with serving(Sick) as (_, driver, channel, _):
        stream = module.DRAResourceHealthStub(channel).NodeWatchResources(health_v1_pb2.NodeWatchResourcesRequest())
        async with asyncio.timeout(10):
            first = await stream.read()
            driver.illness = "too hot"
            second = await stream.read()
        stream.cancel()
        assert [(each.health, each.message) for each in (*first.devices, *second.devices)] == [
            (health_v1_pb2.HEALTHY, ""),
            (health_v1_pb2.UNHEALTHY, "too hot"),
        ]


class Slow(SimulatedGpus):
    """Prepares when it is let."""

    def __init__(self, node, cdi):
        super().__init__(node, cdi)
        self.begun, self.go = threading.Event(), threading.Event()

    def prepare(self, claim_uid, devices):
        self.begun.set()
        assert self.go.wait(10)
        return super().prepare(claim_uid, devices)


async def test_what_was_asked_after_a_call_that_hangs_is_done_after_it():
    async with serving(Slow) as (plugin, driver, channel, claim):
        stub = dra_v1_pb2_grpc.DRAPluginStub(channel)
        with pytest.raises(grpc.aio.AioRpcError, match="DEADLINE_EXCEEDED"):
            await stub.NodePrepareResources(dra.NodePrepareResourcesRequest(claims=[claim]), timeout=0.2)
        assert driver.begun.is_set()
        undone = asyncio.create_task(plugin.unprepare(claim))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not undone.done()
        driver.go.set()
        assert (await undone).error == ""
        assert list((plugin.endpoint.parent.parent.parent / "cdi").iterdir()) == []


class Faulty(SimulatedGpus):
    """Has a fault that one claim meets."""

    def prepare(self, claim_uid, devices):
        raise KeyError("gpu-0")

    def unprepare(self, claim_uid):
        if claim_uid != "other":
            raise KeyError("gpu-0")


async def test_a_fault_of_the_driver_with_one_claim_is_that_claims_answer_and_no_others():
    async with serving(Faulty) as (_, _, channel, claim):
        stub = dra_v1_pb2_grpc.DRAPluginStub(channel)
        prepared = await stub.NodePrepareResources(dra.NodePrepareResourcesRequest(claims=[claim]))
        assert prepared.claims[claim.uid].error == "KeyError: 'gpu-0'"
        other = dra.Claim(namespace="default", name="o", uid="other")
        unprepared = await stub.NodeUnprepareResources(dra.NodeUnprepareResourcesRequest(claims=[claim, other]))
        assert [unprepared.claims[each].error for each in (claim.uid, "other")] == ["KeyError: 'gpu-0'", ""]
