"""Evictions on the real store in virtual time."""

import asyncio

import pytest

from headrace.api.kinds import NAMESPACE, POD, RESOURCE_CLAIM
from headrace.devices.tainted_claims import DeviceTaintEvictions
from tests.runtime.home import controllers, open_store, running
from tests.scheduling.scene import with_claim, with_devices

pytestmark = pytest.mark.looptime
TOLERATED = {"key": "repair", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}


async def test_a_pod_that_is_bound_after_its_claim_was_allocated_leaves_when_its_toleration_is_over():
    """While the claim is allocated there is nobody to evict yet; nothing of the claim changes after that."""
    store = await open_store()
    await store.create(NAMESPACE, {"metadata": {"name": "default"}})
    manager = controllers(store)
    manager.add(DeviceTaintEvictions(manager.informers))
    async with running(manager):
        await with_devices(store, taints=[{"key": "repair", "effect": "NoExecute"}])
        await with_claim(store, "c")
        pod = await store.get(POD, "pod-c", "default")
        result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-a", "device": "gpu-0"}
        user = {"resource": "pods", "name": "pod-c", "uid": pod["metadata"]["uid"]}
        allocation = {"devices": {"results": [{**result, "tolerations": [TOLERATED]}]}}
        status = {"status": {"allocation": allocation, "reservedFor": [user]}}
        await store.patch(RESOURCE_CLAIM, "c", "default", fields=status, subresource="status")
        await asyncio.sleep(5)
        binding = {"target": {"kind": "Node", "name": "node-a"}}
        await store.create_subresource(POD, "pod-c", "default", "binding", binding)
        await asyncio.sleep(40)
        assert "deletionTimestamp" not in (await store.get(POD, "pod-c", "default"))["metadata"]
        await asyncio.sleep(40)
        assert "deletionTimestamp" in (await store.get(POD, "pod-c", "default"))["metadata"]
