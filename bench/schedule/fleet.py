"""Nodes that are objects, with devices and nothing behind them, and Pods that claim one device each from a template."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from headrace.api.kinds import DEVICE_CLASS, NODE, POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from headrace.client.http import Client
from headrace.client.paths import collection_path

GPU = "gpu.example.com"
SPACE = "default"
CREATORS = 16
READY_SECONDS = 60.0
PAGE = 500


async def make(client: Client, nodes: int, devices: int) -> None:
    """Nodes with their slices, the class and the template; returns when every node may be scheduled to."""
    selector = {"cel": {"expression": f'device.driver == "{GPU}"'}}
    device_class = {"metadata": {"name": GPU}, "spec": {"selectors": [selector]}}
    await client.request("POST", collection_path(DEVICE_CLASS), body=device_class)
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": GPU}}]}}
    template = {"metadata": {"name": "one-gpu"}, "spec": {"spec": spec}}
    await client.request("POST", collection_path(RESOURCE_CLAIM_TEMPLATE, SPACE), body=template)

    async def node(number: int) -> None:
        name = f"node-{number}"
        await client.request("POST", collection_path(RESOURCE_SLICE), body=_slice(name, devices))
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "Bench"}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        await client.request("POST", collection_path(NODE), body={"metadata": {"name": name}, "status": status})

    await side_by_side(nodes, node)
    deadline = time.monotonic() + READY_SECONDS
    while any((each.get("spec") or {}).get("taints") for each in await _items(client, collection_path(NODE))):
        assert time.monotonic() < deadline, "nodes are still tainted"
        await asyncio.sleep(0.2)


async def create_pods(client: Client, pods: int) -> None:
    async def one(number: int) -> None:
        await client.request("POST", collection_path(POD, SPACE), body=_pod(number))

    await side_by_side(pods, one)


async def all_bound(client: Client, pods: int, since: str) -> None:
    """Until the watch has told that each of so many Pods has a node. A server may end it: it goes on where it was."""
    done: set[str] = set()
    while True:
        query = {"watch": "true", "resourceVersion": since}
        async for event in client.documents(collection_path(POD, SPACE), query=query):
            meta = event["object"]["metadata"]
            since = meta["resourceVersion"]
            if event["object"]["spec"].get("nodeName"):
                done.add(meta["name"])
            if len(done) == pods:
                return


async def pod_revision(client: Client) -> str:
    listing = await client.request("GET", collection_path(POD, SPACE), query={"limit": "1"})
    return str(listing["metadata"]["resourceVersion"])


async def check(client: Client, pods: int) -> None:
    """Every Pod is bound, and to the node that its claim's one device is on; no device is given twice."""
    nodes = {
        each["metadata"]["uid"]: each["spec"].get("nodeName")
        for each in await _items(client, collection_path(POD, SPACE))
    }
    assert len(nodes) == pods, "not all Pods are there"
    assert all(nodes.values()), "not all Pods are bound"
    given = set()
    claims = await _items(client, collection_path(RESOURCE_CLAIM, SPACE))
    for claim in claims:
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        (consumer,) = claim["status"]["reservedFor"]
        assert nodes[consumer["uid"]] == result["pool"], "a Pod runs where its device is not"
        given.add((result["driver"], result["pool"], result["device"]))
    assert len(given) == len(claims) == pods, "a device was given twice, or not all were given"


async def side_by_side(count: int, work: Callable[[int], Awaitable[None]]) -> None:
    numbers = iter(range(count))

    async def some() -> None:
        for number in numbers:
            await work(number)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CREATORS):
            tasks.create_task(some())


async def _items(client: Client, path: str) -> list[Any]:
    found, resume = [], ""
    while True:
        page = await client.request("GET", path, query={"limit": str(PAGE), **({"continue": resume} if resume else {})})
        found += page["items"]
        resume = page["metadata"].get("continue") or ""
        if not resume:
            return found


def _slice(node: str, devices: int) -> dict[str, Any]:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    offered = [
        {
            "name": f"gpu-{at}",
            "attributes": {"model": {"string": "A100"}, "index": {"int": at}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for at in range(devices)
    ]
    spec = {"driver": GPU, "nodeName": node, "pool": pool, "devices": offered}
    return {"metadata": {"name": f"{node}-gpus"}, "spec": spec}


def _pod(number: int) -> dict[str, Any]:
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}, "claims": [{"name": "gpu"}]}
    return {
        "metadata": {"name": f"pod-{number}"},
        "spec": {
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
            "containers": [{"name": "main", "image": "x", "resources": resources}],
        },
    }
