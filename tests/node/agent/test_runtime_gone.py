"""A runtime that cannot be read, or does not answer: the node says so, the agent goes on, nothing is forgotten."""

import asyncio
from contextlib import suppress

import pytest

from headrace.api.kinds import NODE
from headrace.node.keeper.launch import KeeperFailed
from headrace.node.states import ANSWER_SECONDS, PATIENCE_SECONDS
from headrace.store.protocol import NotFound
from tests.node.agent.home import (
    create,
    is_phase,
    is_running,
    open_store,
    pod,
    running_agent,
    until,
    wall,
)
from tests.node.agent.simulated_runtime import SimulatedRuntime

pytestmark = pytest.mark.looptime
GONE = KeeperFailed("keeper in /data: it does not accept connections")
SOON_SECONDS = 30.0


class Failing(SimulatedRuntime):
    """`reading` and `telling` say what becomes of a list and of the changes: an error, or None; `hangs`: no answer."""

    reading: Exception | None = None
    telling: Exception | None = None
    hangs = False

    async def list(self):
        if self.hangs:
            await asyncio.Event().wait()
        if self.reading is not None:
            raise self.reading
        return await super().list()

    async def changes(self):
        if self.telling is not None:
            raise self.telling
        async for id in super().changes():
            if self.telling is not None:
                raise self.telling
            yield id


async def ready_of(store):
    with suppress(NotFound):
        node = await store.get(NODE, "node-a")
        return next(
            (each["status"], each["message"]) for each in node["status"]["conditions"] if each["type"] == "Ready"
        )
    return "", ""


async def until_ready_is(store, status, seconds):
    end = asyncio.get_running_loop().time() + seconds
    while (found := await ready_of(store))[0] != status:
        assert asyncio.get_running_loop().time() < end, found
        await asyncio.sleep(0.1)
    return found[1]


async def test_a_runtime_that_cannot_be_read_makes_its_node_not_ready_until_it_can(tmp_path):
    store, runtime = await open_store(), Failing(wall)
    async with running_agent(store, runtime, tmp_path):
        await create(store, pod())
        await until(store, is_running)
        runtime.reading = runtime.telling = GONE
        runtime._tell("wakes whoever follows")
        await asyncio.sleep(PATIENCE_SECONDS / 2)
        assert (await ready_of(store))[0] == "True"  # a moment is none of the scheduler's business
        said = await until_ready_is(store, "False", PATIENCE_SECONDS + SOON_SECONDS)
        assert said == f"container runtime is down: {GONE}"
        await asyncio.sleep(600)
        assert is_running(await until(store, is_running))
        [id] = runtime.states
        runtime.end(id, 0)
        runtime.reading = runtime.telling = None
        await until_ready_is(store, "True", SOON_SECONDS)
        await until(store, lambda told: told["status"]["containerStatuses"][0]["restartCount"] == 1)


async def test_a_runtime_that_does_not_answer_is_told_too(tmp_path):
    store, runtime = await open_store(), Failing(wall)
    async with running_agent(store, runtime, tmp_path):
        runtime.hangs = True
        said = await until_ready_is(store, "False", PATIENCE_SECONDS + 2 * SOON_SECONDS)
        assert said == "container runtime is down: it has not answered for 30 s"
        runtime.hangs = False
        await until_ready_is(store, "True", ANSWER_SECONDS + SOON_SECONDS)


async def test_an_agent_that_starts_before_its_runtime_can_be_read_touches_nothing_until_then(tmp_path):
    store, runtime = await open_store(), Failing(wall)
    async with running_agent(store, runtime, tmp_path):
        await create(store, pod())
        await until(store, is_running)
    runtime.reading = GONE
    starting = running_agent(store, runtime, tmp_path)
    opening = asyncio.create_task(starting.__aenter__())
    assert await until_ready_is(store, "False", SOON_SECONDS) == f"container runtime is down: {GONE}"
    await asyncio.sleep(120)
    assert not opening.done()
    assert len(runtime.starts) == 1
    runtime.reading = None
    await opening
    await until_ready_is(store, "True", SOON_SECONDS)
    assert len(runtime.starts) == 1
    await starting.__aexit__(None, None, None)


async def test_changes_that_are_not_told_are_found_by_reading(tmp_path):
    store, runtime = await open_store(), Failing(wall)
    runtime.telling = GONE
    async with running_agent(store, runtime, tmp_path):
        await create(store, pod(restartPolicy="Never"))
        await until(store, is_running)
        [id] = runtime.states
        runtime.end(id, 0)
        await until(store, is_phase("Succeeded"))
        assert (await ready_of(store))[0] == "True"
