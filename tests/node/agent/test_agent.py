"""The real agent on the real store, with a runtime that only simulates processes, in virtual time."""

import asyncio
import itertools

import orjson
import pytest

from headrace.api.kinds import CONFIG_MAP, EVENT, LEASE, NODE, POD
from headrace.node.registration import CONFIRMED
from headrace.node.runtimes.protocol import Limits, MemoryInUse
from headrace.runtime.clock import LoopClock
from headrace.store.protocol import Deletion
from tests.node.agent.home import (
    Cut,
    admit,
    as_node,
    container,
    create,
    is_gone,
    is_phase,
    is_running,
    open_store,
    pod,
    running_agent,
    state,
    until,
    wall,
)
from tests.node.agent.simulated_runtime import SimulatedRuntime

pytestmark = pytest.mark.looptime


async def test_a_node_and_its_lease_appear(tmp_path):
    store = await open_store()
    async with running_agent(store, SimulatedRuntime(wall), tmp_path):
        node = await store.get(NODE, "node-a")
        lease = await store.get(LEASE, "node-a", "kube-node-lease")
        assert node["status"]["capacity"] == {"cpu": "8", "memory": "16Gi", "pods": "110"}
        assert node["status"]["allocatable"] == {"cpu": "7900m", "memory": "16128Mi", "pods": "110"}
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node-a"
        assert {each["type"]: each["status"] for each in node["status"]["conditions"]}["Ready"] == "True"
        first = lease["spec"]["renewTime"]
        await asyncio.sleep(25)
        assert (await store.get(LEASE, "node-a", "kube-node-lease"))["spec"]["renewTime"] > first
        again = await store.get(NODE, "node-a")
        assert again["status"] == node["status"]  # a heartbeat is a Lease, not a Node


@pytest.mark.parametrize("written", ["abc", "999999999", "-1", "²"])
async def test_what_somebody_writes_into_the_confirmed_revision_ends_no_agent_and_does_not_stay(tmp_path, written):
    """`kubectl annotate node` ended the agent for ever, or freed what was deleted before it had ended."""
    store = await open_store()
    async with running_agent(store, SimulatedRuntime(wall), tmp_path):
        await asyncio.sleep(2)
        told = (await store.get(NODE, "node-a"))["metadata"]["annotations"][CONFIRMED]
        await store.patch(NODE, "node-a", fields={"metadata": {"annotations": {CONFIRMED: written}}})
        await asyncio.sleep(25)
        assert (await store.get(NODE, "node-a"))["metadata"]["annotations"][CONFIRMED] == told


async def test_a_pod_runs_is_told_of_as_a_kubelet_would_and_goes(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall)
    async with running_agent(store, runtime, tmp_path):
        await create(store, pod(containers=[container(resources={"limits": {"cpu": "500m", "memory": "64Mi"}})]))
        told = await until(store, is_phase("Running"))
        [status] = told["status"]["containerStatuses"]
        assert (status["ready"], status["started"], status["restartCount"]) == (True, True, 0)
        assert status["resources"] == {
            "limits": {"cpu": "500m", "memory": "64Mi"},
            "requests": {"cpu": "500m", "memory": "64Mi"},
        }
        assert {each["type"]: each["status"] for each in told["status"]["conditions"]} == {
            "PodReadyToStartContainers": "True",
            "Initialized": "True",
            "Ready": "True",
            "ContainersReady": "True",
        }
        assert told["status"]["observedGeneration"] == told["metadata"]["generation"]
        assert told["status"]["hostIP"] == told["status"]["podIP"] == "127.0.0.1"
        await store.delete(POD, "p", "default")
        await until(store, is_gone)
        assert runtime.states == {}
        assert [number for _, number in runtime.signals] == [15]
        assert list((tmp_path / "pods").iterdir()) == []


async def test_nothing_is_written_while_nothing_changes(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall)
    async with running_agent(store, runtime, tmp_path):
        await create(store, pod())
        told = await until(store, is_running)
        await asyncio.sleep(280)
        assert (await store.get(POD, "p", "default"))["metadata"]["resourceVersion"] == told["metadata"][
            "resourceVersion"
        ]


