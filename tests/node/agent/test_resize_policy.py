"""resizePolicy: a resource that says RestartContainer is resized by a restart, all others in place."""

import asyncio

import pytest

from headrace.api.kinds import POD
from headrace.node.admitted import wants_restart
from headrace.node.pod import view
from headrace.node.runtimes.protocol import Limits
from tests.node.agent import home
from tests.node.agent.home import container, create, is_running, open_store, pod, running_agent, until, wall
from tests.node.agent.simulated_runtime import SimulatedRuntime

MIB = 2**20
RESTARTS_FOR_MEMORY = [
    {"resourceName": "cpu", "restartPolicy": "NotRequired"},
    {"resourceName": "memory", "restartPolicy": "RestartContainer"},
]


def restarts_of(obj):
    return obj["status"]["containerStatuses"][0]["restartCount"]


def limits_told(obj):
    return (obj["status"]["containerStatuses"][0].get("resources") or {}).get("limits")


async def admit(store, cpu, memory):
    await home.admit(store, {"cpu": cpu, "memory": memory, "limits.cpu": cpu, "limits.memory": memory})


async def running_pod(store):
    amounts = {"cpu": "500m", "memory": "64Mi"}
    main = container(resources={"requests": amounts, "limits": amounts}, resizePolicy=RESTARTS_FOR_MEMORY)
    await create(store, pod(containers=[main], terminationGracePeriodSeconds=5))
    return await until(store, lambda found: is_running(found) and limits_told(found))


@pytest.mark.looptime
async def test_memory_is_resized_by_a_restart_at_once_and_cpu_in_place(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall)
    async with running_agent(store, runtime, tmp_path):
        created = await running_pod(store)
        first = f"{created['metadata']['uid']}_main_0"
        await admit(store, "700m", "64Mi")
        told = await until(store, lambda found: limits_told(found) == {"cpu": "700m", "memory": "64Mi"})
        assert restarts_of(told) == 0
        for number, memory in enumerate(("32Mi", "128Mi", "96Mi"), start=1):  # no pause after the second either
            began = wall()
            await admit(store, "700m", memory)
            wanted = {"cpu": "700m", "memory": memory}
            told = await until(store, lambda found, wanted=wanted: is_running(found) and limits_told(found) == wanted)
            assert restarts_of(told) == number
            assert wall() - began < 1.0
        assert runtime.signals == [(f"{first[:-1]}{number}", 15) for number in range(3)]
        assert [limits for id, limits in runtime.applied if id == first] == [Limits(700, 64 * MIB, 700)]


@pytest.mark.looptime
async def test_a_hand_edit_of_such_a_resource_is_put_right_without_a_restart(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall)
    async with running_agent(store, runtime, tmp_path, sync_seconds=1.0):
        created = await running_pod(store)
        id = f"{created['metadata']['uid']}_main_0"
        runtime.limits[id] = Limits(500, 16 * MIB, 500)
        await until(store, lambda found: runtime.limits[id].memory_bytes == 64 * MIB)
        assert runtime.signals == []


async def admit_initial(store, name, cpu):
    """As a user asks for it and the ResourceManager admits it."""
    amounts = {"cpu": cpu, "memory": "64Mi"}
    wish = {"spec": {"initContainers": [{"name": name, "resources": {"requests": amounts, "limits": amounts}}]}}
    await store.patch(POD, "p", "default", fields=wish, subresource="resize", strategic=True)
    record = {**amounts, "limits.cpu": cpu, "limits.memory": "64Mi"}
    told = {"status": {"initContainerStatuses": [{"name": name, "allocatedResources": record}]}}
    await store.patch(POD, "p", "default", fields=told, subresource="status", strategic=True)


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("fields", "restarts"),
    [
        pytest.param({"restartPolicy": "Always"}, 0, id="a sidecar, in place"),
        pytest.param(
            {"restartPolicy": "Always", "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]},
            1,
            id="a sidecar whose policy says so, by a restart",
        ),
        pytest.param({}, 0, id="an initial container that still runs, in place"),
    ],
)
async def test_initial_containers_are_resized_as_their_policy_says(tmp_path, fields, restarts):
    store, runtime = await open_store(), SimulatedRuntime(wall)
    amounts = {"cpu": "500m", "memory": "64Mi"}
    first = container("first", resources={"requests": amounts, "limits": amounts}, **fields)

    def told(found):
        [status] = found["status"].get("initContainerStatuses") or [{}]
        return ((status.get("resources") or {}).get("limits") or {}).get("cpu") if "running" in state_of(status) else ""

    async with running_agent(store, runtime, tmp_path):
        created = await create(store, pod(initContainers=[first], terminationGracePeriodSeconds=5))
        await until(store, lambda found: told(found) == "500m")
        await admit_initial(store, "first", "700m")
        found = await until(store, lambda found: told(found) == "700m")
        assert found["status"]["initContainerStatuses"][0]["restartCount"] == restarts
        id = f"{created['metadata']['uid']}_first_{restarts}"
        assert runtime.limits[id] == Limits(700, 64 * MIB, 700)


