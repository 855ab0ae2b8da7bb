"""An agent on the real store (SQLite in memory) in the test's loop, and what tests say about its Pods."""

import asyncio
import itertools
import uuid
from contextlib import asynccontextmanager

import structlog

from headrace.api.kinds import NAMESPACE, POD
from headrace.node.agent import Agent, Settings
from headrace.node.machine import Machine
from headrace.objects.local import Caller, LocalStore
from headrace.runtime.clock import LoopClock
from headrace.store.protocol import NotFound, Unavailable
from headrace.store.sqlite import open_rows

EPOCH = 1_800_000_000.0
MACHINE = Machine(8, 16 * 2**30, "amd64", "linux", "6.18", "Test OS", "machine", "boot-1")
DEADLINE_SECONDS = 30.0


def wall():
    return EPOCH + asyncio.get_running_loop().time()


async def open_store():
    """As system:admin; `acting_as` makes others of it."""
    numbers = itertools.count(1)
    rows = await open_rows(":memory:", inline=True, now=asyncio.get_running_loop().time)
    store = LocalStore(
        rows, wall=wall, new_uid=lambda: str(uuid.UUID(int=next(numbers))), caller=Caller(user="system:admin")
    )
    for name in ("default", "kube-node-lease"):
        await store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return store


def as_node(store, node="node-a"):
    return store.acting_as(Caller(user=f"system:node:{node}", field_manager="headrace-agent"))


class Cut:
    """A store that can be cut off: every call then says so."""

    def __init__(self, store):
        self.store, self.is_cut = store, False

    def __getattr__(self, name):
        if self.is_cut and name != "watch":
            raise Unavailable("no connection")
        return getattr(self.store, name)


@asynccontextmanager
async def running_agent(
    store, runtime, directory, *, node="node-a", machine=MACHINE, dial=None, clock=None, seen=None, **settings
):
    """`seen` is the store as the agent has it, if not as its own."""
    agent = Agent(
        Settings(node, directory, **settings),
        machine,
        seen or as_node(store, node),
        runtime,
        clock=clock or LoopClock(wall),
        log=structlog.get_logger(),
        dial=dial,
    )
    task = asyncio.create_task(agent.run())
    ready = asyncio.create_task(agent.ready.wait())
    await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    try:
        yield agent
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def pod(name="p", *, node="node-a", containers=None, **spec):
    """A Pod bound to the node; without containers it has one, `main`, with a command."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": ({"nodeName": node} if node else {}) | {"containers": containers or [container()], **spec},
    }


def container(name="main", **fields):
    return {"name": name, "image": "none", "command": ["run", name], **fields}


async def create(store, obj):
    return await store.create(POD, obj, "default")


async def admit(store, record, name="p", container="main"):
    """As the ResourceManager leaves it: desired, then admitted. `record` has the keys of allocatedResources."""
    limits = {key.removeprefix("limits."): value for key, value in record.items() if key.startswith("limits.")}
    requests = {key: value for key, value in record.items() if not key.startswith("limits.")}
    await resize(store, limits, requests, name, container)
    await allocate(store, record, name, container)


async def resize(store, limits, requests=None, name="p", container="main"):
    """As a user does."""
    wish = [{"name": container, "resources": {"limits": limits, "requests": requests or limits}}]
    await store.patch(POD, name, "default", fields={"spec": {"containers": wish}}, subresource="resize", strategic=True)


async def allocate(store, record, name="p", container="main"):
    told = [{"name": container, "allocatedResources": record}]
    fields = {"status": {"containerStatuses": told}}
    await store.patch(POD, name, "default", fields=fields, subresource="status", strategic=True)


async def until(store, what, name="p"):
    """The Pod once `what(pod)` holds; None stands for a Pod that is gone."""
    loop = asyncio.get_running_loop()
    end, seen = loop.time() + DEADLINE_SECONDS, None
    while loop.time() < end:
        try:
            seen = await store.get(POD, name, "default")
        except NotFound:
            seen = None
        if what(seen):
            return seen
        await asyncio.sleep(0.02)
    raise AssertionError(f"never so; the last seen was {seen and seen['status']}")


def state(obj, name="main"):
    """(running | waiting | terminated, its fields) of a container; ("", {}) before anything is told."""
    for each in [*obj["status"].get("containerStatuses", []), *obj["status"].get("initContainerStatuses", [])]:
        if each["name"] == name:
            return next(iter((each.get("state") or {"": {}}).items()))
    return "", {}


def is_running(obj):
    return obj is not None and state(obj)[0] == "running"


def is_phase(phase):
    return lambda obj: obj is not None and obj["status"].get("phase") == phase


def is_gone(obj):
    return obj is None
