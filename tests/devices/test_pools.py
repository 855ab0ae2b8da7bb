"""Drivers that publish what cannot be: told on the slice and on the node, never given from, never a crash."""

import asyncio

import pytest

from headrace.api.kinds import EVENT, NAMESPACE, NODE, RESOURCE_SLICE
from headrace.devices.pool_health import ResourcePools
from headrace.devices.pools import CONDITION, problems
from tests.runtime.home import controllers, open_store, running


def resource_slice(name="s", *devices, count=1, generation=1, node="node-a", **spec):
    pool = {"name": "p", "generation": generation, "resourceSliceCount": count}
    found = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, **spec}
    if "sharedCounters" not in spec:
        found["devices"] = [{"name": each} if isinstance(each, str) else each for each in devices]
    return {"metadata": {"name": name}, "spec": found}


COUNTERS = [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}]


SETS = resource_slice("b", count=2, sharedCounters=COUNTERS)


def consumer(counter_set="gpu-0", counter="memory", value="40Gi"):
    used = [{"counterSet": counter_set, "counters": {counter: {"value": value}}}]
    return {"name": "half", "consumesCounters": used}


@pytest.mark.parametrize(
    ("slices", "words"),
    [
        pytest.param(
            [resource_slice("a", "x", count=2), resource_slice("b", "x", count=2)],
            "device x is published 2 times",
            id="a device under one name in two slices",
        ),
        pytest.param(
            [resource_slice(each, each, count=2) for each in "abc"],
            "has 3 slices of generation 1, but resourceSliceCount 2",
            id="more slices than declared",
        ),
        pytest.param(
            [resource_slice("a", "a", count=2), resource_slice("b", "b", count=3)],
            "disagree about resourceSliceCount (2, 3)",
            id="slices that disagree",
        ),
        pytest.param(
            [resource_slice("a", consumer("gpu-9"), count=2), SETS],
            "consumes counter gpu-9/memory, which no slice defines",
            id="a counter that is not there",
        ),
        pytest.param(
            [
                resource_slice("a", consumer(value="90Gi"), count=2),
                resource_slice("b", count=2, sharedCounters=COUNTERS),
            ],
            "consumes more of counter gpu-0/memory than there is: it can never be given",
            id="more of a counter than there is",
        ),
    ],
)
def test_what_is_wrong_is_said(slices, words):
    assert any(words in problem for problem in problems(slices))


@pytest.mark.parametrize(
    "slices",
    [
        pytest.param([resource_slice("a", "x", "y")], id="a pool as it should be"),
        pytest.param([resource_slice("a", "x", count=2)], id="one that is still being published"),
        pytest.param(
            [resource_slice("a", "x"), resource_slice("b", "x", generation=2)], id="older generations do not count"
        ),
    ],
)
def test_nothing_is_wrong(slices):
    assert problems(slices) == ()


@pytest.mark.looptime
async def test_the_node_and_the_slice_say_so_and_say_when_it_is_over():
    store = await open_store()
    await store.create(NAMESPACE, {"metadata": {"name": "default"}})
    manager = controllers(store)
    manager.add(ResourcePools(manager.informers))
    async with running(manager):
        await manager.wait_until_synced()
        await store.create(NODE, {"metadata": {"name": "node-a"}})
        for name in "ab":
            await store.create(RESOURCE_SLICE, resource_slice(name, "x", count=2))
        await asyncio.sleep(10)
        told = await condition(store)
        assert (told["status"], told["reason"]) == ("False", "InvalidResourcePool")
        assert "pool gpu.example.com/p: device x is published 2 times" in told["message"]
        events = (await store.list(EVENT)).items
        assert [each["reason"] for each in events] == ["InvalidResourcePool"]
        await store.patch(RESOURCE_SLICE, "b", fields={"spec": {"devices": [{"name": "y"}]}})
        await asyncio.sleep(10)
        assert (await condition(store))["status"] == "True"


async def condition(store):
    node = await store.get(NODE, "node-a")
    return next(each for each in node["status"]["conditions"] if each["type"] == CONDITION)