async def test_a_pod_that_names_only_an_image_says_what_is_missing(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall)
    async with running_agent(store, runtime, tmp_path):
        await create(store, pod(containers=[{"name": "main", "image": "trainer:latest"}]))
        told = await until(store, lambda obj: obj and state(obj)[0] == "waiting")
        kind, fields = state(told)
        assert (kind, fields["reason"], told["status"]["phase"]) == ("waiting", "ImageNotSupported", "Pending")
        assert "trainer:latest" in fields["message"]
        assert "set `command`" in fields["message"]
        await asyncio.sleep(1)
        events = (await store.list(EVENT, "default")).items
        assert [(each["reason"], each["count"]) for each in events] == [("ImageNotSupported", 1)]
        assert runtime.starts == []


async def test_what_waits_for_a_volume_is_told_once_and_starts_when_it_is_there(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall)
    async with running_agent(store, runtime, tmp_path):
        await create(store, pod(volumes=[{"name": "v", "configMap": {"name": "late"}}]))
        told = await until(store, lambda obj: obj and state(obj)[0] == "waiting")
        assert state(told)[1] == {"reason": "ContainerCreating", "message": 'configmap "late" not found'}
        await asyncio.sleep(20)
        now = await store.get(POD, "p", "default")
        assert now["metadata"]["resourceVersion"] == told["metadata"]["resourceVersion"]
        late = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}, "data": {}}
        await store.create(CONFIG_MAP, late, "default")
        await until(store, is_running)
        events = {each["reason"]: each["count"] for each in (await store.list(EVENT, "default")).items}
        assert events == {"FailedMount": 1, "Started": 1}


async def test_a_failing_container_is_restarted_with_growing_pauses(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall, lambda spec: (1.0, 3))
    async with running_agent(store, runtime, tmp_path):
        await create(store, pod())
        await asyncio.sleep(200)
        told = await until(store, lambda obj: state(obj)[0] == "waiting")
        times = [at for _, at in runtime.starts]
        pauses = [round(later - earlier - 1.0) for earlier, later in itertools.pairwise(times)]
        assert pauses == [0, 10, 20, 40, 80]
        [status] = told["status"]["containerStatuses"]
        assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert status["state"]["waiting"]["message"].startswith("back-off 160s restarting failed container=main")
        assert status["lastState"]["terminated"]["exitCode"] == 3
        assert status["restartCount"] == len(times) - 1
        assert len(runtime.states) <= 2


async def test_a_container_that_ignores_sigterm_is_killed_after_its_grace_period(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall)
    runtime.obeys_sigterm = False
    async with running_agent(store, runtime, tmp_path):
        await create(store, pod(terminationGracePeriodSeconds=7))
        await until(store, is_running)
        asked = wall()
        await store.delete(POD, "p", "default")
        await until(store, is_gone)
        assert [number for _, number in runtime.signals] == [15, 9]
        assert 7 <= wall() - asked < 8


async def test_a_pod_that_ends_keeps_its_end(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall, lambda spec: (5.0, 0))
    async with running_agent(store, runtime, tmp_path):
        await create(store, pod(restartPolicy="Never"))
        told = await until(store, is_phase("Succeeded"))
        assert state(told)[1]["reason"] == "Completed"
        assert {each["type"]: each.get("reason") for each in told["status"]["conditions"]}["Ready"] == "PodCompleted"
        await asyncio.sleep(100)
        assert len(runtime.starts) == 1
        await store.delete(POD, "p", "default")
        await until(store, lambda obj: obj is None and not runtime.states)


async def test_an_agent_that_starts_again_finds_its_containers_running(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall)
    async with running_agent(store, runtime, tmp_path):
        await create(store, pod())
        before = await until(store, is_running)
    async with running_agent(store, runtime, tmp_path):
        await asyncio.sleep(50)
        assert len(runtime.starts) == 1
        after = await store.get(POD, "p", "default")
        assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]


