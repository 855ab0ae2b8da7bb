"""What an agent's loops do when something unforeseen happens to one look."""

import asyncio

import pytest

from headrace.node.runtimes.protocol import RuntimeUnavailable
from tests.node.agent.home import create, is_running, open_store, pod, running_agent, until, wall
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
