"""What may happen to a resize at the agent: it is killed half way, the container is restarted, ends or is paused."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from headrace.api.kinds import EVENT, POD, RESOURCE_SCALING_ACTION
from headrace.node.runtimes.protocol import ApplyFailed, Limits, NotRunning, StartFailed, Unreadable
from headrace.resize.action_controller import ActionController
from headrace.resize.controller import ResourceManager
from headrace.serve.shipped import install
from tests.node.agent import home
from tests.node.agent.home import (
    admit,
    as_node,
    container,
    create,
    is_running,
    open_store,
    pod,
    running_agent,
    until,
    wall,
)
from tests.node.agent.simulated_runtime import SimulatedRuntime
from tests.runtime.home import controllers, running

pytestmark = pytest.mark.looptime
MIB = 2**20


def record(milli):
    return {"cpu": f"{milli}m", "memory": "64Mi", "limits.cpu": f"{milli}m", "limits.memory": "64Mi"}


async def managed_pod(store, milli=500):
    amounts = {"cpu": f"{milli}m", "memory": "64Mi"}
    obj = pod(containers=[container(resources={"requests": amounts, "limits": amounts})])
    obj["metadata"]["labels"] = {"headrace.dev/managed": "true"}
    await create(store, obj)
    return await until(store, lambda found: is_running(found) and limits_told(found))


def limits_told(obj):
    return (obj["status"]["containerStatuses"][0].get("resources") or {}).get("limits")


async def admit_cpu(store, milli):
    await admit(store, record(milli))


async def resize(store, cpu):
    await home.resize(store, {"cpu": cpu, "memory": "64Mi"})


def condition(obj, type):
    return next((each for each in obj["status"].get("conditions") or () if each["type"] == type), None)


def progress(obj):
    return condition(obj, "PodResizeInProgress")


def pending(obj):
    return condition(obj, "PodResizePending")


def charged(store):
    return store.rows.ledgers["node-a"].holders["Pod default/p"]["cpu"]


async def events(store, reason):
    found = (await store.list(EVENT, "default")).items
    return [each["message"] for each in found if each["reason"] == reason]


class Reports:
    """A node's door to the store through which no report of these limits ever gets."""

    def __init__(self, store, cpu):
        self.store, self.cpu, self.held_back = store, cpu, asyncio.Event()

    def __getattr__(self, name):
        return getattr(self.store, name)

    async def patch(self, kind, name, namespace="", *, fields, **more):
        for told in (fields.get("status") or {}).get("containerStatuses") or ():
            if ((told.get("resources") or {}).get("limits") or {}).get("cpu") == self.cpu:
                self.held_back.set()
                await asyncio.Event().wait()
        return await self.store.patch(kind, name, namespace, fields=fields, **more)


@pytest.mark.parametrize(
    ("before", "after"), [pytest.param(500, 700, id="growing"), pytest.param(500, 300, id="shrinking")]
)
async def test_an_agent_killed_between_write_and_report_leaves_the_larger_charged_until_the_next_has_read(
    tmp_path, before, after
):
    store, runtime = await open_store(), SimulatedRuntime(wall)
    door = Reports(as_node(store), f"{after}m")
    async with running_agent(store, runtime, tmp_path, seen=door):
        created = await managed_pod(store, before)
        await admit_cpu(store, after)
        await door.held_back.wait()
        assert runtime.limits[f"{created['metadata']['uid']}_main_0"].cpu_milli == after
    told = await store.get(POD, "p", "default")
    assert limits_told(told)["cpu"] == f"{before}m"
    assert charged(store) == max(before, after)
    async with running_agent(store, runtime, tmp_path):
        await until(store, lambda found: limits_told(found)["cpu"] == f"{after}m")
        assert charged(store) == after
    assert len(runtime.starts) == 1