async def test_after_a_restart_of_the_machine_a_container_is_started_again(tmp_path):
    store = await open_store()
    async with running_agent(store, SimulatedRuntime(wall), tmp_path):
        await create(store, pod())
        await until(store, is_running)
    runtime = SimulatedRuntime(wall)
    async with running_agent(store, runtime, tmp_path):
        told = await until(store, lambda obj: obj["status"]["containerStatuses"][0]["restartCount"] == 1)
        assert state(told)[0] == "running"
        assert told["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"


async def test_what_a_forced_deletion_leaves_behind_is_ended_and_then_confirmed(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall)
    runtime.obeys_sigterm = False
    async with running_agent(store, runtime, tmp_path):
        await create(store, pod(terminationGracePeriodSeconds=20))
        await until(store, is_running)
        gone = await store.delete(POD, "p", "default", Deletion(grace_seconds=0))
        await asyncio.sleep(15)
        node = await store.get(NODE, "node-a")
        revision = int(gone["metadata"]["resourceVersion"])
        assert int(node["metadata"]["annotations"].get("headrace.dev/confirmed-revision", 0)) < revision
        await asyncio.sleep(10)
        node = await store.get(NODE, "node-a")
        assert int(node["metadata"]["annotations"]["headrace.dev/confirmed-revision"]) >= revision
        assert runtime.states == {}


async def test_containers_of_a_pod_deleted_while_no_agent_looked_are_strays_until_they_have_ended(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall)
    runtime.obeys_sigterm = False
    async with running_agent(store, runtime, tmp_path):
        created = await create(
            store, pod(containers=[container(resources={"limits": {"cpu": "500m", "memory": "64Mi"}})])
        )
        await until(store, is_running)
    await store.delete(POD, "p", "default", Deletion(grace_seconds=0))
    async with running_agent(store, runtime, tmp_path):
        await asyncio.sleep(5)
        node = await store.get(NODE, "node-a")
        assert orjson.loads(node["metadata"]["annotations"]["headrace.dev/strays"]) == {
            f"{created['metadata']['uid']}_main_0": {"cpu": 500, "memory": 64 * 2**20}
        }
        await asyncio.sleep(20)
        assert runtime.states == {}
        assert "headrace.dev/strays" not in (await store.get(NODE, "node-a"))["metadata"]["annotations"]


async def test_init_containers_run_one_after_the_other(tmp_path):
    ends = {"first": (2.0, 0), "second": (3.0, 0)}
    store, runtime = await open_store(), SimulatedRuntime(wall, lambda spec: ends.get(spec.container))
    async with running_agent(store, runtime, tmp_path):
        await create(store, pod(initContainers=[container("first"), container("second")]))
        told = await until(store, is_phase("Running"))
        assert [id.rsplit("_", 2)[1] for id, _ in runtime.starts] == ["first", "second", "main"]
        assert [each["ready"] for each in told["status"]["initContainerStatuses"]] == [True, True]


async def test_a_sidecar_starts_first_and_ends_last(tmp_path):
    store, runtime = (
        await open_store(),
        SimulatedRuntime(wall, lambda spec: (3.0, 0) if spec.container == "main" else None),
    )
    async with running_agent(store, runtime, tmp_path):
        side = container("side", restartPolicy="Always")
        await create(store, pod(initContainers=[side], restartPolicy="Never"))
        await until(store, is_phase("Succeeded"))
        assert [id.rsplit("_", 2)[1] for id, _ in runtime.starts] == ["side", "main"]
        assert [(id.rsplit("_", 2)[1], number) for id, number in runtime.signals] == [("side", 15)]


async def test_what_is_allocated_is_converged_to_and_read_back(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall)
    async with running_agent(store, runtime, tmp_path):
        resources = {"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "500m", "memory": "64Mi"}}
        created = await create(store, pod(containers=[container(resources=resources)]))
        await until(store, is_running)
        amounts = {"cpu": "1", "memory": "128Mi", "limits.cpu": "1", "limits.memory": "128Mi"}
        await admit(store, amounts)
        told = await until(
            store,
            lambda obj: obj["status"]["containerStatuses"][0]["resources"]["limits"] == {"cpu": "1", "memory": "128Mi"},
        )
        id = f"{created['metadata']['uid']}_main_0"
        assert runtime.limits[id] == Limits(1000, 128 * 2**20, 1000)
        assert runtime.starts == [(id, runtime.starts[0][1])]
        assert "PodResizeInProgress" not in {each["type"] for each in told["status"]["conditions"]}


async def test_a_resize_that_cannot_be_done_yet_is_shown_until_it_is(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall)
    async with running_agent(store, runtime, tmp_path):
        await create(store, pod(containers=[container(resources={"limits": {"memory": "128Mi"}})]))
        await until(store, is_running)
        runtime.apply_error = MemoryInUse("in use", 100 * 2**20, 64 * 2**20)
        amounts = {"memory": "64Mi", "limits.memory": "64Mi"}
        await admit(store, amounts)
        told = await until(store, lambda obj: "PodResizeInProgress" in conditions(obj))
        assert conditions(told)["PodResizeInProgress"]["reason"] == "Error"
        assert told["status"]["containerStatuses"][0]["resources"]["limits"] == {"memory": "128Mi"}
        runtime.apply_error = None
        told = await until(store, lambda obj: "PodResizeInProgress" not in conditions(obj))
        assert told["status"]["containerStatuses"][0]["resources"]["limits"] == {"memory": "64Mi"}
        assert told["status"]["containerStatuses"][0]["allocatedResources"] == amounts


def conditions(obj):
    return {each["type"]: each for each in obj["status"].get("conditions", [])}


async def test_a_container_that_fails_its_liveness_probe_is_restarted(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall)
    probe = {"tcpSocket": {"port": 1}, "periodSeconds": 5, "failureThreshold": 3}
    async with running_agent(store, runtime, tmp_path):
        await create(store, pod(containers=[container(livenessProbe=probe)]))
        told = await until(store, lambda obj: is_running(obj) and obj["status"]["containerStatuses"][0]["restartCount"])
        assert [number for _, number in runtime.signals] == [15]
        assert 10 <= runtime.starts[1][1] - runtime.starts[0][1] < 12
        assert told["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 143


async def test_a_container_is_ready_when_its_probe_says_so(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall)
    probe = {"tcpSocket": {"port": "web"}, "periodSeconds": 5}
    async with running_agent(store, runtime, tmp_path):
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        number = server.sockets[0].getsockname()[1]
        ports = [{"name": "web", "containerPort": number}]
        server.close()
        await server.wait_closed()
        await create(store, pod(containers=[container(readinessProbe=probe, ports=ports)]))
        told = await until(store, is_running)
        assert not told["status"]["containerStatuses"][0]["ready"]
        assert conditions(told)["Ready"]["reason"] == "ContainersNotReady"
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", number)
        await until(store, lambda obj: obj["status"]["containerStatuses"][0]["ready"])
        server.close()


async def test_a_hand_edit_is_found_and_put_right(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall)
    async with running_agent(store, runtime, tmp_path):
        created = await create(store, pod(containers=[container(resources={"limits": {"cpu": "500m"}})]))
        await until(store, is_running)
        id = f"{created['metadata']['uid']}_main_0"
        await asyncio.sleep(1)
        runtime.limits[id] = Limits(330, None, 500)
        await asyncio.sleep(31)
        assert runtime.limits[id].cpu_milli == 500
        reasons = [each["reason"] for each in (await store.list(EVENT, "default")).items]
        assert reasons.count("ResourceDrift") == 1


async def test_a_clock_that_is_put_back_prolongs_nothing(tmp_path):
    jump = 0.0

    def jumping():
        return wall() + jump

    store, runtime = await open_store(), SimulatedRuntime(jumping, lambda spec: (1.0, 3))
    runtime.obeys_sigterm = False
    async with running_agent(store, runtime, tmp_path, clock=LoopClock(jumping)):
        await create(store, pod(terminationGracePeriodSeconds=7))
        await asyncio.sleep(3)
        jump = -3600.0
        await asyncio.sleep(15)
        assert len(runtime.starts) == 3  # at once, and after ten seconds
        runtime.script = lambda spec: None
        jump = 3600.0
        await asyncio.sleep(25)
        assert len(runtime.starts) == 4
        jump = 0.0
        await store.delete(POD, "p", "default")
        begun = asyncio.get_running_loop().time()
        await until(store, is_gone)
        assert 7 <= asyncio.get_running_loop().time() - begun < 8


async def test_without_a_server_containers_run_on_and_are_restarted(tmp_path):
    store, runtime = await open_store(), SimulatedRuntime(wall)
    connection = Cut(as_node(store))
    async with running_agent(store, runtime, tmp_path, seen=connection):
        created = await create(store, pod())
        await until(store, is_running)
        connection.is_cut = True
        runtime.end(f"{created['metadata']['uid']}_main_0", 7)
        await asyncio.sleep(30)
        assert [id.rpartition("_")[2] for id, _ in runtime.starts] == ["0", "1"]
        told = await store.get(POD, "p", "default")
        assert told["status"]["containerStatuses"][0]["restartCount"] == 0
        connection.is_cut = False
        told = await until(store, lambda obj: obj["status"]["containerStatuses"][0]["restartCount"] == 1)
        assert told["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 7
        assert told["status"]["phase"] == "Running"
