"""Leader election in virtual time: one leader at a time, and one that was paused writes nothing when it wakes up."""

import asyncio
import random
from contextlib import asynccontextmanager

import pytest
import structlog

from headrace.api.kinds import CONFIG_MAP, LEASE
from headrace.runtime.clock import LoopClock
from headrace.runtime.fenced import FencedStore
from headrace.runtime.leader import Election, LeaseTimes, NotLeading
from headrace.store.protocol import NotFound, Unavailable
from tests.runtime.home import open_store, wall

pytestmark = pytest.mark.looptime

TIMES = LeaseTimes()


class Cuttable:
    """A store whose connection can be cut, or whose answers can be held back."""

    def __init__(self, store):
        self._store = store
        self.cut = False
        self.open = asyncio.Event()
        self.open.set()

    def __getattr__(self, name):
        method = getattr(self._store, name)

        async def call(*arguments, **options):
            await self.open.wait()
            if self.cut:
                raise Unavailable("no connection")
            return await method(*arguments, **options)

        return call


def candidate(store, identity):
    return Election(
        store,
        namespace="kube-system",
        name="headrace-controllers",
        identity=identity,
        clock=LoopClock(wall),
        random=random.Random(identity).random,
        log=structlog.get_logger(),
    )


@asynccontextmanager
async def opened():
    store = await open_store()
    await store.bootstrap()
    yield store
    await store.rows.close()


async def holder(store):
    return (await store.get(LEASE, "headrace-controllers", "kube-system"))["spec"]


async def test_one_of_two_leads_and_the_other_waits():
    async with opened() as store:
        first, second = candidate(store, "a"), candidate(store, "b")
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(600)
        assert (first.is_leader, second.is_leader, waiting.done()) == (True, False, False)
        assert (await holder(store))["holderIdentity"] == "a"
        for task in (holding, waiting):
            task.cancel()


async def test_a_released_lease_is_taken_at_once():
    async with opened() as store:
        first, second = candidate(store, "a"), candidate(store, "b")
        await first.acquire()
        await first.release()
        assert not first.is_leader
        began = asyncio.get_running_loop().time()
        await second.acquire()
        assert asyncio.get_running_loop().time() - began < 1
        assert (await holder(store))["leaseTransitions"] == 1


async def test_a_paused_leader_that_wakes_up_writes_nothing():
    async with opened() as store:
        first, second = candidate(store, "a"), candidate(store, "b")
        await first.acquire()
        fenced = FencedStore(store, first)
        await fenced.create(CONFIG_MAP, {"metadata": {"name": "before"}}, "default")
        # Paused: nothing of the first runs, and so nothing renews.
        await second.acquire()
        assert second.is_leader
        for write in (
            lambda: fenced.create(CONFIG_MAP, {"metadata": {"name": "after"}}, "default"),
            lambda: fenced.patch(CONFIG_MAP, "before", "default", fields={"data": {"x": "1"}}),
            lambda: fenced.delete(CONFIG_MAP, "before", "default"),
        ):
            with pytest.raises(NotLeading, match="does not hold lease kube-system/headrace-controllers"):
                await write()
        assert "data" not in await fenced.get(CONFIG_MAP, "before", "default")
        with pytest.raises(NotFound):
            await store.get(CONFIG_MAP, "after", "default")


async def test_without_the_fence_a_paused_leader_does_write():
    """The control: the same history through the bare store is what must not be."""
    async with opened() as store:
        first, second = candidate(store, "a"), candidate(store, "b")
        await first.acquire()
        await second.acquire()
        await store.create(CONFIG_MAP, {"metadata": {"name": "after"}}, "default")
        assert await store.get(CONFIG_MAP, "after", "default")


async def test_a_write_that_waits_to_be_sent_again_ends_with_the_lease():
    async with opened() as store:
        first, second = candidate(store, "a"), candidate(store, "b")
        slow = Cuttable(store)
        await first.acquire()
        slow.open.clear()
        writing = asyncio.create_task(
            FencedStore(slow, first).create(CONFIG_MAP, {"metadata": {"name": "late"}}, "default")
        )
        await second.acquire()
        slow.open.set()
        with pytest.raises(NotLeading, match="the lease ended"):
            await writing
        with pytest.raises(NotFound):
            await store.get(CONFIG_MAP, "late", "default")


async def test_a_leader_that_is_cut_off_stops_before_another_may_begin():
    async with opened() as store:
        connection = Cuttable(store)
        first, second = candidate(connection, "a"), candidate(store, "b")
        loop = asyncio.get_running_loop()
        await first.acquire()
        connection.cut = True
        began = loop.time()
        await first.hold()
        assert loop.time() - began <= TIMES.renew + TIMES.retry
        assert not first.is_leader
        await second.acquire()
        assert loop.time() - began >= TIMES.lease


async def test_a_leader_whose_lease_was_taken_ends_its_term():
    async with opened() as store:
        first = candidate(store, "a")
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        taken = {"spec": {"holderIdentity": "b", "leaseTransitions": 1}}
        await store.patch(LEASE, "headrace-controllers", "kube-system", fields=taken)
        await asyncio.wait_for(holding, TIMES.retry * 2)
        assert not first.is_leader


async def test_a_lease_that_was_deleted_ends_the_term():
    async with opened() as store:
        first = candidate(store, "a")
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        await store.delete(LEASE, "headrace-controllers", "kube-system")
        await asyncio.wait_for(holding, TIMES.retry * 2)
        assert not first.is_leader


async def test_a_jump_of_the_wall_clock_changes_nothing():
    jumps = {"seconds": 0.0}
    async with opened() as store:
        first, second = candidate(store, "a"), candidate(store, "b")
        second._clock = LoopClock(lambda: wall() + jumps["seconds"])
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        waiting = asyncio.create_task(second.acquire())
        for seconds in (3600.0, -3600.0, 86400.0, -86400.0):
            jumps["seconds"] = seconds
            await asyncio.sleep(60)
            assert (first.is_leader, waiting.done()) == (True, False)
        for task in (holding, waiting):
            task.cancel()


@pytest.mark.parametrize("seed", range(12))
async def test_with_pauses_and_cuts_there_is_never_more_than_one_leader(seed):
    """Three candidates, each paused or cut off at random; whoever may act is noted each quarter of a second."""
    chance = random.Random(seed)
    async with opened() as store:
        connections = [Cuttable(store) for _ in range(3)]
        elections = [candidate(connection, f"c{at}") for at, connection in enumerate(connections)]

        async def life(election):
            while True:
                await election.acquire()
                await election.hold()

        tasks = [asyncio.create_task(life(each)) for each in elections]
        led = 0
        for _ in range(2000):
            connection = chance.choice(connections)
            match chance.randrange(40):
                case 0:
                    connection.cut = not connection.cut
                case 1:
                    (connection.open.clear if connection.open.is_set() else connection.open.set)()
            await asyncio.sleep(0.25)
            leaders = [each.identity for each in elections if each.is_leader]
            assert len(leaders) <= 1
            led += len(leaders)
        assert led > 0
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("times", [(10, 10, 2), (15, 2, 2), (15, 10, 0)])
def test_times_that_could_overlap_are_refused(times):
    with pytest.raises(ValueError, match="must be lease > renew > retry > 0"):
        LeaseTimes(*times)
