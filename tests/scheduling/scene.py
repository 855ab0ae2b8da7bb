"""What tests of scheduling share: the controllers on the real store in virtual time, and objects to put there."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from headrace.api.kinds import DEVICE_CLASS, NAMESPACE, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from headrace.devices.controller import Claims, PodClaims
from headrace.runtime.clock import LoopClock
from headrace.scheduling.controller import Scheduler
from headrace.serve.controllers import unconfirmed_end
from tests.runtime.home import controllers, open_store, running, wall

EXAMPLES = Path(__file__).parents[2] / "examples" / "devices"


async def nothing():
    await asyncio.sleep(0)


@asynccontextmanager
async def scheduled(*, store=None, yield_now=nothing, **options):
    """A store with namespace, class and the claim controllers and the scheduler at work."""
    if store is None:
        store = await open_store()
    if not (await store.list(NAMESPACE)).items:
        await store.create(NAMESPACE, {"metadata": {"name": "default"}})
    manager = controllers(store)
    ids = iter(f"share-{number}" for number in range(1000))
    scheduler = Scheduler(
        manager.informers, clock=LoopClock(wall), new_id=lambda: next(ids), yield_now=yield_now, **options
    )
    manager.add(scheduler, workers=4)
    manager.add(PodClaims(manager.informers))
    manager.add(Claims(manager.informers, store, unconfirmed_end(store)))
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


async def with_devices(store, **spec):
    """A node with the document's slice and class; `spec` changes the slice's devices by name."""
    await add_node(store, node("node-a"))
    [resource_slice] = example("resource-slice.yaml")
    for device in resource_slice["spec"]["devices"]:
        device |= spec
    await store.create(RESOURCE_SLICE, resource_slice)
    await store.create(DEVICE_CLASS, example("device-class.yaml")[0])


def claim(name, **exactly):
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", **exactly}}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


async def with_claim(store, name, **exactly):
    await store.create(RESOURCE_CLAIM, claim(name, **exactly), "default")
    await store.create(POD, pod(f"pod-{name}", resourceClaims=[{"name": "gpu", "resourceClaimName": name}]), "default")


async def given(store, name):
    allocation = ((await store.get(RESOURCE_CLAIM, name, "default")).get("status") or {}).get("allocation") or {}
    return [each["device"] for each in (allocation.get("devices") or {}).get("results") or ()]


def eight_gpus(name):
    [resource_slice] = example("resource-slice.yaml")
    resource_slice["metadata"]["name"] = f"{name}-gpus"
    devices = [{"name": f"gpu-{at}"} for at in range(8)]
    pool = {**resource_slice["spec"]["pool"], "name": name}
    resource_slice["spec"] |= {"nodeName": name, "pool": pool, "devices": devices}
    return resource_slice


async def no_device_twice(store, owners):
    """Follows every claim and fails at the first instant at which a device has two."""
    had = {}
    async for event in store.watch(RESOURCE_CLAIM, since="1"):
        if event.type == "BOOKMARK":
            continue
        key = event.object["metadata"]["name"]
        for device in had.pop(key, ()):
            del owners[device]
        if event.type == "DELETED":
            continue
        allocation = (event.object.get("status") or {}).get("allocation") or {}
        results = (allocation.get("devices") or {}).get("results") or ()
        had[key] = [(each["pool"], each["device"]) for each in results]
        for device in had[key]:
            assert device not in owners, f"{device} is {owners[device]}'s and was given to {key}"
            owners[device] = key
