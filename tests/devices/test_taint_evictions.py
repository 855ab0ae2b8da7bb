"""Evictions on the real store in virtual time."""

import asyncio

import pytest

from headrace.api.kinds import DEVICE_TAINT_RULE, NAMESPACE, POD, RESOURCE_CLAIM
from headrace.devices.evictions import Seen
from headrace.devices.tainted_claims import DeviceTaintEvictions, DeviceTaintRuleStatus
from tests.runtime.home import controllers, open_store, running
from tests.scheduling.scene import with_claim, with_devices

pytestmark = pytest.mark.looptime
TOLERATED = {"key": "repair", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}


async def allocated_claim(store, name, *tolerations):
    await with_claim(store, name)
    pod = await store.get(POD, f"pod-{name}", "default")
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-a", "device": "gpu-0"}
    user = {"resource": "pods", "name": f"pod-{name}", "uid": pod["metadata"]["uid"]}
    allocation = {"devices": {"results": [{**result, "tolerations": list(tolerations)}]}}
    status = {"status": {"allocation": allocation, "reservedFor": [user]}}
    await store.patch(RESOURCE_CLAIM, name, "default", fields=status, subresource="status")


async def test_a_pod_that_is_bound_after_its_claim_was_allocated_leaves_when_its_toleration_is_over():
    """While the claim is allocated there is nobody to evict yet; nothing of the claim changes after that."""
    store = await open_store()
    await store.create(NAMESPACE, {"metadata": {"name": "default"}})
    manager = controllers(store)
    manager.add(DeviceTaintEvictions(manager.informers))
    async with running(manager):
        await with_devices(store, taints=[{"key": "repair", "effect": "NoExecute"}])
        await allocated_claim(store, "c", TOLERATED)
        await asyncio.sleep(5)
        binding = {"target": {"kind": "Node", "name": "node-a"}}
        await store.create_subresource(POD, "pod-c", "default", "binding", binding)
        await asyncio.sleep(40)
        assert "deletionTimestamp" not in (await store.get(POD, "pod-c", "default"))["metadata"]
        await asyncio.sleep(40)
        assert "deletionTimestamp" in (await store.get(POD, "pod-c", "default"))["metadata"]


async def test_an_evicted_pod_is_counted_once_and_for_the_taint_that_was_due_alone():
    store = await open_store()
    await store.create(NAMESPACE, {"metadata": {"name": "default"}})
    manager = controllers(store)
    evictions = DeviceTaintEvictions(manager.informers)
    manager.add(evictions)
    manager.add(DeviceTaintRuleStatus(manager.informers, evictions.evicted))
    async with running(manager):
        await with_devices(
            store, taints=[{"key": "repair", "effect": "NoExecute"}, {"key": "x", "effect": "NoSchedule"}]
        )
        await allocated_claim(store, "c", {"key": "repair", "operator": "Exists", "effect": "NoExecute"})
        binding = {"target": {"kind": "Node", "name": "node-a"}}
        await store.create_subresource(POD, "pod-c", "default", "binding", binding)
        for name in ("due", "watching"):
            taint = {"key": name, "effect": "NoExecute" if name == "due" else "None"}
            spec = {"deviceSelector": {"driver": "gpu.example.com"}, "taint": taint}
            await store.create(DEVICE_TAINT_RULE, {"metadata": {"name": name}, "spec": spec})
        await asyncio.sleep(10)
        assert "deletionTimestamp" in (await store.get(POD, "pod-c", "default"))["metadata"]
        assert evictions.evicted == {"DeviceTaintRule due": 1}
        [condition] = (await store.get(DEVICE_TAINT_RULE, "due"))["status"]["conditions"]
        assert condition["message"] == "1 pod evicted since starting the controller."


async def test_an_eviction_that_is_planned_again_is_counted_once():
    manager = controllers(await open_store())
    evictions = DeviceTaintEvictions(manager.informers)
    pod = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {"nodeName": "a"}}
    claim = {"metadata": {"name": "c"}, "status": {"allocation": {"devices": {"results": [{"device": "x"}]}}}}
    seen = Seen(claim, {"u": pod}, [[({"key": "k", "effect": "NoExecute"}, "rule")]])
    for _ in range(2):
        assert evictions.plan(seen, 0.0)
    assert evictions.evicted == {}
    leaving = {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "1970-01-01T00:00:00Z"}}
    for before, after in ((pod, leaving), (leaving, None)):
        evictions._pod_changed(before, after)
    assert evictions.evicted == {"rule": 1}
