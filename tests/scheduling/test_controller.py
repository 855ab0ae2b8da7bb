"""The scheduler and the claim controllers on the real store, in virtual time: Pods come, wait, get devices and go."""

import asyncio
import itertools

import pytest

from headrace.api.kinds import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    POD,
    PRIORITY_CLASS,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
from headrace.objects.local import Caller
from headrace.store.protocol import Deletion
from tests.scheduling.scene import (
    add_node,
    claim,
    eight_gpus,
    example,
    given,
    no_device_twice,
    node,
    pod,
    scheduled,
    settle,
    where,
    why,
    with_claim,
    with_devices,
)

pytestmark = pytest.mark.looptime


async def test_pods_are_placed_until_the_node_is_full_and_again_when_one_has_gone():
    async with scheduled() as store:
        await add_node(store, node("node-a", cpu="1"))
        for name in ("a", "b", "c"):
            await store.create(POD, pod(name), "default")
            await settle()
        assert [await where(store, name) for name in "abc"] == ["node-a", "node-a", None]
        assert await why(store, "c") == "0/1 nodes are available: 1 Insufficient cpu."
        agent = store.acting_as(Caller(user="system:node:node-a"))
        await agent.delete(POD, "a", "default", Deletion(grace_seconds=0))
        await settle()
        assert await where(store, "c") == "node-a"


async def resize(store, name, cpu):
    fields = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}
    await store.patch(POD, name, "default", fields=fields, subresource="resize", strategic=True)


async def test_a_pod_that_was_resized_while_it_waited_is_placed_with_what_it_wants_now():
    async with scheduled() as store:
        await store.create(POD, pod("grown", cpu="1500m"), "default")
        await resize(store, "grown", "3")
        await add_node(store, node("node-a", cpu="2"))
        await store.create(POD, pod("shrunk", cpu="5"), "default")
        await settle()
        assert [await where(store, name) for name in ("grown", "shrunk")] == [None, None]
        await resize(store, "shrunk", "600m")
        await settle()
        assert [await where(store, name) for name in ("grown", "shrunk")] == [None, "node-a"]
        assert store.rows.ledgers["node-a"].holders["Pod default/shrunk"]["cpu"] == 600


async def test_pods_that_wait_are_placed_by_priority():
    async with scheduled() as store:
        await store.create(PRIORITY_CLASS, {"metadata": {"name": "urgent"}, "value": 1000})
        await store.create(POD, pod("low", cpu="800m"), "default")
        await store.create(POD, pod("high", cpu="800m", priorityClassName="urgent"), "default")
        await settle()
        await add_node(store, node("node-a", cpu="1"))
        await settle()
        assert [await where(store, name) for name in ("low", "high")] == [None, "node-a"]


