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