def state_of(status):
    return {name for name, value in (status.get("state") or {}).items() if value is not None}


@pytest.mark.looptime
async def test_an_agent_that_was_killed_before_the_restart_does_it_when_it_is_back(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall)
    async with running_agent(store, runtime, tmp_path):
        await running_pod(store)
    await admit(store, "500m", "128Mi")
    async with running_agent(store, runtime, tmp_path):
        told = await until(store, lambda found: limits_told(found) == {"cpu": "500m", "memory": "128Mi"})
        assert restarts_of(told) == 1


@pytest.mark.looptime
async def test_a_growth_that_was_applied_unseen_is_not_given_back_before_the_restart(tmp_path):
    """Nothing is told of what a container has that is to be restarted, so its growth may be in force."""
    store, runtime = await open_store(), SimulatedRuntime(wall)
    runtime.obeys_sigterm, apply = False, runtime.apply

    async def slow(id, limits):
        await asyncio.sleep(1)
        return await apply(id, limits)

    async with running_agent(store, runtime, tmp_path):
        created = await running_pod(store)
        first = f"{created['metadata']['uid']}_main_0"
        runtime.apply = slow
        await home.resize(store, {"cpu": "700m", "memory": "128Mi"})
        record = {"cpu": "700m", "memory": "64Mi", "limits.cpu": "700m", "limits.memory": "64Mi"}
        await home.allocate(store, record)
        await asyncio.sleep(0.1)  # it is being applied
        await home.allocate(store, {**record, "memory": "128Mi", "limits.memory": "128Mi"})
        await home.resize(store, {"cpu": "500m", "memory": "128Mi"})
        await until(store, lambda found: runtime.signals)
        await asyncio.sleep(3)
        found = await store.get(POD, "p", "default")
        assert (runtime.limits[first].cpu_milli, limits_told(found)["cpu"]) == (700, "500m")
        assert not has_seen(found)
        await until(store, lambda found: is_running(found) and restarts_of(found) == 1)
        told = await until(store, has_seen)
        assert limits_told(told) == {"cpu": "500m", "memory": "128Mi"}


def has_seen(obj):
    return obj["status"]["observedGeneration"] == obj["metadata"]["generation"]


ALLOCATED = {"cpu": "500m", "memory": "64Mi", "limits.cpu": "500m", "limits.memory": "64Mi"}
TOLD = {"requests": {"cpu": "500m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}}


@pytest.mark.parametrize(
    ("changed", "told", "restarting", "expected"),
    [
        pytest.param({}, TOLD, "memory", False, id="all is in force"),
        pytest.param({"limits.memory": "65Mi"}, TOLD, "memory", True, id="another memory limit"),
        pytest.param({"limits.memory": "65Mi"}, TOLD, "cpu", False, id="another memory limit, cpu restarts"),
        pytest.param({"memory": "32Mi"}, TOLD, "memory", False, id="a memory request is enforced by nothing"),
        pytest.param({"cpu": "400m"}, TOLD, "cpu", True, id="another cpu request"),
        pytest.param({"limits.cpu": "600m"}, TOLD, "cpu", True, id="another cpu limit"),
        pytest.param({"limits.cpu": "0.5", "cpu": "0.5"}, TOLD, "cpu", False, id="the same in other words"),
        pytest.param({"limits.memory": "67108865"}, TOLD, "memory", False, id="the same page"),
        pytest.param({"limits.memory": "65Mi"}, {}, "memory", False, id="nothing was told yet"),
        pytest.param({}, {"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}}, "memory", True, id="a first limit"),
    ],
)
def test_when_a_resize_needs_a_restart(changed, told, restarting, expected):
    policy = [{"resourceName": restarting, "restartPolicy": "RestartContainer"}]
    obj = pod(containers=[container(resources={}, resizePolicy=policy)])
    obj["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    [main] = view(obj).spec.containers
    status = {"allocatedResources": ALLOCATED | changed, "resources": told, "containerID": "process://u_main_0"}
    assert wants_restart(main, status, "u_main_0") is expected
    assert not wants_restart(main, status, "u_main_1")  # the next run, of which nothing is told
