"""Pods with one-device claims from a template, from create to bound, through the embedded home's controllers.

    python -m bench.schedule [--pods 800] [--nodes 100] [--devices 8]

The store is the one of `headrace up`: a file, one commit thread, fsync. Nothing runs the Pods: nodes are objects.
"""

import argparse
import asyncio
import cProfile
import pstats
import random
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from headrace.api.kinds import (
    DEVICE_CLASS,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
from headrace.devices.controller import Claims, PodClaims
from headrace.objects.home import Caller
from headrace.objects.local import LocalStore
from headrace.runtime.clock import LoopClock
from headrace.runtime.manager import ControllerManager
from headrace.runtime.metrics import ControllerMetrics
from headrace.scheduling.controller import Scheduler
from headrace.serve.controllers import WRITERS
from headrace.serve.shipped import install
from headrace.store.sqlite import open_rows

GPU = "gpu.example.com"
CREATORS = 16
LIMIT_SECONDS = 60.0


async def fleet(store: LocalStore, nodes: int, devices: int) -> None:
    """Nodes with their slices, the class and the template."""
    await store.create(NAMESPACE, {"metadata": {"name": "default"}})
    selector = {"cel": {"expression": f'device.driver == "{GPU}"'}}
    await store.create(DEVICE_CLASS, {"metadata": {"name": GPU}, "spec": {"selectors": [selector]}})
    for number in range(nodes):
        name = f"node-{number}"
        await store.create(NODE, {"metadata": {"name": name}})
        status = {"capacity": {"cpu": "64", "memory": "256Gi", "pods": "110"}}
        await store.patch(NODE, name, fields={"status": status}, subresource="status")
        await store.create(RESOURCE_SLICE, _slice(name, devices))
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": GPU}}]}}
    await store.create(RESOURCE_CLAIM_TEMPLATE, {"metadata": {"name": "one-gpu"}, "spec": {"spec": spec}}, "default")


def _slice(node: str, devices: int) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{node}-gpus"},
        "spec": {
            "driver": GPU,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": f"gpu-{at}",
                    "attributes": {"model": {"string": "A100"}, "index": {"int": at}},
                    "capacity": {"memory": {"value": "80Gi"}},
                }
                for at in range(devices)
            ],
        },
    }


def _pod(number: int) -> dict[str, Any]:
    return {
        "metadata": {"name": f"pod-{number}"},
        "spec": {
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
            "containers": [
                {
                    "name": "main",
                    "image": "x",
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "claims": [{"name": "gpu"}]},
                }
            ],
        },
    }


async def create_all(store: LocalStore, pods: int) -> None:
    numbers = iter(range(pods))

    async def creator() -> None:
        for number in numbers:
            await store.create(POD, _pod(number), "default")

    await asyncio.gather(*(creator() for _ in range(CREATORS)))


async def bound(store: LocalStore, pods: int) -> None:
    """Until the watch has told that all are bound."""
    done: set[str] = set()
    async with asyncio.timeout(LIMIT_SECONDS):
        async for event in store.watch(POD, since="1"):
            if (event.object.get("spec") or {}).get("nodeName"):
                done.add(event.object["metadata"]["name"])
            if len(done) == pods:
                return


def _controllers(store: LocalStore) -> ControllerManager:
    """Those that take part: without agents, the others would only find the nodes dead."""
    manager = ControllerManager(
        store,
        clock=LoopClock(time.time),
        random=random.random,
        metrics=ControllerMetrics(CollectorRegistry()),
        log=structlog.get_logger(),
    )

    async def yield_now() -> None:
        await asyncio.sleep(0)

    clock = LoopClock(time.time)
    scheduler = Scheduler(manager.informers, clock=clock, new_id=lambda: str(uuid.uuid4()), yield_now=yield_now)
    manager.add(scheduler, workers=WRITERS)
    manager.add(PodClaims(manager.informers), workers=WRITERS)
    manager.add(Claims(manager.informers, store), workers=WRITERS)
    return manager


async def measure(path: Path, pods: int, nodes: int, devices: int) -> tuple[float, float]:
    """Seconds from the first create to the last binding, and the process's CPU seconds in that time."""
    rows = await open_rows(path, on_fatal=print)
    store = LocalStore(rows, wall=time.time, new_uid=lambda: str(uuid.uuid4()), caller=Caller())
    await install(store)
    await fleet(store, nodes, devices)
    manager = _controllers(store)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(manager.run())
        await manager.wait_until_synced()
        began, cpu = time.perf_counter(), time.process_time()
        watching = tasks.create_task(bound(store, pods))
        await create_all(store, pods)
        await watching
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        manager.stop()
    claims = (await store.list(RESOURCE_CLAIM, "default")).items
    given = [
        (each["pool"], each["device"])
        for claim in claims
        for each in ((claim.get("status") or {}).get("allocation") or {"devices": {}})["devices"].get("results", ())
    ]
    assert len(given) == len(set(given)) == pods, "a device was given twice, or not all were given"
    await rows.close()
    return seconds, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=800)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--profile", action="store_true", help="Also say where the time of the event loop goes.")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    random.seed(1)
    with tempfile.TemporaryDirectory() as directory:
        profile = cProfile.Profile()
        if options.profile:
            profile.enable()
        seconds, cpu = asyncio.run(measure(Path(directory) / "b.db", options.pods, options.nodes, options.devices))
        profile.disable()
    print(f"{options.pods} Pods on {options.nodes} nodes x {options.devices}: {seconds:.2f} s,", end=" ")
    print(f"{options.pods / seconds:.0f} Pods/s; {cpu:.2f} s of CPU, {options.pods / cpu:.0f} Pods per CPU second")
    if options.profile:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(60)


if __name__ == "__main__":
    main()
