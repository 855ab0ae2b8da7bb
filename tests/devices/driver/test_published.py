"""A driver's slices in the store: taken by the API as they are, never written twice."""

import asyncio
import shutil
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import structlog

from headrace.api.kinds import NODE, RESOURCE_SLICE
from headrace.devices.driver.inventory import PROFILES
from headrace.devices.driver.plugin import Plugin
from headrace.devices.driver.simulated import SimulatedGpus, SimulatedNics
from headrace.runtime.clock import LoopClock
from tests.node.agent.home import as_node, open_store


@contextmanager
def directory():
    """Short, as unix sockets need it."""
    path = Path(tempfile.mkdtemp(prefix="hr-", dir="/tmp"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def plugin(driver, store, path):
    return Plugin(driver, "node-a", as_node(store), path, clock=LoopClock(time.time), log=structlog.get_logger())


async def with_node():
    store = await open_store()
    await store.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}})
    return store


def all_drivers(path):
    return [*(SimulatedGpus("node-a", path, profile) for profile in PROFILES), SimulatedNics("node-a", path)]


@pytest.mark.parametrize("number", range(len(PROFILES) + 1), ids=[*PROFILES, "nic"])
async def test_what_a_driver_publishes_is_taken_and_not_written_again(number):
    with directory() as path:
        store = await with_node()
        driver = all_drivers(path)[number]
        published = plugin(driver, store, path)
        assert await published.publish()
        before = await store.list(RESOURCE_SLICE)
        assert sum(len(each["spec"].get("devices", ())) for each in before.items) == len(driver.pools()[0].devices)
        assert await plugin(driver, store, path).publish()
        assert await store.list(RESOURCE_SLICE) == before


async def test_a_change_of_profile_is_a_new_generation_that_replaces_the_old():
    with directory() as path:
        store = await with_node()
        for generation, profile in enumerate(PROFILES, 1):
            driver = SimulatedGpus("node-a", path, profile)
            await plugin(driver, store, path).publish()
            slices = (await store.list(RESOURCE_SLICE)).items
            assert {each["spec"]["pool"]["generation"] for each in slices} == {generation}
            assert {each["spec"]["pool"]["resourceSliceCount"] for each in slices} == {len(slices)}


async def test_slices_that_somebody_removes_are_back_at_once_and_of_no_older_generation():
    with directory() as path:
        store = await with_node()
        driver = SimulatedGpus("node-a", path)
        task = asyncio.create_task(plugin(driver, store, path).run())
        try:
            seen = [(name, generation) async for name, generation in removals(store, 3)]
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert {name for name, _ in seen} == {"node-a-gpu.example.com-x7k2p"}
        assert [generation for _, generation in seen] == sorted({generation for _, generation in seen})


async def removals(store, count):
    """The slice's name and generation, each time it is there; it is then removed, as a kubelet does when it starts."""
    async with asyncio.timeout(10):
        for _ in range(count):
            while not (items := (await store.list(RESOURCE_SLICE)).items):  # noqa: ASYNC110 - the store is polled
                await asyncio.sleep(0.02)
            yield items[0]["metadata"]["name"], items[0]["spec"]["pool"]["generation"]
            await store.delete(RESOURCE_SLICE, items[0]["metadata"]["name"])


async def test_without_its_node_a_driver_waits():
    with directory() as path:
        store = await open_store()
        assert not await plugin(SimulatedGpus("node-a", path), store, path).publish()
        assert (await store.list(RESOURCE_SLICE)).items == []


class Forgetful:
    """A server that drops a field it does not know, as one does whose feature gates are off."""

    def __init__(self, store):
        self._store, self.writes = store, 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    def _without(self, obj):
        devices = [{k: v for k, v in each.items() if k != "capacity"} for each in obj["spec"].get("devices", ())]
        return {**obj, "spec": {**obj["spec"], "devices": devices}}

    async def create(self, kind, obj, namespace=""):
        self.writes += 1
        return await self._store.create(kind, self._without(obj), namespace)

    async def patch(self, kind, name, namespace="", *, fields, **options):
        self.writes += 1
        return await self._store.patch(kind, name, namespace, fields=self._without(fields), **options)


async def test_a_server_that_drops_fields_is_not_written_to_again_and_again():
    with directory() as path:
        store = await with_node()
        forgetful = Forgetful(as_node(store))
        driver = SimulatedGpus("node-a", path)
        log = structlog.get_logger()
        published = Plugin(driver, "node-a", forgetful, path, clock=LoopClock(time.time), log=log)
        for _ in range(3):
            assert await published.publish()
        assert forgetful.writes == 1
        [resource_slice] = (await store.list(RESOURCE_SLICE)).items
        await store.delete(RESOURCE_SLICE, resource_slice["metadata"]["name"])
        for _ in range(3):
            assert await published.publish()
        assert forgetful.writes == 2
