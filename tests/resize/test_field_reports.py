"""What users of others reported, as black boxes: the report's number, what is put in, and what is right."""

import asyncio

import pytest

from headrace.api.kinds import POD
from headrace.resize.service import ResizeServices, ServiceError
from headrace.wire.generated import resize_pb2 as wire
from tests.resize.pods import resources
from tests.resize.scene import GI, scene
from tests.runtime.home import wall

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]
IN_USE = "memory limit of 33554432 bytes lies below the 80740352 bytes in use; the limit stays as it was"
ONCE = {"count": 1, "seconds": 1}


async def memory_of(here, name):
    pod = await here.store.get(POD, name, "default")
    told = pod["status"]["containerStatuses"][0]["resources"]["limits"]["memory"]
    return pod["spec"]["containers"][0]["resources"]["limits"]["memory"], told


def memory_held(here, name):
    return here.store.rows.ledgers["node-a"].holders[f"Pod default/{name}"]["memory"]


async def test_runc_3509_a_shrink_below_what_is_in_use_is_refused_naming_both_and_charged_as_before():
    async with scene() as here:
        await here.pod("web", 1000, 256)
        here.agent.broken = IN_USE
        await here.resize("a", memory="32Mi", retry=ONCE)
        await here.settle(5)
        status = await here.status("a")
        assert (status["state"], status["reason"]) == ("Failed", "MemoryInUse")
        assert status["message"] == f"Memory In Use: {IN_USE}"
        assert await memory_of(here, "web") == ("256Mi", "268435456")
        assert memory_held(here, "web") == 256 * 1024**2


async def test_kubernetes_124786_a_tiny_memory_limit_changes_neither_request_nor_limit():
    async with scene() as here:
        await here.pod("web", 1000, 256)
        here.agent.broken = IN_USE.replace("33554432", "1048576")
        await here.resize("a", memory="1Mi", retry=ONCE)
        await here.settle(5)
        assert (await here.told("a"))[0] == "Failed"
        pod = await here.store.get(POD, "web", "default")
        assert pod["spec"]["containers"][0]["resources"]["requests"]["memory"] == "256Mi"
        assert await memory_of(here, "web") == ("256Mi", "268435456")


async def test_kubernetes_125559_a_change_of_the_request_alone_ends_in_five_seconds():
    async with scene() as here:
        await here.pod("web", 500, 256, limit_cpu=2000)
        fields = {"spec": {"containers": [{"name": "app", "resources": resources(700, 256, 2000)}]}}
        await here.store.patch(POD, "web", "default", fields=fields, subresource="resize", strategic=True)
        await here.settle(5)
        pod = await here.store.get(POD, "web", "default")
        kinds = {each["type"] for each in pod["status"].get("conditions") or ()}
        assert not kinds & {"PodResizePending", "PodResizeInProgress"}
        assert pod["status"]["containerStatuses"][0]["allocatedResources"]["cpu"] == "700m"


async def test_kubernetes_117765_what_is_still_in_use_is_promised_to_nobody():
    """Desire little while much is in use: the part that looks free is not."""
    async with scene(memory="1Gi") as here:
        await here.pod("hog", 100, 700)
        await here.pod("db", 100, 200)
        here.agent.broken = IN_USE
        await here.resize("down", "hog/app", memory="100Mi", retry={"count": 3, "seconds": 5})
        await here.settle(1)
        await here.resize("up", "db/app", memory="500Mi")
        await here.settle(1)
        assert await here.told("up") == ("Failed", "InsufficientMemory", "FAILED")
        assert memory_held(here, "hog") == 700 * 1024**2


async def test_autoscaler_4515_more_than_the_node_has_is_clamped_or_rejected_with_a_reason():
    async with scene(cpu="8", reserved_cpu="1") as here:
        await here.pod("web", 6000)
        await here.resize("rejected", cpu="12")
        await here.settle()
        assert await here.told("rejected") == ("Failed", "InsufficientCPU", "FAILED")
        await here.resize("clamped", cpu="12", onInsufficient="Clamp")
        await here.settle()
        assert (await here.status("clamped"))["actual"]["cpu"] == "7"


async def test_zero_is_refused_and_unset_means_keep():
    async with scene() as here:
        await here.pod("web", 1000, 1024)
        service = ResizeServices(here.store, wall=wall)
        with pytest.raises(ServiceError, match="must be greater than 0"):
            await service.request_scaling(wire.ScalingActionRequest(workload_id="default/web/app", cpu_milli=0))
        done = await service.request_scaling(wire.ScalingActionRequest(workload_id="default/web/app", cpu_milli=1500))
        assert (done.cpu_milli, done.memory_bytes) == (1500, GI)


@pytest.mark.parametrize(
    ("field", "value"), [("cpu", "0"), ("cpu", "-1"), ("cpu", "5m"), ("memory", "0"), ("memory", "much")]
)
async def test_bad_amounts_are_refused_when_they_are_written(field, value):
    from headrace.store.protocol import Invalid

    async with scene() as here:
        await here.pod("web")
        with pytest.raises(Invalid) as error:
            await here.resize("a", **{field: value})
        assert [cause.field for cause in error.value.causes] == [f"spec.target.{field}"]


async def test_a_stopped_container_gets_it_at_its_next_start():
    async with scene() as here:
        await here.pod("web", 1000)
        stopped = {"terminated": {"exitCode": 1, "reason": "Error"}, "running": None}
        here.agent.away = True
        fields = {"status": {"containerStatuses": [{"name": "app", "state": stopped}]}}
        await here.agent._store.patch(POD, "web", "default", fields=fields, subresource="status", strategic=True)
        await here.resize("a", cpu="2")
        await here.settle(2)
        status = await here.status("a")
        assert (status["state"], status["syncState"], status["reason"]) == ("Running", "PENDING", "NotRunning")
        assert "at the next start" in status["message"]
        started = {"running": {"startedAt": "2027-01-15T09:00:00Z"}, "terminated": None}
        fields = {"status": {"containerStatuses": [{"name": "app", "state": started}]}}
        await here.agent._store.patch(POD, "web", "default", fields=fields, subresource="status", strategic=True)
        here.agent.away = False
        await here.agent.look_again("web")
        await here.settle(2)
        assert (await here.told("a"))[0] == "Succeeded"


async def test_a_pod_that_goes_while_it_is_resized_ends_the_action():
    async with scene() as here:
        await here.pod("web", 1000)
        here.agent.away = True
        await here.resize("a", cpu="2")
        await here.settle()
        await here.store.delete(POD, "web", "default")
        await here.settle(2)
        assert (await here.told("a"))[:2] == ("Failed", "NotRunning")
        assert await here.held("web") == 2000  # until its agent has confirmed that it is gone


async def test_own_race_of_many_the_sum_never_exceeds_what_there_is():
    async with scene(cpu="8", reserved_cpu="1") as here:
        for number in range(5):
            await here.pod(f"p{number}", 1000)
        await asyncio.gather(*(here.resize(f"a{number}", f"p{number}/app", cpu="2") for number in range(5)))
        await here.settle(5)
        told = [(await here.told(f"a{number}"))[0] for number in range(5)]
        assert sorted(told) == ["Failed"] * 3 + ["Succeeded"] * 2
        assert here.store.rows.ledgers["node-a"].room("cpu") == 0
