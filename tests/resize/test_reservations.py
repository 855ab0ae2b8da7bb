"""An expiry has one judge: however the clock is set, ledger, scheduler and resize controller agree on what is kept."""

import asyncio
from contextlib import asynccontextmanager

import pytest
import structlog
from prometheus_client import CollectorRegistry

from headrace.api.kinds import CAPACITY_RESERVATION, POD
from headrace.api.times import to_time
from headrace.resize.controller import ResourceManager, ledger_of
from headrace.resize.reservations import LONGEST_SECONDS, Reservations, Seen
from headrace.runtime.actions import Again, Delete
from headrace.runtime.clock import LoopClock
from headrace.runtime.manager import ControllerManager
from headrace.runtime.metrics import ControllerMetrics
from headrace.scheduling.controller import Scheduler
from headrace.store.protocol import Deletion, Preconditions
from tests.resize.test_controller import a_store
from tests.runtime.home import EPOCH, running
from tests.runtime.home import wall as steady
from tests.scheduling.scene import nothing, pod
from tests.scheduling.scene import where as node_of

HOUR, DAY = 3600.0, 86400.0


def reservation(until=None, **meta):
    spec = {"node": "node-a", "resources": {"cpu": "4"}, "beneficiaries": {"pods": []}}
    if until is not None:
        spec["expirationTime"] = to_time(until)
    return {"metadata": {"name": "kept", **meta}, "spec": spec}


@pytest.mark.parametrize(
    ("found", "does"),
    [
        pytest.param(reservation(), (), id="one without an end is left alone"),
        pytest.param(reservation(EPOCH + 5), (Again(5.0),), id="it is looked at again when it ends"),
        pytest.param(
            reservation(EPOCH + DAY), (Again(LONGEST_SECONDS),), id="and before, since the clock may be set ahead"
        ),
        pytest.param(reservation(EPOCH, deletionTimestamp=to_time(EPOCH)), (), id="one that is going needs nothing"),
    ],
)
def test_until_when_a_reservation_stays(found, does):
    assert plan(found) == does


@pytest.mark.parametrize("late", [0.0, 1.0, DAY])
def test_from_its_end_on_it_is_deleted_unless_somebody_changed_it(late):
    (action,) = plan(reservation(EPOCH - late, namespace="default", uid="u1", resourceVersion="7"))
    assert action == Delete(CAPACITY_RESERVATION, "default", "kept", Deletion(Preconditions("u1", "7")))


def plan(found):
    return Reservations.plan(None, Seen(found), EPOCH)


class SetClock:
    """A wall clock that somebody sets."""

    def __init__(self):
        self.ahead = 0.0

    def wall(self):
        return steady() + self.ahead


@asynccontextmanager
async def at_work(store):
    """All who ask what is reserved, by a clock that is yielded."""
    clock = SetClock()
    manager = ControllerManager(
        store,
        clock=LoopClock(clock.wall),
        random=lambda: 0.5,
        metrics=ControllerMetrics(CollectorRegistry()),
        log=structlog.get_logger(),
    )
    manager.add(Reservations(manager.informers))
    manager.add(ResourceManager(manager.informers))
    scheduler = Scheduler(manager.informers, clock=LoopClock(clock.wall), new_id=lambda: "share", yield_now=nothing)
    manager.add(scheduler, workers=4)
    async with running(manager):
        await manager.wait_until_synced()
        yield clock


async def is_kept(store):
    """What the guard holds is what is there."""
    there = (await store.list(CAPACITY_RESERVATION)).items
    guarded = store.rows.ledgers["node-a"]
    assert guarded.floors == ledger_of({"metadata": {"name": "node-a"}}, (), there).floors
    return bool(guarded.floors)


async def reserved_for_ten_seconds():
    """All of a node of 4 CPUs, for nobody."""
    store = await a_store(cpu="4")
    await store.create(CAPACITY_RESERVATION, reservation(steady() + 10), "default")
    return store


@pytest.mark.asyncio
@pytest.mark.looptime
@pytest.mark.parametrize(
    ("after", "seconds", "kept"),
    [
        pytest.param(15, 0.0, False, id="left alone"),
        pytest.param(15, HOUR, False, id="set ahead after its end"),
        pytest.param(15, -HOUR, False, id="set back by an hour after its end"),
        pytest.param(15, -DAY, False, id="set back by a day after its end"),
        pytest.param(5, -DAY, True, id="set back before its end"),
        pytest.param(5, DAY, False, id="set ahead before its end"),
    ],
)
async def test_by_a_clock_that_is_set_it_is_kept_for_all_or_for_nobody(after, seconds, kept):
    store = await reserved_for_ten_seconds()
    async with at_work(store) as clock:
        await store.create(POD, pod("waits", cpu="3"), "default")
        await asyncio.sleep(after)
        clock.ahead = seconds
        await asyncio.sleep(LONGEST_SECONDS + 1)
        assert await is_kept(store) == kept
        assert await node_of(store, "waits") == (None if kept else "node-a")


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_its_end_is_seen_late_where_the_controllers_were_down_and_by_all_at_once():
    store = await reserved_for_ten_seconds()
    await asyncio.sleep(20)
    await store.create(POD, pod("waits", cpu="3"), "default")
    assert await is_kept(store)
    async with at_work(store) as clock:
        clock.ahead = -HOUR
        await asyncio.sleep(LONGEST_SECONDS)
        assert await is_kept(store)
        assert await node_of(store, "waits") is None
        clock.ahead = 0.0
        await asyncio.sleep(LONGEST_SECONDS + 1)
        assert not await is_kept(store)
        assert await node_of(store, "waits") == "node-a"


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_finalizer_keeps_the_object_of_one_that_has_ended_and_not_its_room():
    store = await a_store(cpu="4")
    await store.create(CAPACITY_RESERVATION, reservation(steady() + 10, finalizers=["example.com/mine"]), "default")
    async with at_work(store):
        await store.create(POD, pod("waits", cpu="3"), "default")
        await asyncio.sleep(LONGEST_SECONDS)
        assert len((await store.list(CAPACITY_RESERVATION)).items) == 1
        assert await node_of(store, "waits") == "node-a"
