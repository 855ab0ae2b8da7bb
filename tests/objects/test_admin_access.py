"""Admin access to devices in use: only in namespaces that an administrator has labelled, in Kubernetes' words."""

import asyncio

import pytest

from headrace.api.kinds import NAMESPACE, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from headrace.store.protocol import Invalid
from tests.runtime.home import open_store

LABEL = "resource.kubernetes.io/admin-access"
WORDS = f"admin access to devices requires the `{LABEL}: true` label on the containing namespace"
GRANTED = {
    "devices": {"results": [{"request": "g", "driver": "a.com", "pool": "p", "device": "d", "adminAccess": True}]}
}


def spec(admin=True):
    return {
        "devices": {
            "requests": [
                {"name": "first", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]},
                {"name": "g", "exactly": {"deviceClassName": "gpu", "adminAccess": admin}},
            ]
        }
    }


def claim(admin=True):
    return {"metadata": {"name": "c"}, "spec": spec(admin)}


async def store_with(labels):
    store = await open_store()
    await store.create(NAMESPACE, {"metadata": {"name": "default", "labels": labels}})
    return store


def refused(labels, kind, obj):
    async def create():
        await (await store_with(labels)).create(kind, obj, "default")

    with pytest.raises(Invalid) as raised:
        asyncio.run(create())
    assert [(each.field, each.message) for each in raised.value.causes] == [
        ("spec.devices.requests[1].adminAccess", f"Forbidden: {WORDS}")
    ]


@pytest.mark.parametrize(
    "labels", [pytest.param({}, id="no label"), pytest.param({LABEL: "True"}, id="a label that is not `true`")]
)
def test_a_claim_or_template_in_a_namespace_that_is_not_labelled_gets_no_admin_access(labels):
    refused(labels, RESOURCE_CLAIM, claim())
    refused(labels, RESOURCE_CLAIM_TEMPLATE, {"metadata": {"name": "t"}, "spec": {"spec": spec()}})


def test_a_labelled_namespace_may_and_a_claim_without_admin_access_needs_no_label():
    async def create():
        await (await store_with({LABEL: "true"})).create(RESOURCE_CLAIM, claim(), "default")
        await (await store_with({})).create(RESOURCE_CLAIM, claim(admin=False), "default")

    asyncio.run(create())


def test_a_claim_whose_namespace_lost_the_label_is_not_allocated_but_one_that_was_stays_usable():
    async def allocate(label_is_gone_before):
        store = await store_with({LABEL: "true"})
        await store.create(RESOURCE_CLAIM, claim(), "default")
        for takes_label in (label_is_gone_before, not label_is_gone_before):
            if takes_label:
                await store.patch(NAMESPACE, "default", fields={"metadata": {"labels": {LABEL: None}}})
            else:
                fields = {"status": {"allocation": GRANTED}}
                await store.patch(RESOURCE_CLAIM, "c", "default", fields=fields, subresource="status")
        told = {"devices": [{"driver": "a.com", "pool": "p", "device": "d"}]}
        await store.patch(RESOURCE_CLAIM, "c", "default", fields={"status": told}, subresource="status")

    asyncio.run(allocate(label_is_gone_before=False))
    with pytest.raises(Invalid) as raised:
        asyncio.run(allocate(label_is_gone_before=True))
    assert f"status.allocation.devices.results[0].adminAccess: Forbidden: {WORDS}" in str(raised.value)
