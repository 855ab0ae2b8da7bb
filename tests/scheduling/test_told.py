"""Pods that are not placed are told why and looked at again, whatever went wrong on the way."""

from pathlib import Path

import pytest

from headrace.api.kinds import DEVICE_CLASS, EVENT, NODE, POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from headrace.devices.driver.simulated import SimulatedGpus
from headrace.objects.local import Caller
from headrace.store.protocol import Deletion, Forbidden, Unavailable
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

NOW = Deletion(grace_seconds=0)
PROFILE = 'device.attributes["gpu.example.com"].profile == "%s"'


async def test_a_pod_that_the_ledger_refuses_on_every_node_is_told_so_and_placed_when_one_is_free():
    async with scheduled() as store:
        for name in ("node-a", "node-b"):
            await add_node(store, node(name, cpu="1"))
            await store.create(POD, pod(f"on-{name}", cpu="800m", nodeName=name), "default")
            await store.delete(POD, f"on-{name}", "default", NOW)  # by force: still charged until the node confirms
        await store.create(POD, pod("next", cpu="800m"), "default")
        await settle()
        assert await why(store, "next") == "0/2 nodes are available: 2 Insufficient cpu."
        confirmed = {"metadata": {"annotations": {"headrace.dev/confirmed-revision": "100000"}}}
        await store.patch(NODE, "node-b", fields=confirmed)
        await settle()
        assert await where(store, "next") == "node-b"


class Full:
    """A store in which no more claims may be made, as a ResourceQuota has it, until it is `open`."""

    def __init__(self, store):
        self._store, self.open = store, False

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def create(self, kind, obj, namespace=""):
        if kind == RESOURCE_CLAIM and not self.open:
            raise Forbidden('resourceclaims "c" is forbidden: exceeded quota: few')
        return await self._store.create(kind, obj, namespace)


async def told(store, reason):
    events = (await store.list(EVENT, "default")).items
    return {each["message"] for each in events if each["reason"] == reason}


async def test_a_claim_that_the_quota_forbids_is_told_in_an_event_of_its_pod_and_made_later():
    full = Full(await open_store())
    async with scheduled(store=full) as store:
        await with_devices(store)
        template, trainer = example("trainer.yaml")
        await store.create(RESOURCE_CLAIM_TEMPLATE, template, "default")
        await store.create(POD, trainer, "default")
        await settle()
        [message] = await told(store, "FailedResourceClaimCreation")
        assert "exceeded quota: few" in message
        full.open = True
        await settle()
        await settle()
        assert await where(store, "trainer") == "node-a"


async def test_a_claim_for_extended_resources_that_the_quota_forbids_is_told_in_the_pods_condition():
    full = Full(await open_store())
    async with scheduled(store=full) as store:
        await add_node(store, node("node-a"))
        await store.create(RESOURCE_SLICE, example("resource-slice.yaml")[0])
        device_class = example("device-class.yaml")[0]
        device_class["spec"]["extendedResourceName"] = "nvidia.com/gpu"
        await store.create(DEVICE_CLASS, device_class)
        wanting = pod("wanting")
        amounts = {"nvidia.com/gpu": "1"}
        wanting["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
        await store.create(POD, wanting, "default")
        await settle()
        assert "exceeded quota: few" in (await why(store, "wanting") or "")
        assert any("exceeded quota: few" in each for each in await told(store, "FailedScheduling"))
        full.open = True
        await settle()
        await settle()
        assert await where(store, "wanting") == "node-a"


class Unwritable:
    """A store that cannot write claims' status until it is `open`."""

    def __init__(self, store):
        self._store, self.open = store, False

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def patch(self, kind, *where, **what):
        if kind == RESOURCE_CLAIM and what.get("subresource") == "status" and not self.open:
            raise Unavailable("the disk is full")
        return await self._store.patch(kind, *where, **what)


async def test_a_pod_that_shares_a_claim_is_looked_at_again_when_the_first_one_gets_nowhere():
    unwritable = Unwritable(await open_store())
    async with scheduled(store=unwritable) as store:
        await with_devices(store)
        await store.create(RESOURCE_CLAIM, claim("shared"), "default")
        uses = [{"name": "gpu", "resourceClaimName": "shared"}]
        for name in ("first", "second"):
            await store.create(POD, pod(name, resourceClaims=uses), "default")
        await settle()
        assert "in the process of being allocated" in await why(store, "second")
        await store.delete(POD, "first", "default", NOW)
        unwritable.open = True
        await settle()
        assert await where(store, "second") == "node-a"


async def test_a_partition_whose_counters_are_still_used_is_left_out_and_given_when_the_other_pod_has_ended():
    """The claim of the whole GPU is cleared by hand while its Pod runs."""
    async with scheduled() as store:
        await add_node(store, node("node-a"))
        await store.create(DEVICE_CLASS, example("device-class.yaml")[0])
        driver = SimulatedGpus("node-a", Path("cdi"), "partitions")
        [pool] = driver.pools()
        gpu = [each for each in pool.devices if each["attributes"]["parent"]["string"] == "gpu-0"]
        for name, part in (("counters", {"sharedCounters": pool.counters[:1]}), ("devices", {"devices": gpu})):
            of = {"name": "node-a", "generation": 1, "resourceSliceCount": 2}
            spec = {"driver": driver.name, "nodeName": "node-a", "pool": of, **part}
            await store.create(RESOURCE_SLICE, {"metadata": {"name": name}, "spec": spec})
        whole, half = ({"selectors": [{"cel": {"expression": PROFILE % each}}]} for each in ("full", "half"))
        await with_claim(store, "whole", **whole)
        await settle()
        assert await given(store, "whole") == ["gpu-0"]
        cleared = {"status": {"allocation": None, "reservedFor": None}}
        await store.patch(RESOURCE_CLAIM, "whole", "default", fields=cleared, subresource="status")
        await with_claim(store, "half", **half)
        await settle()
        assert "cannot allocate all claims" in (await why(store, "pod-half") or "")
        agent = store.acting_as(Caller(user="system:node:node-a"))
        await agent.delete(POD, "pod-whole", "default", NOW)
        await settle()
        assert await where(store, "pod-half") == "node-a"
