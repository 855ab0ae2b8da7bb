"""A Pod that is deleted by force: the node confirms its end only when its devices are unprepared."""

import asyncio
import threading
import time

from headrace.api.kinds import NODE, POD
from headrace.api.objects import metadata
from headrace.node.registration import CONFIRMED
from headrace.store.protocol import Deletion
from tests.node.agent.home import running_agent
from tests.node.agent.simulated_runtime import SimulatedRuntime
from tests.node.agent.test_devices import site
from tests.node.agent.test_driver_slices import start


async def confirmed(here):
    node = await here.store.get(NODE, "node-a")
    return int((metadata(node).get("annotations") or {}).get(CONFIRMED) or 0)


async def eventually(look):
    async with asyncio.timeout(20):
        while not await look():  # noqa: ASYNC110 - the store is polled
            await asyncio.sleep(0.02)


async def test_with_grace_period_zero_the_end_is_not_confirmed_before_unprepare_has_ended():
    async with site() as here:
        begun, go = threading.Event(), threading.Event()
        unprepare = here.driver.unprepare

        def slow(claim_uid):
            begun.set()
            assert go.wait(20)
            unprepare(claim_uid)

        here.driver.unprepare = slow
        async with running_agent(here.store, SimulatedRuntime(time.time), here.directory):
            await start(here)
            await here.store.delete(POD, "p", "default", Deletion(grace_seconds=0))
            deleted = int((await here.store.list(POD)).revision)
            assert await asyncio.to_thread(begun.wait, 20)
            assert await confirmed(here) < deleted
            assert len(here.documents()) == 1
            go.set()

            async def is_confirmed():
                return await confirmed(here) >= deleted

            await eventually(is_confirmed)
            assert here.documents() == []
