import asyncio
import itertools
from dataclasses import dataclass

import pytest
from prometheus_client import CollectorRegistry

from headrace.api.kinds import CONFIG_MAP, EVENT, NAMESPACE
from headrace.api.objects import key_of, name_of, uid_of, version_of
from headrace.ledger.node import Shortfall
from headrace.runtime.actions import Again, Create, Delete, Event, Patch
from headrace.runtime.controller import Source, own_key
from headrace.store.protocol import Refused, Unavailable
from tests.runtime.home import controllers, open_store, running

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


@dataclass(frozen=True)
class Seen:
    """A ConfigMap and how far it has counted."""

    obj: dict
    count: int


class Counting:
    """Counts `data.count` of each ConfigMap up to `data.until`, one at a look."""

    name = "counting"

    def __init__(self, informers):
        self._cache = informers.of(CONFIG_MAP)
        self.sources = (Source(self._cache, own_key),)
        self.looks = []

    async def observe(self, key):
        obj = self._cache.get(key)
        if obj is None:
            return None
        self.looks.append((key, version_of(obj)))
        return Seen(obj, int(obj["data"]["count"]))

    def plan(self, seen, now):
        if seen.count >= int(seen.obj["data"]["until"]):
            return ()
        fields = {"data": {"count": str(seen.count + 1)}}
        return (Patch(CONFIG_MAP, "default", name_of(seen.obj), fields, version_of(seen.obj)),)

    def refused(self, key, seen, action, refusal, now):
        raise AssertionError


async def a_store():
    store = await open_store()
    await store.create(NAMESPACE, {"metadata": {"name": "default"}})
    return store


async def a_counter(store, name="c", until=5):
    data = {"count": "0", "until": str(until)}
    return await store.create(CONFIG_MAP, {"metadata": {"name": name}, "data": data}, "default")


async def count_of(store, name="c"):
    return int((await store.get(CONFIG_MAP, name, "default"))["data"]["count"])