async def test_the_seeds_pod_gets_a_device_of_its_own_and_gives_it_back():
    async with scheduled() as store:
        await add_node(store, node("node-a"))
        [resource_slice] = example("resource-slice.yaml")
        await store.create(RESOURCE_SLICE, resource_slice)
        await store.create(DEVICE_CLASS, example("device-class.yaml")[0])
        template, trainer = example("trainer.yaml")
        await store.create(POD, trainer, "default")
        await settle()
        assert "waiting for the resourceclaim" in await why(store, "trainer")
        await store.create(RESOURCE_CLAIM_TEMPLATE, template, "default")
        await settle()
        assert await where(store, "trainer") == "node-a"
        [claim] = (await store.list(RESOURCE_CLAIM, "default")).items
        assert claim["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
        assert claim["status"]["reservedFor"][0]["name"] == "trainer"
        agent = store.acting_as(Caller(user="system:node:node-a"))
        await agent.delete(POD, "trainer", "default", Deletion(grace_seconds=0))
        await settle()
        assert (await store.list(RESOURCE_CLAIM, "default")).items == []


async def test_a_claim_for_64gi_takes_the_large_gpu_and_a_second_one_waits():
    async with scheduled() as store:
        await add_node(store, node("node-a"))
        await store.create(RESOURCE_SLICE, example("resource-slice.yaml")[0])
        await store.create(DEVICE_CLASS, example("device-class.yaml")[0])
        [big] = example("resource-claim.yaml")
        for name in ("big-gpu", "big-gpu-2"):
            await store.create(RESOURCE_CLAIM, {**big, "metadata": {"name": name}}, "default")
            claims = [{"name": "gpu", "resourceClaimName": name}]
            await store.create(POD, pod(f"pod-{name}", resourceClaims=claims), "default")
            await settle()
        assert await where(store, "pod-big-gpu") == "node-a"
        assert await where(store, "pod-big-gpu-2") is None
        told = await why(store, "pod-big-gpu-2")
        assert told.startswith("0/1 nodes are available: 1 cannot allocate all claims (")
        assert "request gpu: 0 of 2 devices left" in told
        assert "1 lost to use by default/big-gpu" in told


async def test_a_device_that_was_let_go_and_is_still_used_is_left_out_and_given_when_its_pod_has_ended():
    """A claim's status is cleared by hand while its Pod runs: the next Pod takes the other GPU, a third one waits."""
    async with scheduled() as store:
        await add_node(store, node("node-a"))
        await store.create(RESOURCE_SLICE, example("resource-slice.yaml")[0])
        await store.create(DEVICE_CLASS, example("device-class.yaml")[0])
        devices = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}
        for name in ("first", "second", "third"):
            claim = {"metadata": {"name": name}, "spec": {"devices": devices}}
            await store.create(RESOURCE_CLAIM, claim, "default")
        for name in ("first", "second", "third"):
            claims = [{"name": "gpu", "resourceClaimName": name}]
            await store.create(POD, pod(name, resourceClaims=claims), "default")
            await settle()
            if name == "first":
                let_go = {"status": {"allocation": None, "reservedFor": None}}
                await store.patch(RESOURCE_CLAIM, "first", "default", fields=let_go, subresource="status")
        assert [await where(store, name) for name in ("first", "second", "third")] == ["node-a", "node-a", None]
        assert "let go at" in await why(store, "third")
        agent = store.acting_as(Caller(user="system:node:node-a"))
        await agent.delete(POD, "first", "default", Deletion(grace_seconds=0))
        await settle()
        assert await where(store, "third") == "node-a"


async def test_twenty_pods_at_once_never_share_a_device_nor_overcommit():
    async with scheduled() as store:
        await store.create(DEVICE_CLASS, example("device-class.yaml")[0])
        template, _ = example("trainer.yaml")
        await store.create(RESOURCE_CLAIM_TEMPLATE, template, "default")
        for name in ("node-a", "node-b", "node-c"):
            await add_node(store, node(name))
            [resource_slice] = example("resource-slice.yaml")
            resource_slice["metadata"]["name"] = f"{name}-gpus"
            resource_slice["spec"] |= {"nodeName": name, "pool": {**resource_slice["spec"]["pool"], "name": name}}
            await store.create(RESOURCE_SLICE, resource_slice)
        claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
        for number in range(20):
            await store.create(POD, pod(f"p{number}", resourceClaims=claims), "default")
        await settle()
        found = (await store.list(RESOURCE_CLAIM, "default")).items
        given = [
            (each["pool"], each["device"])
            for claim in found
            for each in ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", ())
        ]
        assert len(given) == len(set(given)) == 6
        placed = [pod for pod in (await store.list(POD, "default")).items if pod["spec"].get("nodeName")]
        assert len(placed) == 6


