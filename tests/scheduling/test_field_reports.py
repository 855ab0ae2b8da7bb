"""What went wrong for users of Kubernetes' devices, with right values. Each is a kind of fault, with its report."""

import asyncio

import pytest

from headrace.api.kinds import DEVICE_CLASS, EVENT, NODE, POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from headrace.objects.local import Caller
from headrace.store.protocol import Deletion
from tests.runtime.home import open_store
from tests.scheduling.scene import (
    add_node,
    claim,
    example,
    given,
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
AGENT = Caller(user="system:node:node-a")
CONFIRMED = "headrace.dev/confirmed-revision"


def gpus(node_name, *devices, count=1, name=None, **spec):
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": count}
    found = {"driver": "gpu.example.com", "nodeName": node_name, "pool": pool, **spec}
    if devices:
        found["devices"] = [{"name": each} if isinstance(each, str) else each for each in devices]
    return {"metadata": {"name": name or f"{node_name}-gpus"}, "spec": found}


async def with_node(store, *slices, name="node-a"):
    await add_node(store, node(name))
    for each in slices:
        await store.create(RESOURCE_SLICE, each)


async def with_class(store, expression='device.driver == "gpu.example.com"'):
    selectors = [{"cel": {"expression": expression}}]
    await store.create(DEVICE_CLASS, {"metadata": {"name": "gpu.example.com"}, "spec": {"selectors": selectors}})


async def force_delete(store, name):
    await store.delete(POD, name, "default", Deletion(grace_seconds=0))


async def status_of(store, name):
    return (await store.get(RESOURCE_CLAIM, name, "default")).get("status") or {}


async def test_141471_a_pod_deleted_by_force_keeps_its_device_until_the_node_has_confirmed():
    async with scheduled() as store:
        await with_devices(store)
        await with_claim(store, "first", count=2)
        await settle()
        await force_delete(store, "pod-first")
        await with_claim(store, "second")
        await asyncio.sleep(300)
        assert await given(store, "first") == ["gpu-0", "gpu-1"]
        assert "use by default/first" in await why(store, "pod-second")
        told = [each["message"] for each in (await store.list(EVENT)).items if each["reason"] == "DevicesStillInUse"]
        assert 'node "node-a" has not confirmed' in told[0]
        revision = (await store.list(POD)).revision
        fields = {"metadata": {"annotations": {CONFIRMED: revision}}}
        await store.acting_as(AGENT).patch(NODE, "node-a", fields=fields)
        await settle()
        assert await given(store, "first") == []
        assert await given(store, "second") == ["gpu-0"]


async def test_141471_a_node_that_is_deleted_confirms_nothing_more():
    async with scheduled() as store:
        await with_devices(store)
        await with_claim(store, "first")
        await settle()
        await force_delete(store, "pod-first")
        await settle()
        assert await given(store, "first") == ["gpu-0"]
        await store.delete(NODE, "node-a")
        await settle()
        assert await given(store, "first") == []


async def test_127554_all_takes_just_the_devices_of_the_chosen_node_and_of_its_class():
    async with scheduled() as store:
        await with_class(store, 'device.attributes["gpu.example.com"].?kind.orValue("") == "big"')
        for name in ("node-a", "node-b"):
            big = [{"name": f"{name}-{at}", "attributes": {"kind": {"string": "big"}}} for at in range(2)]
            await with_node(store, gpus(name, *big, f"{name}-s", f"{name}-t"), name=name)
        await with_claim(store, "c", allocationMode="All")
        await settle()
        chosen = await where(store, "pod-c")
        assert await given(store, "c") == [f"{chosen}-0", f"{chosen}-1"]


async def test_129560_all_of_nothing_is_unsatisfiable_and_never_an_empty_allocation():
    async with scheduled() as store:
        await with_class(store, "false")
        await with_node(store, gpus("node-a", "x"))
        await with_claim(store, "c", allocationMode="All")
        await settle()
        assert await where(store, "pod-c") is None
        assert not (await status_of(store, "c")).get("allocation")
        assert "cannot allocate all claims" in await why(store, "pod-c")


async def test_131662_thirty_two_devices_are_given_and_thirty_three_end_in_the_references_error():
    async with scheduled() as store:
        await with_class(store)
        await with_node(store, gpus("node-a", *(f"gpu-{at}" for at in range(64))))
        await with_claim(store, "full", count=32)
        await with_claim(store, "more", count=33)
        await settle()
        assert len(await given(store, "full")) == 32
        assert "exceeds the claim limit of 32" in await why(store, "pod-more")


def partitions():
    """One GPU that two shares may have, or one that has it whole: both take from the same counter."""
    whole = [{"counterSet": "gpu", "counters": {"memory": {"value": "80Gi"}}}]
    shared = {"name": "shared", "allowMultipleAllocations": True, "consumesCounters": whole}
    shared["capacity"] = {"slots": {"value": "2", "requestPolicy": {"default": "1", "validValues": ["1", "2"]}}}
    sets = [{"name": "gpu", "counters": {"memory": {"value": "80Gi"}}}]
    return (
        gpus("node-a", shared, {"name": "whole", "consumesCounters": whole}, count=2),
        gpus("node-a", count=2, name="counters", sharedCounters=sets),
    )


def named(device):
    return [{"cel": {"expression": f'device.attributes["gpu.example.com"].?n.orValue("{device}") == "{device}"'}}]


async def test_139040_shares_count_when_counters_are_rebuilt_also_after_a_restart():
    store = await open_store()
    async with scheduled(store=store):
        await with_class(store)
        for each in partitions():
            each["spec"].get("devices") and [
                device.setdefault("attributes", {}).update(n={"string": device["name"]})
                for device in each["spec"]["devices"]
            ]
            await store.create(RESOURCE_SLICE, each)
        await add_node(store, node("node-a"))
        for name in ("one", "two"):
            await with_claim(store, name, selectors=named("shared"))
        await settle()
        assert [await given(store, name) for name in ("one", "two")] == [["shared"], ["shared"]]
        await with_claim(store, "whole", selectors=named("whole"))
        await settle()
        assert await given(store, "whole") == []
    async with scheduled(store=store):
        await settle()
        assert await given(store, "whole") == []


async def test_140436_what_was_tried_and_given_up_leaves_counters_as_they_were():
    """The first choice of the first request fits the counters, but then the second does not: the other choice does."""
    async with scheduled() as store:
        await with_class(store)
        sets = [{"name": "gpu", "counters": {"memory": {"value": "80Gi"}}}]
        parts = [
            {"name": name, "consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": value}}}]}
            for name, value in (("large", "60Gi"), ("half-1", "40Gi"), ("half-2", "40Gi"))
        ]
        await with_node(store, gpus("node-a", *parts, count=2), gpus("node-a", count=2, name="c", sharedCounters=sets))
        requests = [{"name": name, "exactly": {"deviceClassName": "gpu.example.com"}} for name in ("a", "b")]
        made = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}}
        await store.create(RESOURCE_CLAIM, made, "default")
        await store.create(POD, pod("pod-c", resourceClaims=[{"name": "x", "resourceClaimName": "c"}]), "default")
        await settle()
        assert await given(store, "c") == ["half-1", "half-2"]
        await store.acting_as(AGENT).delete(POD, "pod-c", "default", Deletion(grace_seconds=0))
        await settle()
        await with_claim(store, "again")
        await settle()
        assert await given(store, "again") == ["large"]