class Wrapped:
    """The real store, with one thing going wrong."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)


async def test_acting_on_the_plan_goes_on_until_nothing_is_left_to_do():
    store = await a_store()
    await a_counter(store)
    manager = controllers(store)
    manager.add(Counting(manager.informers))
    async with running(manager):
        await asyncio.sleep(10)
    assert await count_of(store) == 5


async def test_a_key_is_never_planned_again_from_before_its_own_write():
    """The watch is ten seconds behind: a naive loop would plan the same step again and again."""
    store = await a_store()
    await a_counter(store)

    class Late(Wrapped):
        async def watch(self, *arguments, **options):
            async for event in self._store.watch(*arguments, **options):
                await asyncio.sleep(10)
                yield event

    manager = controllers(Late(store))
    job = Counting(manager.informers)
    controller = manager.add(job)
    async with running(manager):
        await asyncio.sleep(2)
        for _ in range(50):
            controller.queue.add("default/c")
            await asyncio.sleep(3)
    assert await count_of(store) == 5
    while_counting = [look for look in job.looks if look != job.looks[-1]]
    assert len(while_counting) == len(set(while_counting)) == 5


async def test_a_write_that_no_watch_tells_is_not_waited_for_for_ever():
    store = await a_store()
    await a_counter(store, until=1)

    class Deaf(Wrapped):
        async def watch(self, *arguments, **options):
            await asyncio.Event().wait()
            yield

    manager = controllers(Deaf(store))
    job = Counting(manager.informers)
    manager.add(job)
    async with running(manager):
        await asyncio.sleep(10)
        assert len(job.looks) == 1
    assert await count_of(store) == 1


async def test_a_change_by_others_between_observe_and_act_is_never_overwritten():
    store = await a_store()
    await a_counter(store, until=42)

    class Raced(Wrapped):
        raced = False

        async def patch(self, *arguments, **options):
            if not self.raced:
                self.raced = True
                await self._store.patch(CONFIG_MAP, "c", "default", fields={"data": {"count": "40"}})
            return await self._store.patch(*arguments, **options)

    manager = controllers(Raced(store))
    manager.add(Counting(manager.informers))
    async with running(manager):
        await asyncio.sleep(10)
    assert await count_of(store) == 42


async def test_a_store_that_does_not_answer_is_tried_again_with_growing_delay_and_counted():
    store = await a_store()
    await a_counter(store, until=1)
    tries = []

    class Down(Wrapped):
        async def patch(self, *arguments, **options):
            tries.append(asyncio.get_running_loop().time())
            if len(tries) < 6:
                raise Unavailable("no connection")
            return await self._store.patch(*arguments, **options)

    registry = CollectorRegistry()
    manager = controllers(Down(store), registry)
    manager.add(Counting(manager.informers))
    async with running(manager):
        await asyncio.sleep(60)
    assert await count_of(store) == 1
    pauses = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert pauses == sorted(pauses)
    labels = {"controller": "counting", "result": "unavailable"}
    assert registry.get_sample_value("controller_runtime_reconcile_total", labels) == 5


async def test_a_fault_in_one_key_does_not_stop_the_others():
    store = await a_store()
    await a_counter(store, "good", until=3)
    await store.create(CONFIG_MAP, {"metadata": {"name": "bad"}, "data": {"count": "x", "until": "3"}}, "default")
    registry = CollectorRegistry()
    manager = controllers(store, registry)
    manager.add(Counting(manager.informers), workers=1)
    async with running(manager):
        await asyncio.sleep(30)
    assert await count_of(store, "good") == 3
    assert registry.get_sample_value("controller_runtime_reconcile_errors_total", {"controller": "counting"}) > 3


async def test_keys_are_worked_on_side_by_side_and_each_by_one_worker():
    store = await a_store()
    for name in ("a", "b", "c", "d"):
        await a_counter(store, name)
    at_once, most = set(), []

    class Slow(Counting):
        async def observe(self, key):
            assert key not in at_once
            at_once.add(key)
            most.append(len(at_once))
            await asyncio.sleep(1)
            at_once.discard(key)
            return await super().observe(key)

    manager = controllers(store)
    manager.add(Slow(manager.informers), workers=3)
    async with running(manager):
        await asyncio.sleep(60)
    assert max(most) == 3
    assert [await count_of(store, name) for name in ("a", "b", "c", "d")] == [5, 5, 5, 5]


class Telling(Counting):
    """A job whose plan is given."""

    def __init__(self, informers, *actions):
        super().__init__(informers)
        self.actions = actions

    def plan(self, seen, now):
        return self.actions


async def test_creating_what_is_there_already_and_ours_is_done_and_what_is_anothers_is_an_error():
    store = await a_store()
    owner = await a_counter(store)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": uid_of(owner), "controller": True}
    ours = {"metadata": {"name": "made", "ownerReferences": [reference]}, "data": {"count": "0", "until": "0"}}
    theirs = {"metadata": {"name": "foreign"}, "data": {"count": "0", "until": "0"}}
    await store.create(CONFIG_MAP, ours, "default")
    await store.create(CONFIG_MAP, theirs, "default")
    taken = {**ours, "metadata": {**ours["metadata"], "name": "foreign"}}
    for obj, failures in ((ours, None), (taken, 1)):
        registry = CollectorRegistry()
        manager = controllers(store, registry)
        job = Telling(manager.informers, Create(CONFIG_MAP, "default", obj))
        manager.add(job)
        async with running(manager):
            await asyncio.sleep(0.001)
        errors = registry.get_sample_value("controller_runtime_reconcile_errors_total", {"controller": "counting"})
        assert (errors is not None and errors >= 1) is (failures is not None)


async def test_deleting_what_is_gone_is_done():
    store = await a_store()
    await a_counter(store)
    manager = controllers(store)
    job = Telling(manager.informers, Delete(CONFIG_MAP, "default", "never-was"), Again(3600))
    manager.add(job)
    async with running(manager):
        await asyncio.sleep(3 * 3600 + 1)
    assert len(job.looks) == 4


async def test_a_repeated_event_is_counted_not_stored_again():
    store = await a_store()
    obj = await a_counter(store)
    event = Event(CONFIG_MAP, "default", "c", uid_of(obj), "Warning", "Unhappy", "it does not fit")
    manager = controllers(store)
    manager.add(Telling(manager.informers, event, Again(60)))
    async with running(manager):
        await asyncio.sleep(4 * 60 + 1)
    (stored,) = (await store.list(EVENT, "default")).items
    assert (stored["count"], stored["reason"], stored["involvedObject"]["uid"]) == (5, "Unhappy", uid_of(obj))
    assert stored["lastTimestamp"] > stored["firstTimestamp"]
    assert name_of(stored).startswith("c.")


async def test_an_object_that_keeps_shouting_is_limited_to_a_burst_and_a_trickle():
    store = await a_store()
    obj = await a_counter(store)
    registry = CollectorRegistry()
    manager = controllers(store, registry)

    class Shouting(Telling):
        def plan(self, seen, now):
            return (Event(CONFIG_MAP, "default", "c", uid_of(obj), "Normal", "Heard", f"at {now}"), Again(1))

    manager.add(Shouting(manager.informers))
    async with running(manager):
        await asyncio.sleep(600)
    stored = len((await store.list(EVENT, "default")).items)
    assert 25 <= stored <= 28
    assert registry.get_sample_value("headrace_events_dropped_total") == 601 - stored


async def test_stopping_lets_the_key_in_work_finish():
    store = await a_store()
    await a_counter(store, until=1)

    class Slow(Wrapped):
        async def patch(self, *arguments, **options):
            await asyncio.sleep(5)
            return await self._store.patch(*arguments, **options)

    manager = controllers(Slow(store))
    manager.add(Counting(manager.informers))
    async with running(manager):
        await asyncio.sleep(1)
    assert await count_of(store) == 1


async def test_stopping_does_not_wait_for_a_home_that_never_answered():
    class Down(Wrapped):
        async def list(self, *arguments, **options):
            raise Unavailable("no connection")

    manager = controllers(Down(await a_store()))
    manager.add(Counting(manager.informers))
    started = asyncio.get_running_loop().time()
    async with running(manager):
        await asyncio.sleep(100)
    assert asyncio.get_running_loop().time() - started < 101


@pytest.mark.parametrize("told", [True, False], ids=["a refusal is told and the rest is done", "a job that forgets"])
async def test_a_refusal_reaches_the_job_and_is_not_a_fault(told):
    store = await a_store()
    await a_counter(store)
    refusals = []

    class Full(Wrapped):
        async def patch(self, *arguments, **options):
            if options["fields"].get("data"):
                raise Refused(Shortfall({"cpu": 1000}, "node-a"))
            return await self._store.patch(*arguments, **options)

    class Wishing(Counting):
        def plan(self, seen, now):
            if told and (seen.obj["metadata"].get("annotations") or {}).get("told"):
                return ()
            return super().plan(seen, now)

        def refused(self, key, seen, action, refusal, now):
            refusals.append((key, dict(refusal.shortfall.missing)))
            if not told:
                return ()
            fields = {"metadata": {"annotations": {"told": str(refusal)}}}
            return (Patch(CONFIG_MAP, "default", "c", fields, version_of(seen.obj)),)

    manager = controllers(Full(store))
    manager.add(Wishing(manager.informers))
    async with running(manager):
        await asyncio.sleep(600)
    assert refusals[0] == ("default/c", {"cpu": 1000})
    assert len(refusals) == 1 if told else 5 < len(refusals) < 40
    assert key_of(await store.get(CONFIG_MAP, "c", "default")) == "default/c"
