"""Latency of API calls while the scheduler meets claims it has never seen, on 1000 nodes of 8 devices, 100 watchers.

    python -m bench.api.tail [--nodes 1000] [--watchers 100] [--seconds 10]

The server is `headrace server` with its controllers: allocation runs on the event loop that answers. Watchers are a
process of their own, so that a call's time is not that of the one who measures it. Nodes are objects.
"""

import argparse
import asyncio
import contextlib
import itertools
import sys
import time
from pathlib import Path
from typing import Any

from bench.api.servers import headrace
from headrace.api.kinds import (
    CONFIG_MAP,
    DEVICE_CLASS,
    NODE,
    POD,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
from headrace.client.http import MERGE_PATCH, Client
from headrace.client.kubeconfig import Cluster, load
from headrace.client.paths import collection_path, object_path

GPU = "gpu.example.com"
DEVICES = 8
CALLERS = 4
PAUSE_SECONDS = 0.01
SIGHT_SECONDS = 0.5
SPACE = "default"

Call = tuple[str, float]
"""Which call, and how many seconds it took."""


async def fleet(client: Client, nodes: int) -> None:
    """Nodes that are ready, with their slices; and the class."""
    selector = {"cel": {"expression": f'device.driver == "{GPU}"'}}
    spec = {"selectors": [selector]}
    await client.request("POST", collection_path(DEVICE_CLASS), body={"metadata": {"name": GPU}, "spec": spec})
    numbers = iter(range(nodes))

    async def some() -> None:
        for number in numbers:
            name = f"node-{number}"
            await client.request("POST", collection_path(RESOURCE_SLICE), body=_slice(name))
            amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
            status = {"capacity": amounts, "conditions": [{"type": "Ready", "status": "True", "reason": "Bench"}]}
            await client.request("POST", collection_path(NODE), body={"metadata": {"name": name}, "status": status})

    await asyncio.gather(*(some() for _ in range(16)))


def _slice(node: str) -> dict[str, Any]:
    devices = [
        {
            "name": f"gpu-{at}",
            "attributes": {"model": {"string": "A100"}, "index": {"int": at}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for at in range(DEVICES)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": GPU, "nodeName": node, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"{node}-gpus"}, "spec": spec}


async def unseen_claims(client: Client, until: float) -> int:
    """A Pod with a selector of its own, again and again: each is compiled and tried on every device. How many."""
    for number in itertools.count():
        if time.monotonic() >= until:
            return number
        expression = f'device.attributes["{GPU}"].index >= {number % DEVICES} && {number} >= 0'
        exactly = {"deviceClassName": GPU, "selectors": [{"cel": {"expression": expression}}]}
        claim = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
        template = {"metadata": {"name": f"unseen-{number}"}, "spec": {"spec": claim}}
        await client.request("POST", collection_path(RESOURCE_CLAIM_TEMPLATE, SPACE), body=template)
        asked = {"requests": {"cpu": "100m", "memory": "64Mi"}, "claims": [{"name": "gpu"}]}
        spec = {
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": f"unseen-{number}"}],
            "containers": [{"name": "main", "image": "x", "resources": asked}],
        }
        body = {"metadata": {"name": f"unseen-{number}"}, "spec": spec}
        await client.request("POST", collection_path(POD, SPACE), body=body)
        await asyncio.sleep(SIGHT_SECONDS)
    raise AssertionError("count has no end")


async def calls(client: Client, caller: int, until: float) -> list[Call]:
    """Create, get, patch and list by turns, with pauses: what is measured is the wait, not the rate."""
    seen: list[Call] = []

    async def timed(name: str, *request: Any, **more: Any) -> None:
        began = time.perf_counter()
        await client.request(*request, **more)
        seen.append((name, time.perf_counter() - began))

    for number in itertools.count():
        if time.monotonic() >= until:
            return seen
        name = f"call-{caller}-{until:.0f}-{number}"
        path = object_path(CONFIG_MAP, SPACE, name)
        body = {"metadata": {"name": name}, "data": {"key": "x" * 200}}
        await timed("create", "POST", collection_path(CONFIG_MAP, SPACE), body=body)
        await timed("get", "GET", path)
        await timed("patch", "PATCH", path, body={"data": {"more": "y"}}, content_type=MERGE_PATCH)
        await timed("list", "GET", collection_path(CONFIG_MAP, SPACE), query={"limit": "50"})
        await asyncio.sleep(PAUSE_SECONDS)
    raise AssertionError("count has no end")


async def phase(clients: list[Client], seconds: float, *, unseen: bool) -> tuple[list[Call], int]:
    until = time.monotonic() + seconds
    callers = [calls(client, number, until) for number, client in enumerate(clients[1:])]
    sights = unseen_claims(clients[0], until) if unseen else _none()
    made, *found = await asyncio.gather(sights, *callers)
    return [call for each in found for call in each], made


async def _none() -> int:
    return 0


async def watch(cluster: Cluster, watchers: int) -> None:
    """Half of them follow Pods, half ConfigMaps, until the process is ended."""
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(cluster)) for _ in range(max(1, watchers // 50))]

        async def follow(number: int) -> None:
            path = collection_path(CONFIG_MAP if number % 2 else POD, SPACE)
            async for _ in clients[number % len(clients)].documents(path, query={"watch": "true"}):
                pass

        print("watching", flush=True)
        await asyncio.gather(*(follow(number) for number in range(watchers)))


async def run(kubeconfig: Path, cluster: Cluster, nodes: int, watchers: int, seconds: float) -> None:
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(cluster)) for _ in range(1 + CALLERS)]
        began = time.monotonic()
        await fleet(clients[0], nodes)
        print(f"{nodes} nodes and slices made in {time.monotonic() - began:.1f} s", file=sys.stderr)
        watching = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.api.tail", "--watch", str(kubeconfig), "--watchers", str(watchers)),
            stdout=asyncio.subprocess.PIPE,
        )
        assert watching.stdout is not None
        try:
            await watching.stdout.readline()
            await asyncio.sleep(1)
            quiet, _ = await phase(clients, seconds, unseen=False)
            busy, made = await phase(clients, seconds, unseen=True)
            bound = await _bound(clients[0], made)
        finally:
            watching.kill()
            await watching.wait()
    print(f"{watchers} watchers; {made} Pods with a selector never seen before on {nodes} nodes x {DEVICES}", end="")
    print(f" ({bound} of them bound)\n")
    print("| call | p50 / p99 / worst, nothing to allocate | p50 / p99 / worst, while allocating |")
    print("|---|---|---|")
    for name in ("create", "get", "patch", "list", "all"):
        print(f"| {name} | {_told(quiet, name)} | {_told(busy, name)} |")


async def _bound(client: Client, made: int) -> int:
    """How many have a node, a little later."""
    found = 0
    for _ in range(50):
        pods = (await client.request("GET", collection_path(POD, SPACE)))["items"]
        found = sum(1 for pod in pods if pod["spec"].get("nodeName"))
        if found == made:
            break
        await asyncio.sleep(0.1)
    return found


def _told(found: list[Call], name: str) -> str:
    ordered = sorted(seconds * 1e3 for call, seconds in found if name in (call, "all"))
    middle, tail = ordered[len(ordered) // 2], ordered[int(0.99 * len(ordered))]
    return f"{middle:.1f} / {tail:.1f} / {ordered[-1]:.0f} ms ({len(ordered)})"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--nodes", type=int, default=1000)
    arguments.add_argument("--watchers", type=int, default=100)
    arguments.add_argument("--seconds", type=float, default=10.0, help="of each of the two phases")
    arguments.add_argument("--watch", type=Path, help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.watch:
        asyncio.run(watch(load(chosen.watch), chosen.watchers))
        return
    with headrace(controllers=True) as side:
        kubeconfig = side.directory / "kubeconfig"
        asyncio.run(run(kubeconfig, side.cluster, chosen.nodes, chosen.watchers, chosen.seconds))


if __name__ == "__main__":
    main()
