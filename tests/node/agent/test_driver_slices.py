"""Slices of drivers: they outlast restarts of agents, and go when their driver stays away."""

import asyncio
import time
from types import SimpleNamespace

import pytest
import structlog

from headrace.api.kinds import NODE, POD, RESOURCE_SLICE
from headrace.api.objects import uid_of
from headrace.devices.driver.simulated import NAME
from headrace.node.driver_slices import GRACE_SECONDS, DriverSlices
from headrace.node.pod_status import DEVICES_RELEASED
from headrace.node.pod_worker import ABANDON
from headrace.runtime.clock import LoopClock
from tests.node.agent.home import as_node, container, create, is_gone, is_running, pod, running_agent, until
from tests.node.agent.simulated_runtime import SimulatedRuntime
from tests.node.agent.test_devices import site


class Clock(LoopClock):
    """Its monotonic time is set by hand."""

    now = 0.0

    def monotonic(self):
        return self.now


async def with_slices(here, *, owned=True):
    """The node, and one slice of a driver on it."""
    node = await here.store.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}})
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": uid_of(node), "controller": True}
    pool = {"name": "node-a", "generation": 3, "resourceSliceCount": 1}
    spec = {"driver": "left.example.com", "nodeName": "node-a", "pool": pool, "devices": [{"name": "d"}]}
    obj = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}
    obj["metadata"]["ownerReferences"] = [owner] if owned else []
    await here.store.create(RESOURCE_SLICE, obj)


async def names(here):
    return [each["metadata"]["name"] for each in (await here.store.list(RESOURCE_SLICE)).items]


def sweeper(here, clock, registered):
    return DriverSlices(as_node(here.store), "node-a", lambda: registered, clock=clock, log=structlog.get_logger())


@pytest.mark.parametrize(
    ("owned", "registered", "seconds", "left"),
    [
        pytest.param(True, [], GRACE_SECONDS - 1, ["s"], id="a driver has time to come back"),
        pytest.param(True, [], GRACE_SECONDS, [], id="after the grace period its slices go"),
        pytest.param(True, ["left.example.com"], GRACE_SECONDS, ["s"], id="a driver that is here keeps its slices"),
        pytest.param(False, [], GRACE_SECONDS, ["s"], id="what people applied by hand is theirs"),
    ],
)
async def test_slices_go_with_their_driver(owned, registered, seconds, left):
    async with site() as here:
        await with_slices(here, owned=owned)
        clock = Clock(time.time)
        slices = sweeper(here, clock, [*registered, NAME])
        await slices.look()
        clock.now = seconds
        await slices.look()
        assert [name for name in await names(here) if name == "s"] == left


async def test_a_driver_that_came_back_has_the_whole_grace_period_again():
    async with site() as here:
        await with_slices(here)
        clock, registered = Clock(time.time), [NAME]
        slices = sweeper(here, clock, registered)
        await slices.look()
        registered.append("left.example.com")
        clock.now = GRACE_SECONDS - 1
        await slices.look()
        registered.remove("left.example.com")
        for clock.now in (GRACE_SECONDS, 2 * GRACE_SECONDS - 1):
            await slices.look()
        assert "s" in await names(here)


async def test_an_agent_that_restarts_twenty_times_keeps_its_drivers_slices():
    async with site() as here:
        runtime = SimulatedRuntime(time.time)
        async with running_agent(here.store, runtime, here.directory):
            before = await published(here)
        for number in range(20):
            async with running_agent(here.store, runtime, here.directory):
                if number % 3 == 0:
                    await published(here)
        after = await published(here)
        assert [each["metadata"]["name"] for each in after] == [each["metadata"]["name"] for each in before]
        assert after[0]["spec"]["pool"]["generation"] >= before[0]["spec"]["pool"]["generation"]


async def published(here):
    async with asyncio.timeout(20):
        while not (items := (await here.store.list(RESOURCE_SLICE)).items):  # noqa: ASYNC110 - the store is polled
            await asyncio.sleep(0.02)
    return items


def released(obj):
    conditions = (obj["status"].get("conditions") or ()) if obj else ()
    return next((each for each in conditions if each["type"] == DEVICES_RELEASED), None)


async def start(here):
    """A Pod that runs with a device."""
    uses = container(resources={"claims": [{"name": "gpu"}]})
    claims = [{"name": "gpu", "resourceClaimName": "claim"}]
    made = await create(here.store, pod(containers=[uses], resourceClaims=claims))
    await here.claim("claim", "gpu-0", SimpleNamespace(name="p", uid=uid_of(made)))
    await until(here.store, is_running)


@pytest.mark.parametrize(
    ("seconds", "annotated"),
    [
        pytest.param(600, True, id="an operator's annotation lets the Pod go"),
        pytest.param(1, False, id="the configured time lets the Pod go"),
    ],
)
async def test_a_pod_whose_driver_is_dead_says_so_and_is_let_go_and_nothing_leaks(seconds, annotated):
    async with (
        site() as here,
        running_agent(here.store, SimulatedRuntime(time.time), here.directory, abandon_seconds=seconds),
    ):
        await start(here)
        sockets = {path: here.directory / path.name for path in (here.plugin.endpoint, here.plugin.registry)}
        for path, hidden in sockets.items():
            path.rename(hidden)
        await here.store.delete(POD, "p", "default")
        if annotated:
            waiting = await until(here.store, released)
            assert released(waiting)["status"] == "False"
            assert f"the Pod waits for driver {NAME} at most 600 s" in released(waiting)["message"]
            assert len(here.documents()) == 1
            fields = {"metadata": {"annotations": {ABANDON: "true"}}}
            await here.store.patch(POD, "p", "default", fields=fields)
        await until(here.store, is_gone)
        assert len(here.documents()) == 1
        for path, hidden in sockets.items():
            hidden.rename(path)
        async with asyncio.timeout(20):
            while here.documents():  # noqa: ASYNC110 - files are polled
                await asyncio.sleep(0.05)
