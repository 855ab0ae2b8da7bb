"""The ResourceManager on the real store with its guard, in virtual time; the test plays the node's agent."""

import asyncio

import pytest

from headrace.api.kinds import EVENT, NAMESPACE, NODE, POD
from headrace.objects.local import Caller
from headrace.resize.controller import ResourceManager
from headrace.store.protocol import Deletion
from tests.resize.pods import resources
from tests.runtime.home import controllers, open_store, running

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


async def a_store(cpu="4"):
    store = await open_store()
    await store.create(NAMESPACE, {"metadata": {"name": "default"}})
    await store.create(NODE, {"metadata": {"name": "node-a"}})
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    fields = {"status": {"capacity": amounts, "allocatable": amounts}}
    await store.patch(NODE, "node-a", fields=fields, subresource="status")
    return store


async def a_pod(store, name, cpu):
    spec = {
        "nodeName": "node-a",
        "containers": [{"name": "app", "image": "app", "command": ["serve"], "resources": resources(cpu, 256)}],
    }
    labels = {"headrace.dev/managed": "true"}
    await store.create(POD, {"metadata": {"name": name, "labels": labels}, "spec": spec}, "default")
    await tell(store, name, cpu)


async def tell(store, name, cpu):
    """What the agent of node-a reads back."""
    told = [
        {
            "name": "app",
            "image": "app",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "resources": resources(cpu, 256),
        }
    ]
    fields = {"status": {"phase": "Running", "containerStatuses": told}}
    agent = store.acting_as(Caller(user="system:node:node-a", field_manager="agent"))
    await agent.patch(POD, name, "default", fields=fields, subresource="status", strategic=True)


async def resize(store, name, cpu):
    fields = {"spec": {"containers": [{"name": "app", "resources": resources(cpu, 256)}]}}
    await store.patch(POD, name, "default", fields=fields, subresource="resize", strategic=True)


async def state_of(store, name):
    """Admitted cpu, and what it waits for."""
    pod = await store.get(POD, name, "default")
    (status,) = pod["status"]["containerStatuses"]
    conditions = pod["status"].get("conditions") or ()
    waits = [(each["reason"], each["message"]) for each in conditions if each["type"] == "PodResizePending"]
    return status.get("allocatedResources", {}).get("cpu"), *(waits or [None])


def managing(store):
    manager = controllers(store)
    manager.add(ResourceManager(manager.informers))
    return manager


async def events_of(store, name):
    events = (await store.list(EVENT, "default", fields=f"involvedObject.name={name}")).items
    return [each["reason"] for each in sorted(events, key=lambda each: int(each["metadata"]["resourceVersion"]))]


async def test_a_resize_is_admitted_and_completed():
    store = await a_store()
    await a_pod(store, "web", 1000)
    async with running(managing(store)):
        await resize(store, "web", 3000)
        await asyncio.sleep(1)
        assert await state_of(store, "web") == ("3", None)
        await tell(store, "web", 3000)
        await asyncio.sleep(1)
    assert await events_of(store, "web") == ["ResizeStarted", "ResizeCompleted"]


async def test_what_does_not_fit_waits_and_is_admitted_when_there_is_room():
    store = await a_store()
    await a_pod(store, "web", 1000)
    await a_pod(store, "db", 2000)
    async with running(managing(store)):
        await resize(store, "web", 3000)
        await asyncio.sleep(1)
        admitted, (reason, message) = await state_of(store, "web")
        assert (admitted, reason) == ("1", "Deferred")
        assert message == (
            "node node-a: insufficient cpu: 2 more wanted, 1 available of 4 "
            "(most is held by Pod default/db 2, Pod default/web 1)"
        )
        await resize(store, "db", 500)
        await asyncio.sleep(1)
        assert await state_of(store, "db") == ("500m", None)
        assert (await state_of(store, "web"))[0] == "1"  # the node has not told yet that db has shrunk
        await tell(store, "db", 500)
        await asyncio.sleep(1)
        assert await state_of(store, "web") == ("3", None)
    assert await events_of(store, "web") == ["ResizeDeferred", "ResizeStarted"]


async def test_what_never_fits_is_infeasible_until_it_is_wished_otherwise():
    store = await a_store()
    await a_pod(store, "web", 1000)
    async with running(managing(store)):
        await resize(store, "web", 9000)
        await asyncio.sleep(1)
        assert await state_of(store, "web") == (
            "1",
            ("Infeasible", "node node-a: insufficient cpu: 9 wanted, 4 allocatable of 4"),
        )
        await resize(store, "web", 1000)
        await asyncio.sleep(1)
        assert await state_of(store, "web") == ("1", None)


async def test_a_charge_that_only_the_store_knows_is_told_in_its_words_and_tried_again_when_the_node_confirms():
    """A Pod deleted by force is charged until its node confirms: no cache shows it, the guard does."""
    store = await a_store()
    await a_pod(store, "web", 1000)
    await a_pod(store, "gone", 2000)
    await store.delete(POD, "gone", "default", Deletion(grace_seconds=0))
    async with running(managing(store)):
        await resize(store, "web", 3000)
        await asyncio.sleep(60)
        admitted, (reason, message) = await state_of(store, "web")
        assert (admitted, reason) == ("1", "Deferred")
        assert "Pod default/gone (deleted at" in message
        assert "not confirmed" in message
        confirmed = {"headrace.dev/confirmed-revision": str(store.rows.revision)}
        await store.patch(NODE, "node-a", fields={"metadata": {"annotations": confirmed}})
        await asyncio.sleep(1)
        assert await state_of(store, "web") == ("3", None)


async def test_of_two_wishes_for_the_same_room_exactly_one_is_admitted():
    for _ in range(20):
        store = await a_store(cpu="8")
        await a_pod(store, "other", 4000)
        for name in ("a", "b"):
            await a_pod(store, name, 1000)
        async with running(managing(store)):
            await asyncio.gather(resize(store, "a", 3000), resize(store, "b", 3000))
            await asyncio.sleep(1)
            states = [await state_of(store, name) for name in ("a", "b")]
        assert sorted(state[0] for state in states) == ["1", "3"]
        assert sum(1 for state in states if state[1] is not None) == 1