async def test_131730_a_nic_that_does_not_exist_is_named_at_once():
    async with scheduled() as store:
        await with_class(store)
        nic = [{"cel": {"expression": 'device.driver == "nic.example.com"'}}]
        await store.create(DEVICE_CLASS, {"metadata": {"name": "nic.example.com"}, "spec": {"selectors": nic}})
        await with_node(store, gpus("node-a", *(f"gpu-{at}" for at in range(64))))
        requests = [
            {"name": "gpus", "exactly": {"deviceClassName": "gpu.example.com", "count": 4}},
            {"name": "nic", "exactly": {"deviceClassName": "nic.example.com"}},
        ]
        made = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}}
        await store.create(RESOURCE_CLAIM, made, "default")
        await store.create(POD, pod("pod-c", resourceClaims=[{"name": "x", "resourceClaimName": "c"}]), "default")
        await settle()
        assert "request nic: 0 of 64 devices left" in await why(store, "pod-c")


async def test_132334_what_ended_while_the_controller_was_down_is_released_when_it_starts():
    store = await open_store()
    async with scheduled(store=store):
        await with_devices(store)
        await store.create(RESOURCE_CLAIM_TEMPLATE, example("trainer.yaml")[0], "default")
        claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
        await store.create(POD, pod("generated", resourceClaims=claims), "default")
        await with_claim(store, "direct")
        await settle()
    for name in ("generated", "pod-direct"):
        await store.acting_as(AGENT).delete(POD, name, "default", Deletion(grace_seconds=0))
    await store.delete(RESOURCE_CLAIM, "direct", "default")
    assert len((await store.list(RESOURCE_CLAIM, "default")).items) == 2
    async with scheduled(store=store):
        await settle()
        assert (await store.list(RESOURCE_CLAIM, "default")).items == []