async def test_a_container_that_somebody_restarted_has_its_limits_again_at_once_and_it_is_told(tmp_path):
    """Its runtime begins anew with the limits of its creation, as Podman does."""
    store, runtime = await open_store(), SimulatedRuntime(wall)
    async with running_agent(store, runtime, tmp_path):
        created = await managed_pod(store)
        id = f"{created['metadata']['uid']}_main_0"
        await admit_cpu(store, 700)
        await until(store, lambda found: limits_told(found)["cpu"] == "700m")
        began = wall()
        runtime.states[id] = replace(runtime.states[id], pid=4711)
        runtime.limits[id] = Limits(500, 64 * MIB, 500)
        runtime._tell(id)
        while runtime.limits[id].cpu_milli != 700:
            await asyncio.sleep(0.01)
            assert wall() - began < 1.0  # long before the next look of the period
        await asyncio.sleep(2)  # of virtual time: events are written in bunches
        [said] = await events(store, "ResizeRestored")
        assert said == ("container main was restarted by somebody else: cpu 700m, memory 64Mi are put back")
        found = await store.get(POD, "p", "default")
        assert limits_told(found)["cpu"] == "700m"


async def test_a_container_that_ends_while_it_is_resized_starts_again_with_what_was_admitted(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall)

    async def ends_meanwhile(id, limits):
        runtime.end(id, 0)
        raise NotRunning(f"container {id} has exited")

    async with running_agent(store, runtime, tmp_path):
        await managed_pod(store)
        runtime.apply = ends_meanwhile
        await admit_cpu(store, 700)
        again = await until(store, lambda found: is_running(found) and limits_told(found)["cpu"] == "700m")
        assert again["status"]["containerStatuses"][0]["restartCount"] == 1  # started with what was admitted
        assert "PodResizeInProgress" not in {each["type"] for each in again["status"]["conditions"]}
        assert charged(store) == 700


async def test_limits_that_cannot_be_read_are_told_and_then_no_more(tmp_path):
    """Also of a container that nobody resizes: at the sync period, with what was read last still charged."""
    store, runtime = await open_store(), SimulatedRuntime(wall)

    async def fails(id):
        raise Unreadable(f"container {id}: /sys/fs/cgroup/cpu/cpu.shares: Input/output error")

    async with running_agent(store, runtime, tmp_path, sync_seconds=1.0):
        await managed_pod(store)
        read, runtime.read = runtime.read, fails
        told = await until(store, lambda found: progress(found) is not None)
        assert progress(told)["reason"] == "Error"
        assert progress(told)["message"].startswith("what is in force cannot be read: container")
        assert limits_told(told)["cpu"] == "500m"
        assert charged(store) == 500
        runtime.read = read
        await until(store, lambda found: progress(found) is None)


@asynccontextmanager
async def resized_by(store):
    """The control plane's part: who admits and who carries actions out."""
    await install(store)
    manager = controllers(store)
    manager.add(ResourceManager(manager.informers))
    manager.add(ActionController(manager.informers, CollectorRegistry()))
    async with running(manager):
        yield


async def act(store, cpu):
    spec = {"workload": "p/main", "target": {"cpu": cpu}, "retry": {"count": 1, "seconds": 1}}
    await store.create(RESOURCE_SCALING_ACTION, {"metadata": {"name": "grow"}, "spec": spec}, "default")


async def action_is(store, state, reason):
    while True:
        status = (await store.get(RESOURCE_SCALING_ACTION, "grow", "default")).get("status") or {}
        if (status.get("state"), status.get("reason")) == (state, reason):
            return
        await asyncio.sleep(0.05)


def desires(obj):
    return obj["spec"]["containers"][0]["resources"]["limits"]["cpu"]


def record_of(obj):
    return (obj["status"]["containerStatuses"][0].get("allocatedResources") or {}).get("limits.cpu")


