"""One node in virtual time: the real store with its guard, the controllers of resizing, an agent that obeys or not."""

import asyncio
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry

from headrace.api.amounts import read
from headrace.api.kinds import EVENT, NAMESPACE, NODE, POD, RESOURCE_SCALING_ACTION
from headrace.api.objects import version_of
from headrace.objects.local import Caller
from headrace.resize.action_controller import ActionController
from headrace.resize.controller import ResourceManager
from headrace.resize.reservations import Reservations
from tests.resize.agent import Agent
from tests.resize.pods import resources
from tests.runtime.home import controllers, open_store, running

GI = 1024**3


class Scene:
    def __init__(self, store, agent, registry):
        self.store, self.agent, self.registry = store, agent, registry

    async def pod(self, name, cpu=1000, memory=256, *, uid=None, labels=None, limit_cpu=None, **spec):
        container = {
            "name": "app",
            "image": "app",
            "command": ["serve"],
            "resources": resources(cpu, memory, limit_cpu),
        }
        obj = {
            "metadata": {"name": name, "labels": {"headrace.dev/managed": "true", "app": name} | (labels or {})},
            "spec": {"nodeName": "node-a", "containers": [container], **spec},
        }
        found = await self.store.create(POD, obj, "default")
        await self.settle(1)
        return found

    async def resize(self, name, workload="web/app", **spec):
        target = {key: spec.pop(key) for key in ("cpu", "memory") if key in spec}
        obj = {"metadata": {"name": name}, "spec": {"workload": workload, "target": target, **spec}}
        return await self.store.create(RESOURCE_SCALING_ACTION, obj, "default")

    async def settle(self, seconds=1.0):
        await asyncio.sleep(seconds)

    async def status(self, name):
        return (await self.store.get(RESOURCE_SCALING_ACTION, name, "default")).get("status") or {}

    async def told(self, name):
        status = await self.status(name)
        return status.get("state"), status.get("reason"), status.get("syncState")

    async def limits(self, name):
        """(desired, admitted, actual) limits of cpu in millicores."""
        pod = await self.store.get(POD, name, "default")
        told = pod["status"]["containerStatuses"][0]
        return (
            read(pod["spec"]["containers"][0]["resources"]["limits"])["cpu"],
            read(told.get("allocatedResources") or {}).get("limits.cpu"),
            read(told["resources"]["limits"])["cpu"],
        )

    async def held(self, name):
        """CPU that the guard's books have for this Pod."""
        return self.store.rows.ledgers["node-a"].holders[f"Pod default/{name}"]["cpu"]

    async def node_ready(self, ready):
        conditions = [{"type": "Ready", "status": "True" if ready else "Unknown", "reason": "x", "message": "x"}]
        await self.store.patch(NODE, "node-a", fields={"status": {"conditions": conditions}}, subresource="status")

    async def events_of(self, name):
        events = (await self.store.list(EVENT, "default", fields=f"involvedObject.name={name}")).items
        return [each["reason"] for each in sorted(events, key=lambda each: int(version_of(each)))]


@asynccontextmanager
async def scene(
    cpu="8", memory="8Gi", reserved_cpu="0", jobs=lambda manager, registry: None, through=lambda store: store
):
    """The seed's node when it is asked for: total 8, reserved 1. `through`: what the controllers see the store by."""
    store = await open_store()
    await store.create(NAMESPACE, {"metadata": {"name": "default"}})
    await store.create(NODE, {"metadata": {"name": "node-a"}})
    capacity = {"cpu": cpu, "memory": memory, "pods": "110"}
    allocatable = {**capacity, "cpu": str(int(cpu) - int(reserved_cpu))}
    fields = {"status": {"capacity": capacity, "allocatable": allocatable}}
    await store.patch(NODE, "node-a", fields=fields, subresource="status")
    door = store.acting_as(Caller(user="system:node:node-a", field_manager="agent"))
    agent, registry = Agent(door), CollectorRegistry()
    manager = controllers(through(store))
    manager.add(ResourceManager(manager.informers))
    manager.add(Reservations(manager.informers))
    manager.add(ActionController(manager.informers, registry))
    jobs(manager, registry)
    async with running(manager):
        await manager.wait_until_synced()
        task = asyncio.create_task(agent.run())
        try:
            yield Scene(store, agent, registry)
        finally:
            task.cancel()
