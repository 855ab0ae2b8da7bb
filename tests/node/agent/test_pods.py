"""What an agent's loops do when something unforeseen happens to one look."""

import asyncio

import orjson
import pytest

from headrace.api.kinds import NODE, POD
from headrace.node.pods import STRAY_SECONDS
from headrace.node.registration import STRAYS
from headrace.node.runtimes.protocol import RuntimeUnavailable, Unreadable
from headrace.store.protocol import Deletion
from tests.node.agent.home import container, create, is_running, open_store, pod, running_agent, until, wall
from tests.node.agent.simulated_runtime import SimulatedRuntime

pytestmark = pytest.mark.looptime


class Unforeseen(SimulatedRuntime):
    """Each of its looks for strays fails."""

    looks = 0

    async def strays(self, wanted):
        self.looks += 1
        raise RuntimeUnavailable("nobody answers")


async def test_a_look_for_strays_that_fails_is_made_again_and_the_agent_goes_on(tmp_path):
    store, runtime = await open_store(), Unforeseen(wall)
    async with running_agent(store, runtime, tmp_path):
        await asyncio.sleep(25)
        assert runtime.looks >= 2
        await create(store, pod())
        await until(store, is_running)


class Stubborn(SimulatedRuntime):
    """Its containers do not end; what limits them may be unreadable."""

    is_readable = True

    async def signal(self, id, number): ...

    async def kill(self, id): ...

    async def read(self, id):
        if not self.is_readable:
            raise Unreadable(f"container {id}: memory.max: Too many open files")
        return await super().read(id)


async def test_a_stray_whose_limits_cannot_be_read_for_a_while_stays_charged_with_what_it_had(tmp_path):
    store, runtime = await open_store(), Stubborn(wall)
    async with running_agent(store, runtime, tmp_path):
        await create(store, pod(containers=[container(resources={"limits": {"cpu": "500m", "memory": "64Mi"}})]))
        await until(store, is_running)
    await store.delete(POD, "p", "default", Deletion(grace_seconds=0))

    async def charged():
        node = await store.get(NODE, "node-a")
        return list(orjson.loads(node["metadata"]["annotations"][STRAYS]).values())

    async with running_agent(store, runtime, tmp_path):
        await asyncio.sleep(5)
        assert await charged() == [{"cpu": 500, "memory": 64 * 2**20}]
        runtime.is_readable = False
        await asyncio.sleep(3 * STRAY_SECONDS)
        assert await charged() == [{"cpu": 500, "memory": 64 * 2**20}]