EXTENDED = {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": "nvidia.com/gpu", "selectors": []}}


def gpu_pod(name, count="1"):
    found = pod(name)
    found["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": count}
    return found


async def test_an_extended_resource_gets_a_claim_and_its_pod_is_bound_with_the_mapping():
    async with scheduled() as store:
        await with_devices(store)
        await store.create(DEVICE_CLASS, EXTENDED)
        for name in ("one", "two", "three"):
            await store.create(POD, gpu_pod(name), "default")
            await settle()
        assert [await where(store, name) for name in ("one", "two", "three")] == ["node-a", "node-a", None]
        told = (await store.get(POD, "one", "default"))["status"]["extendedResourceClaimStatus"]
        assert told["requestMappings"][0]["resourceName"] == "nvidia.com/gpu"
        assert await given(store, told["resourceClaimName"]) == ["gpu-0"]
        assert "cannot allocate all claims" in await why(store, "three")
        agent = store.acting_as(Caller(user="system:node:node-a"))
        await agent.delete(POD, "one", "default", Deletion(grace_seconds=0))
        await settle()
        assert await where(store, "three") == "node-a"


async def test_a_node_that_offers_the_resource_itself_needs_no_claim():
    async with scheduled() as store:
        await store.create(DEVICE_CLASS, EXTENDED)
        own = node("node-b")
        own["status"]["capacity"]["nvidia.com/gpu"] = "1"
        await add_node(store, own)
        await store.create(POD, gpu_pod("one"), "default")
        await settle()
        assert await where(store, "one") == "node-b"
        assert (await store.list(RESOURCE_CLAIM, "default")).items == []


async def test_binding_waits_for_the_drivers_conditions():
    async with scheduled() as store:
        await with_devices(store, bindingConditions=["ready"], bindingFailureConditions=["broken"])
        await with_claim(store, "c")
        await settle()
        assert await given(store, "c") == ["gpu-0"]
        assert await where(store, "pod-c") is None
        await tell(store, "c", "ready")
        await settle()
        assert await where(store, "pod-c") == "node-a"


async def tell(store, name, condition):
    device = {"driver": "gpu.example.com", "pool": "node-a", "device": (await given(store, name))[0]}
    stamp = {"lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Told", "message": "so it is"}
    device["conditions"] = [{"type": condition, "status": "True", **stamp}]
    await store.patch(RESOURCE_CLAIM, name, "default", fields={"status": {"devices": [device]}}, subresource="status")


async def test_a_device_that_failed_to_be_attached_is_given_back_and_another_try_is_made():
    async with scheduled() as store:
        await with_devices(store, bindingConditions=["ready"], bindingFailureConditions=["broken"])
        await with_claim(store, "c")
        await settle()
        await tell(store, "c", "broken")
        await settle()
        found = await store.get(RESOURCE_CLAIM, "c", "default")
        assert not found["status"].get("devices")
        assert await where(store, "pod-c") is None


async def test_binding_conditions_time_out_after_ten_minutes():
    async with scheduled() as store:
        await with_devices(store, bindingConditions=["ready"], bindingFailureConditions=["broken"])
        await with_claim(store, "c")
        await asyncio.sleep(590)
        stamp = (await store.get(RESOURCE_CLAIM, "c", "default"))["status"]["allocation"]["allocationTimestamp"]
        await asyncio.sleep(30)
        again = (await store.get(RESOURCE_CLAIM, "c", "default"))["status"].get("allocation") or {}
        assert again.get("allocationTimestamp") != stamp


async def test_a_rules_taint_keeps_a_device_from_requests_that_do_not_tolerate_it():
    async with scheduled() as store:
        await with_devices(store)
        rule = {"deviceSelector": {"device": "gpu-0"}, "taint": {"key": "repair", "effect": "NoSchedule"}}
        await store.create(DEVICE_TAINT_RULE, {"metadata": {"name": "r"}, "spec": rule})
        await with_claim(store, "plain")
        await with_claim(store, "tolerant", tolerations=[{"key": "repair", "operator": "Exists"}])
        await settle()
        assert await given(store, "plain") == ["gpu-1"]
        assert await given(store, "tolerant") == ["gpu-0"]
        await with_claim(store, "late")
        await settle()
        agent = store.acting_as(Caller(user="system:node:node-a"))
        await agent.delete(POD, "pod-tolerant", "default", Deletion(grace_seconds=0))
        await settle()
        assert await given(store, "late") == []
        await store.delete(DEVICE_TAINT_RULE, "r")
        await settle()
        assert await given(store, "late") == ["gpu-0"]


async def test_a_search_that_gave_up_is_told_as_that_and_tried_again_with_growing_delay():
    """kubernetes/kubernetes#137607: a time-out was taken for `does not fit`, and the Pod was stuck."""
    looks = []

    async def looked():
        looks.append(asyncio.get_running_loop().time())

    async with scheduled(search_limit=2500, yield_now=looked) as store:
        await store.create(DEVICE_CLASS, example("device-class.yaml")[0])
        await add_node(store, node("node-a"))
        for number in range(16):
            [resource_slice] = example("resource-slice.yaml")
            resource_slice["metadata"]["name"] = f"gpus-{number}"
            resource_slice["spec"]["pool"]["resourceSliceCount"] = 16
            attributes = {"serial": {"int": number}}
            devices = [{"name": f"gpu-{number}-{at}", "attributes": attributes} for at in range(128)]
            resource_slice["spec"]["devices"] = devices
            await store.create(RESOURCE_SLICE, resource_slice)
        never = {"cel": {"expression": 'device.attributes["gpu.example.com"].serial < 0'}}
        await with_claim(store, "c", selectors=[never])
        await asyncio.sleep(100)
        told = await why(store, "pod-c")
        assert "search gave up after" in told
        assert "request gpu" in told
        assert "cannot allocate" not in told
        starts = sorted({round(at) for at in looks})
        gaps = [later - earlier for earlier, later in itertools.pairwise(starts)]
        assert gaps == sorted(set(gaps))  # 5 s, then twice as long each time


@pytest.mark.parametrize("count", [200])
async def test_two_hundred_pods_at_once_and_64_devices_no_device_is_ever_given_twice(count):
    """kubernetes/kubernetes#136269, looked at after every event of every claim."""
    async with scheduled() as store:
        await store.create(DEVICE_CLASS, example("device-class.yaml")[0])
        template, _ = example("trainer.yaml")
        await store.create(RESOURCE_CLAIM_TEMPLATE, template, "default")
        names = [f"node-{number}" for number in range(8)]
        for name in names:
            await add_node(store, node(name, cpu="64"))
            await store.create(RESOURCE_SLICE, eight_gpus(name))
        owners = {}
        watching = asyncio.create_task(no_device_twice(store, owners))
        claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
        for number in range(count):
            await store.create(POD, pod(f"p{number}", cpu="10m", resourceClaims=claims), "default")
            if number % 20 == 0:  # slices are written anew meanwhile
                name = names[number // 20 % 8]
                await store.patch(RESOURCE_SLICE, f"{name}-gpus", fields={"metadata": {"labels": {"n": str(number)}}})
        await settle()
        assert len(owners) == 64
        placed = [each for each in (await store.list(POD, "default")).items if each["spec"].get("nodeName")]
        assert len(placed) == 64
        for each in placed[:32]:
            agent = store.acting_as(Caller(user=f"system:node:{each['spec']['nodeName']}"))
            await agent.delete(POD, each["metadata"]["name"], "default", Deletion(grace_seconds=0))
        await settle()
        assert len(owners) == 64
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching


async def test_an_error_of_a_selector_is_told_as_kube_scheduler_tells_it_and_tried_again_when_devices_change():
    async with scheduled() as store:
        await with_devices(store)
        broken = {"selectors": [{"cel": {"expression": 'device.attributes["gpu.example.com"].nothing == 1'}}]}
        await with_claim(store, "c", **broken)
        await settle()
        conditions = (await store.get(POD, "pod-c", "default"))["status"]["conditions"]
        found = next(each for each in conditions if each["type"] == "PodScheduled")
        assert found["reason"] == "SchedulerError"
        assert found["message"].startswith('running "DynamicResources" filter plugin: claim default/c: selector #0 on ')
        [resource_slice] = example("resource-slice.yaml")
        devices = [{**each, "attributes": {"nothing": {"int": 1}}} for each in resource_slice["spec"]["devices"]]
        name = resource_slice["metadata"]["name"]
        await store.patch(RESOURCE_SLICE, name, fields={"spec": {"devices": devices}})
        await settle()
        assert await where(store, "pod-c") == "node-a"


@pytest.mark.parametrize("placed_first", [False, True], ids=["after the allocation", "before it"])
async def test_a_pod_that_names_its_node_itself_shares_the_allocated_claim(placed_first):
    async with scheduled() as store:
        await with_devices(store)
        await store.create(RESOURCE_CLAIM, claim("shared"), "default")
        for name in ("itself", "first") if placed_first else ("first", "itself"):
            spec = {"nodeName": "node-a"} if name == "itself" else {}
            entries = [{"name": "gpu", "resourceClaimName": "shared"}]
            await store.create(POD, pod(name, resourceClaims=entries, **spec), "default")
            await settle()
        status = (await store.get(RESOURCE_CLAIM, "shared", "default"))["status"]
        assert sorted(each["name"] for each in status["reservedFor"]) == ["first", "itself"]
