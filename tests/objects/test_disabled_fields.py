"""Fields behind gates that Kubernetes 1.37 leaves off are dropped, so that who fills them in loses no device."""

import asyncio

import pytest

from headrace.api.kinds import DEVICE_CLASS, NAMESPACE, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from headrace.store.protocol import Invalid
from tests.runtime.home import open_store

DERIVED = [{"name": "a.com/zone", "expression": '"x"'}]
PLAIN = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}


def devices(more):
    exactly = {"name": "g", "exactly": {**PLAIN, **more}}
    return {"devices": {"requests": [exactly, {"name": "h", "firstAvailable": [{"name": "s", **PLAIN, **more}]}]}}


def resource_slice(attributes=None, **more):
    device = {"name": "d", "consumesCounters": [{"counterSet": "s", "counters": {"a": {"value": "1"}}, **more}]}
    device |= {"nodeAllocatableResources": {"cpu": {}}} if more else {}
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "a.com", "nodeName": "n", "pool": pool, "devices": [device]}
    if attributes:
        device["attributes"] = attributes
    if more:
        spec |= {"skipNodeOperations": ["NodePrepareResources"], "partitionTypeAttribute": "a.com/type"}
    return {"metadata": {"name": "s"}, "spec": spec}


async def open_home():
    store = await open_store()
    await store.create(NAMESPACE, {"metadata": {"name": "default"}})
    await store.create(DEVICE_CLASS, {"metadata": {"name": "gpu"}})
    return store


def test_a_claim_and_a_template_lose_derived_attributes():
    async def run():
        store = await open_home()
        claim = {"metadata": {"name": "c"}, "spec": devices({"derivedAttributes": DERIVED})}
        template = {"metadata": {"name": "t"}, "spec": {"spec": devices({"derivedAttributes": DERIVED})}}
        made = await store.create(RESOURCE_CLAIM, claim, "default")
        assert made["spec"] == devices({})
        made = await store.create(RESOURCE_CLAIM_TEMPLATE, template, "default")
        assert made["spec"]["spec"] == devices({})

    asyncio.run(run())


def test_a_slice_loses_groups_resources_of_nodes_and_operations_to_skip_when_new_and_when_changed():
    async def run():
        store = await open_home()
        made = await store.create(RESOURCE_SLICE, resource_slice(compatibilityGroups=["a"]))
        assert made["spec"] == resource_slice()["spec"]
        made["spec"] = resource_slice(compatibilityGroups=["b"])["spec"]
        made["spec"]["pool"]["generation"] = 2
        changed = await store.replace(RESOURCE_SLICE, "s", "", made)
        assert changed["spec"]["devices"] == resource_slice()["spec"]["devices"]
        assert "skipNodeOperations" not in changed["spec"]

    asyncio.run(run())


def test_an_attribute_that_is_only_a_list_is_refused_and_the_error_names_what_it_may_be():
    async def run():
        await (await open_home()).create(RESOURCE_SLICE, resource_slice({"x": {"strings": ["a", "b"]}}))

    with pytest.raises(Invalid, match=r"attributes\[x\]: .*must specify one of: `int`, `bool`, `string`, `version`"):
        asyncio.run(run())
