"""A Pod whose device driver is not there yet: waited for in silence while drivers and agent start, told after that."""

import asyncio

import pytest

from headrace.api.kinds import EVENT, POD, RESOURCE_CLAIM
from headrace.api.objects import uid_of
from tests.node.agent.home import container, create, open_store, pod, running_agent, wall
from tests.node.agent.simulated_runtime import SimulatedRuntime

pytestmark = pytest.mark.looptime
DRIVER = "gpu.example.com"
WORDS = (
    f"driver {DRIVER} is not registered on this node: "
    f"is it running there? One that ships is started by `headrace driver {DRIVER}`"
)


async def waiting_pod(store):
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}
    await store.create(RESOURCE_CLAIM, {"metadata": {"name": "claim"}, "spec": spec}, "default")
    claims = [{"name": "gpu", "resourceClaimName": "claim"}]
    uses = container(resources={"claims": [{"name": "gpu"}]})
    created = await create(store, pod(containers=[uses], resourceClaims=claims))
    result = {"request": "gpu", "driver": DRIVER, "pool": "node-a", "device": "gpu-0"}
    users = [{"resource": "pods", "name": "p", "uid": uid_of(created)}]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
    await store.patch(RESOURCE_CLAIM, "claim", "default", fields={"status": status}, subresource="status")


async def told(store):
    found = (await store.list(EVENT, "default", fields="involvedObject.name=p")).items
    return [each["message"] for each in found if each["reason"] == "FailedPrepareDynamicResources"]


async def test_a_driver_that_is_not_there_is_told_after_five_seconds_and_once(tmp_path):
    store = await open_store()
    await waiting_pod(store)
    async with running_agent(store, SimulatedRuntime(wall), tmp_path):
        await asyncio.sleep(4)
        assert await told(store) == []
        [state] = (await store.get(POD, "p", "default"))["status"]["containerStatuses"]
        assert WORDS in state["state"]["waiting"]["message"], "the Pod's status tells it all the while"
        await asyncio.sleep(60)
        assert await told(store) == [WORDS]