async def test_a_growth_that_the_runtime_refuses_is_given_back_once_the_action_has_failed(tmp_path):
    """(It stayed charged for ever, and no policy resized the Pod again.)"""
    store, runtime = await open_store(), SimulatedRuntime(wall)
    async with resized_by(store), running_agent(store, runtime, tmp_path):
        await managed_pod(store)
        runtime.apply_error = ApplyFailed("the runtime says no")
        await act(store, "700m")
        await until(store, lambda found: "the runtime says no" in str(progress(found)))
        assert charged(store) == 700
        await asyncio.wait_for(action_is(store, "Failed", "RuntimeUpdateFailure"), 30)
        found = await until(store, lambda found: record_of(found) == "500m" and progress(found) is None)
        assert (desires(found), limits_told(found)["cpu"], charged(store)) == ("500m", "500m", 500)
        assert not [each for each in found["status"]["conditions"] if each["type"] == "PodResizePending"]
        applied = len(runtime.applied)
        await asyncio.sleep(60)
        assert len(runtime.applied) == applied  # nobody tries it any more


async def test_a_growth_stays_charged_while_nobody_knows_whether_it_was_applied(tmp_path):
    """The agent is killed with the call under way; it is taken back meanwhile; the next agent gives it back."""
    store, runtime = await open_store(), SimulatedRuntime(wall)
    calling = asyncio.Event()

    async def hangs(id, limits):
        calling.set()
        await asyncio.Event().wait()

    async with resized_by(store):
        async with running_agent(store, runtime, tmp_path):
            await managed_pod(store)
            apply, runtime.apply = runtime.apply, hangs
            await resize(store, "700m")
            await calling.wait()
            await resize(store, "500m")
            await asyncio.sleep(10)
            assert charged(store) == 700  # seen long ago, but what was begun may still come
        await asyncio.sleep(3600)
        assert charged(store) == 700
        said = pending(await store.get(POD, "p", "default"))["message"]
        assert said == (
            "container main: node node-a has not told yet that it has 700m of cpu, or that it will not apply it "
            "any more, so none of it can be released"
        )
        runtime.apply = apply
        async with running_agent(store, runtime, tmp_path):
            began = wall()
            await until(store, lambda found: record_of(found) == "500m" and pending(found) is None)
            assert (charged(store), runtime.applied) == (500, [])
            assert wall() - began < 2.0


async def test_a_growth_that_was_taken_back_is_not_what_the_next_run_starts_with(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall)
    async with resized_by(store), running_agent(store, runtime, tmp_path):
        created = await managed_pod(store)
        runtime.apply_error = ApplyFailed("the runtime says no")
        await resize(store, "700m")
        await until(store, lambda found: progress(found) is not None)
        await resize(store, "500m")
        runtime.end(f"{created['metadata']['uid']}_main_0", 1)
        await until(store, lambda found: is_running(found) and record_of(found) == "500m" and pending(found) is None)
        assert [each.limits.cpu_milli for each in runtime.specs.values()] == [500, 500]
        assert charged(store) == 500


async def test_a_pod_that_cannot_be_started_is_resized_and_started_with_that(tmp_path):
    """As under a kubelet: nothing runs, so nothing has to shrink first. (It was Deferred for as long as it waited.)"""
    store, runtime = await open_store(), SimulatedRuntime(wall)
    await install(store)
    runtime.start_error = StartFailed("no driver")
    manager = controllers(store)
    manager.add(ResourceManager(manager.informers))
    async with running_agent(store, runtime, tmp_path), running(manager):
        amounts = {"cpu": "500m", "memory": "64Mi"}
        await create(store, pod(containers=[container(resources={"requests": amounts, "limits": amounts})]))
        await until(store, lambda obj: "containerStatuses" in obj["status"])
        smaller = {"cpu": "300m", "memory": "64Mi"}
        await resize(store, "300m")
        await until(store, lambda obj: limits_told(obj) == smaller and charged(store) == 300)
        assert not [
            each
            for each in (await store.get(POD, "p", "default"))["status"]["conditions"]
            if each["type"].startswith("PodResize")
        ]
        runtime.start_error = None
        await until(store, is_running)
        assert [each.limits.cpu_milli for each in runtime.specs.values()] == [300]