async def test_141274_a_pod_that_has_ended_leaves_a_shared_claim_once_and_is_never_reserved_again():
    async with scheduled() as store:
        await with_devices(store)
        await with_claim(store, "c")
        entry = [{"name": "gpu", "resourceClaimName": "c"}]
        await store.create(POD, pod("other", resourceClaims=entry), "default")
        await settle()
        await store.patch(POD, "other", "default", fields={"status": {"phase": "Succeeded"}}, subresource="status")
        await settle()
        left = await store.get(RESOURCE_CLAIM, "c", "default")
        assert [each["name"] for each in left["status"]["reservedFor"]] == ["pod-c"]
        await asyncio.sleep(60)
        later = await store.get(RESOURCE_CLAIM, "c", "default")
        assert later["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


async def test_113890_the_generated_claim_of_a_pod_that_has_ended_is_released_and_deleted():
    async with scheduled() as store:
        await with_devices(store)
        await store.create(RESOURCE_CLAIM_TEMPLATE, example("trainer.yaml")[0], "default")
        claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
        await store.create(POD, pod("once", resourceClaims=claims), "default")
        await settle()
        assert await where(store, "once") == "node-a"
        await store.patch(POD, "once", "default", fields={"status": {"phase": "Succeeded"}}, subresource="status")
        await settle()
        assert (await store.list(RESOURCE_CLAIM, "default")).items == []
        assert (await store.get(POD, "once", "default"))["status"]["phase"] == "Succeeded"


async def test_141118_nothing_is_given_from_slices_that_disagree_about_their_number():
    async with scheduled() as store:
        await with_class(store)
        await with_node(store, *(gpus("node-a", f"gpu-{at}", count=2, name=f"s{at}") for at in range(3)))
        await with_claim(store, "c")
        await settle()
        assert await given(store, "c") == []
        assert "cannot allocate all claims" in await why(store, "pod-c")


async def test_all_of_a_pods_claims_are_given_or_none():
    async with scheduled() as store:
        await with_devices(store)
        for name, count in (("small", 1), ("large", 2)):
            await store.create(RESOURCE_CLAIM, claim(name, count=count), "default")
        entries = [{"name": name, "resourceClaimName": name} for name in ("small", "large")]
        await store.create(POD, pod("both", resourceClaims=entries), "default")
        await settle()
        assert await where(store, "both") is None
        assert [await given(store, name) for name in ("small", "large")] == [[], []]


async def test_an_allocated_claim_pins_its_node_for_every_pod_that_shares_it():
    async with scheduled() as store:
        await with_class(store)
        for name in ("node-a", "node-b"):
            await with_node(store, gpus(name, "x"), name=name)
        await with_claim(store, "c")
        await settle()
        chosen = await where(store, "pod-c")
        for number in range(4):
            entry = [{"name": "gpu", "resourceClaimName": "c"}]
            await store.create(POD, pod(f"p{number}", cpu="100m", resourceClaims=entry), "default")
        await settle()
        assert {await where(store, f"p{number}") for number in range(4)} == {chosen}


@pytest.mark.slow
async def test_a_claim_takes_256_pods_and_the_next_waits_until_one_leaves():
    async with scheduled() as store:
        await with_class(store)
        roomy = node("node-a", cpu="64")
        roomy["status"]["capacity"]["pods"] = "500"
        await add_node(store, roomy)
        await store.create(RESOURCE_SLICE, gpus("node-a", "x"))
        entry = [{"name": "gpu", "resourceClaimName": "c"}]
        await store.create(RESOURCE_CLAIM, claim("c"), "default")
        for number in range(257):
            await store.create(POD, pod(f"p{number}", cpu="1m", resourceClaims=entry), "default")
        await asyncio.sleep(600)
        pods = (await store.list(POD, "default")).items
        waiting = [each["metadata"]["name"] for each in pods if not each["spec"].get("nodeName")]
        assert len(waiting) == 1
        assert "resourceclaim in use" in await why(store, waiting[0])
        leaver = next(each["metadata"]["name"] for each in pods if each["spec"].get("nodeName"))
        await store.acting_as(AGENT).delete(POD, leaver, "default", Deletion(grace_seconds=0))
        await settle()
        assert await where(store, waiting[0]) == "node-a"
