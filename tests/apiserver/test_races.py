"""Many callers race over HTTP for one node's capacity: the node is never promised twice.

`HEADRACE_RACES` sets how many wishes race (600 by default; a release runs 10,000).
"""

import asyncio
import os
from pathlib import Path
from typing import Any

from headrace.api.kinds import NODE, POD
from headrace.objects.local import Caller
from headrace.store.kubernetes import KubernetesStore
from headrace.store.protocol import Deletion, Refused
from tests.apiserver.serving import Serving, serving

RACES = int(os.environ.get("HEADRACE_RACES", "600"))
CALLERS = 16
CPU_MILLICORES = 1000
WISH_MILLICORES = 300
FIT = CPU_MILLICORES // WISH_MILLICORES


def pod(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": f"{WISH_MILLICORES}m"}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


async def bound(server: Serving) -> int:
    listing = await server.store.list(POD, "default", fields="spec.nodeName=n")
    return len(listing.items)


async def race(server: Serving, store: KubernetesStore, caller: int, rounds: int) -> tuple[int, int]:
    """Bind a Pod of one's own, look, and let it go again; how often that was granted and refused."""
    granted = refused = 0
    agent = server.store.acting_as(Caller(user="system:node:n"))  # a delete by the agent ends the charge
    binding = {"target": {"kind": "Node", "name": "n"}}
    for number in range(rounds):
        name = f"p-{caller}-{number}"
        await store.create(POD, pod(name), "default")
        try:
            await store.create_subresource(POD, name, "default", "binding", binding)
            granted += 1
        except Refused as refusal:
            refused += "cpu" in refusal.shortfall.missing
        assert await bound(server) <= FIT
        await agent.delete(POD, name, "default", Deletion(grace_seconds=0))
    return granted, refused


async def test_no_race_promises_a_node_twice(tmp_path: Path) -> None:
    async with serving(tmp_path, durable=True) as server, server.remote() as store:
        await store.create(NODE, {"metadata": {"name": "n"}})
        capacity = {"cpu": f"{CPU_MILLICORES}m", "memory": "1Gi", "pods": "1000"}
        status = {"status": {"capacity": capacity, "allocatable": capacity}}
        await store.patch(NODE, "n", fields=status, subresource="status")
        rounds = RACES // CALLERS
        results = await asyncio.gather(*(race(server, store, caller, rounds) for caller in range(CALLERS)))
    granted, refused = (sum(result[at] for result in results) for at in (0, 1))
    assert granted + refused == rounds * CALLERS
    assert granted > FIT, "what was let go was never granted again"
    assert refused, "nobody was refused, so nobody raced"
