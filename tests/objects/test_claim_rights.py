"""Who may write which part of a ResourceClaim's status, in Kubernetes' words."""

import asyncio

import pytest

from headrace.api.kinds import NAMESPACE, RESOURCE_CLAIM
from headrace.apiserver.authorization import may_write_part
from headrace.apiserver.identity import identity_of
from headrace.objects.caller import Caller
from headrace.store.protocol import Invalid
from tests.runtime.home import open_store

RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-a", "device": "gpu-0"}
ON_NODE_A = {
    "devices": {"results": [RESULT]},
    "nodeSelector": {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]},
        ]
    },
}
ANYWHERE = {"devices": {"results": [RESULT]}}
READY = {"driver": "gpu.example.com", "pool": "node-a", "device": "gpu-0", "data": {"ip": "10.0.0.1"}}
CLAIM = {
    "metadata": {"name": "c"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}},
}


def caller(user, *groups):
    identity = identity_of(user, groups)
    may = lambda verb, resource, name: may_write_part(identity, verb, resource, name)  # noqa: E731
    return Caller(user=user, may=may, node=identity.node)


NODE_A = caller("system:node:node-a", "system:nodes")
NODE_B = caller("system:node:node-b", "system:nodes")
CONTROLLER = caller("system:headrace", "headrace:controllers")
NOBODY = caller("somebody")


async def write(who, allocation, status):
    store = await open_store()
    await store.create(NAMESPACE, {"metadata": {"name": "default"}})
    await store.create(RESOURCE_CLAIM, CLAIM, "default")
    if allocation is not None:
        fields = {"status": {"allocation": allocation}}
        await store.patch(RESOURCE_CLAIM, "c", "default", fields=fields, subresource="status")
    await store.acting_as(who).patch(RESOURCE_CLAIM, "c", "default", fields={"status": status}, subresource="status")


@pytest.mark.parametrize(
    ("who", "allocation", "status"),
    [
        pytest.param(CONTROLLER, None, {"allocation": ON_NODE_A}, id="the scheduler allocates"),
        pytest.param(CONTROLLER, ANYWHERE, {"devices": [READY]}, id="a controller tells of devices of any node"),
        pytest.param(NODE_A, ON_NODE_A, {"devices": [READY]}, id="a node tells of devices allocated on it"),
        pytest.param(NODE_B, ON_NODE_A, {}, id="who changes nothing needs no right"),
    ],
)
def test_allowed(who, allocation, status):
    asyncio.run(write(who, allocation, status))


@pytest.mark.parametrize(
    ("who", "allocation", "status", "field", "words"),
    [
        pytest.param(
            NODE_A,
            None,
            {"allocation": ON_NODE_A},
            "status.allocation",
            'requires resource="resourceclaims/binding", verb="patch" permission',
            id="a node does not allocate",
        ),
        pytest.param(
            NODE_B,
            ON_NODE_A,
            {"devices": [READY]},
            "status.devices",
            'requires resource="resourceclaims/driver", verb="[arbitrary-node:patch]" permission',
            id="a node does not speak for another",
        ),
        pytest.param(
            NODE_A,
            ANYWHERE,
            {"devices": [READY]},
            "status.devices",
            'verb="[arbitrary-node:patch]"',
            id="nor for devices that are of no node",
        ),
        pytest.param(
            NOBODY, ON_NODE_A, {"allocation": None}, "status.allocation", "resourceclaims/binding", id="nor release"
        ),
    ],
)
def test_refused(who, allocation, status, field, words):
    with pytest.raises(Invalid) as refusal:
        asyncio.run(write(who, allocation, status))
    assert field in str(refusal.value)
    assert words in str(refusal.value)
