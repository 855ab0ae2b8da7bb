"""The scheduler and the claim controllers on the real store, in virtual time: Pods come, wait, get devices and go."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from headrace.api.kinds import (
    DEVICE_CLASS,
    NAMESPACE,
    NODE,
    POD,
    PRIORITY_CLASS,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
from headrace.devices.controller import Claims, PodClaims
from headrace.objects.local import Caller
from headrace.runtime.clock import LoopClock
from headrace.scheduling.controller import Scheduler
from headrace.store.protocol import Deletion
from tests.runtime.home import controllers, open_store, running, wall

pytestmark = pytest.mark.looptime
EXAMPLES = Path(__file__).parents[2] / "examples" / "devices"


async def nothing():
    await asyncio.sleep(0)


@asynccontextmanager
async def scheduled():
    """A store with namespace, class and the claim controllers and the scheduler at work."""
    store = await open_store()
    await store.create(NAMESPACE, {"metadata": {"name": "default"}})
    manager = controllers(store)
    ids = iter(f"share-{number}" for number in range(1000))
    scheduler = Scheduler(manager.informers, clock=LoopClock(wall), new_id=lambda: next(ids), yield_now=nothing)
    manager.add(scheduler, workers=4)
    manager.add(PodClaims(manager.informers))
    manager.add(Claims(manager.informers, store))
    async with running(manager):
        await manager.wait_until_synced()
        yield store


def node(name, cpu="2", memory="4Gi", **spec):
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"capacity": {"cpu": cpu, "memory": memory, "pods": "110"}},
    }


def pod(name, cpu="500m", **spec):
    requests = {"resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "x", **requests}], **spec}}


def example(file):
    return list(yaml.safe_load_all((EXAMPLES / file).read_text()))


async def add_node(store, obj):
    await store.create(NODE, obj)
    await store.patch(NODE, obj["metadata"]["name"], fields={"status": obj["status"]}, subresource="status")


async def settle():
    await asyncio.sleep(30)


async def where(store, name):
    return (await store.get(POD, name, "default"))["spec"].get("nodeName")


async def why(store, name):
    conditions = (await store.get(POD, name, "default"))["status"].get("conditions") or ()
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), None)


async def test_pods_are_placed_until_the_node_is_full_and_again_when_one_has_gone():
    async with scheduled() as store:
        await add_node(store, node("node-a", cpu="1"))
        for name in ("a", "b", "c"):
            await store.create(POD, pod(name), "default")
            await settle()
        assert [await where(store, name) for name in "abc"] == ["node-a", "node-a", None]
        assert await why(store, "c") == "0/1 nodes are available: 1 Insufficient cpu."
        agent = store.acting_as(Caller(user="system:node:node-a"))
        await agent.delete(POD, "a", "default", Deletion(grace_seconds=0))
        await settle()
        assert await where(store, "c") == "node-a"


async def test_pods_that_wait_are_placed_by_priority():
    async with scheduled() as store:
        await store.create(PRIORITY_CLASS, {"metadata": {"name": "urgent"}, "value": 1000})
        await store.create(POD, pod("low", cpu="800m"), "default")
        await store.create(POD, pod("high", cpu="800m", priorityClassName="urgent"), "default")
        await settle()
        await add_node(store, node("node-a", cpu="1"))
        await settle()
        assert [await where(store, name) for name in ("low", "high")] == [None, "node-a"]


async def test_the_seeds_pod_gets_a_device_of_its_own_and_gives_it_back():
    async with scheduled() as store:
        await add_node(store, node("node-a"))
        [resource_slice] = example("resource-slice.yaml")
        await store.create(RESOURCE_SLICE, resource_slice)
        await store.create(DEVICE_CLASS, example("device-class.yaml")[0])
        template, trainer = example("trainer.yaml")
        await store.create(POD, trainer, "default")
        await settle()
        assert "waiting for the resourceclaim" in await why(store, "trainer")
        await store.create(RESOURCE_CLAIM_TEMPLATE, template, "default")
        await settle()
        assert await where(store, "trainer") == "node-a"
        [claim] = (await store.list(RESOURCE_CLAIM, "default")).items
        assert claim["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
        assert claim["status"]["reservedFor"][0]["name"] == "trainer"
        agent = store.acting_as(Caller(user="system:node:node-a"))
        await agent.delete(POD, "trainer", "default", Deletion(grace_seconds=0))
        await settle()
        assert (await store.list(RESOURCE_CLAIM, "default")).items == []


async def test_a_claim_for_64gi_takes_the_large_gpu_and_a_second_one_waits():
    async with scheduled() as store:
        await add_node(store, node("node-a"))
        await store.create(RESOURCE_SLICE, example("resource-slice.yaml")[0])
        await store.create(DEVICE_CLASS, example("device-class.yaml")[0])
        [big] = example("resource-claim.yaml")
        for name in ("big-gpu", "big-gpu-2"):
            await store.create(RESOURCE_CLAIM, {**big, "metadata": {"name": name}}, "default")
            claims = [{"name": "gpu", "resourceClaimName": name}]
            await store.create(POD, pod(f"pod-{name}", resourceClaims=claims), "default")
            await settle()
        assert await where(store, "pod-big-gpu") == "node-a"
        assert await where(store, "pod-big-gpu-2") is None
        told = await why(store, "pod-big-gpu-2")
        assert told.startswith("0/1 nodes are available: 1 cannot allocate all claims (")
        assert "request gpu: 0 of 2 devices left" in told
        assert "1 lost to use by default/big-gpu" in told


async def test_twenty_pods_at_once_never_share_a_device_nor_overcommit():
    async with scheduled() as store:
        await store.create(DEVICE_CLASS, example("device-class.yaml")[0])
        template, _ = example("trainer.yaml")
        await store.create(RESOURCE_CLAIM_TEMPLATE, template, "default")
        for name in ("node-a", "node-b", "node-c"):
            await add_node(store, node(name))
            [resource_slice] = example("resource-slice.yaml")
            resource_slice["metadata"]["name"] = f"{name}-gpus"
            resource_slice["spec"] |= {"nodeName": name, "pool": {**resource_slice["spec"]["pool"], "name": name}}
            await store.create(RESOURCE_SLICE, resource_slice)
        claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
        for number in range(20):
            await store.create(POD, pod(f"p{number}", resourceClaims=claims), "default")
        await settle()
        found = (await store.list(RESOURCE_CLAIM, "default")).items
        given = [
            (each["pool"], each["device"])
            for claim in found
            for each in ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", ())
        ]
        assert len(given) == len(set(given)) == 6
        placed = [pod for pod in (await store.list(POD, "default")).items if pod["spec"].get("nodeName")]
        assert len(placed) == 6
