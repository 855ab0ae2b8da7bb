"""200 Pods at once for 64 devices, through HTTP: slices are written meanwhile and the server is killed, twice.

At no instant that a client sees does a device belong to two claims, and in the end all 64 are given.
"""

import asyncio
import contextlib
import socket
import time
from pathlib import Path

import pytest

from headrace.api.kinds import (
    DEVICE_CLASS,
    LEASE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
from headrace.api.times import to_micro_time
from headrace.client.http import Client
from headrace.client.kubeconfig import load
from headrace.store.kubernetes import KubernetesStore
from headrace.store.protocol import AlreadyExists, StoreError
from tests.e2e.processes import headrace

PODS, NODES, DEVICES, CREATORS = 200, 8, 8, 16
GPU = "gpu.example.com"
SETTLED_SECONDS, ALL_SECONDS = 90.0, 200.0


async def fleet(store):
    await store.create(DEVICE_CLASS, {"metadata": {"name": GPU}, "spec": {"selectors": [driven_by_us()]}})
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": GPU}}]}}
    await store.create(RESOURCE_CLAIM_TEMPLATE, {"metadata": {"name": "one-gpu"}, "spec": {"spec": spec}}, "default")
    for number in range(NODES):
        await node(store, f"node-{number}")


def driven_by_us():
    return {"cel": {"expression": f'device.driver == "{GPU}"'}}


async def node(store, name):
    """A node that was heard of just now, with eight devices."""
    lease = {"holderIdentity": name, "leaseDurationSeconds": 3600, "renewTime": to_micro_time(time.time())}
    await store.create(LEASE, {"metadata": {"name": name}, "spec": lease}, "kube-node-lease")
    await store.create(NODE, {"metadata": {"name": name}})
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    status = {"capacity": {"cpu": "64", "memory": "64Gi", "pods": "250"}, "conditions": [ready]}
    await store.patch(NODE, name, fields={"status": status}, subresource="status")
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{at}"} for at in range(DEVICES)]
    spec = {"driver": GPU, "nodeName": name, "pool": pool, "devices": devices}
    await store.create(RESOURCE_SLICE, {"metadata": {"name": f"{name}-gpus"}, "spec": spec})


def pod(number):
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1m"}, "claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    return {
        "metadata": {"name": f"p{number}"},
        "spec": {"tolerations": [{"operator": "Exists"}], "resourceClaims": claims, "containers": [container]},
    }


async def insist(call):
    """Until it is done: the server dies now and then."""
    while True:
        try:
            return await call()
        except AlreadyExists:
            return None
        except (StoreError, OSError):
            await asyncio.sleep(0.2)


async def create_all(store):
    numbers = iter(range(PODS))

    async def creator():
        for number in numbers:
            await insist(lambda number=number: store.create(POD, pod(number), "default"))

    await asyncio.gather(*(creator() for _ in range(CREATORS)))


async def write_slices(store):
    """As a driver does that is restarted: the same devices, in a newer generation."""
    generation = 1
    while True:
        generation += 1
        for number in range(NODES):
            fields = {"spec": {"pool": {"generation": generation}}}
            await insist(lambda n=number, f=fields: store.patch(RESOURCE_SLICE, f"node-{n}-gpus", fields=f))
            await asyncio.sleep(0.05)


def owners(claims):
    found = {}
    for claim in claims:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for each in (allocation.get("devices") or {}).get("results") or ():
            device = (each["pool"], each["device"])
            name = claim["metadata"]["name"]
            assert device not in found, f"{device} is given to {found[device]} and to {name}"
            found[device] = name
    return found


async def race(server, directory: Path):
    async with Client(load(directory / "kubeconfig")) as client:
        store = KubernetesStore(client)
        await fleet(store)
        creating = asyncio.create_task(create_all(store))
        writing = asyncio.create_task(write_slices(store))
        samples, given, killed = 0, {}, 0
        deadline = time.monotonic() + SETTLED_SECONDS
        while len(given) < NODES * DEVICES or not creating.done():
            assert time.monotonic() < deadline, f"{len(given)} devices given after {samples} looks"
            listing = await insist(lambda: store.list(RESOURCE_CLAIM, "default"))
            given, samples = owners(listing.items), samples + 1
            if killed < 2 and len(given) >= 16 * (killed + 1):
                killed += 1
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            await asyncio.sleep(0.02)
        writing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await writing
        pods = (await store.list(POD, "default")).items
        assert killed == 2
        assert len(pods) == PODS
        deadline = time.monotonic() + SETTLED_SECONDS
        while sum(bool(each["spec"].get("nodeName")) for each in pods) < NODES * DEVICES:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.2)
            pods = (await store.list(POD, "default")).items
            owners((await store.list(RESOURCE_CLAIM, "default")).items)
        return samples


def free_port():
    """The server has it again after it was killed."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return str(taken.getsockname()[1])


@pytest.mark.slow
def test_no_device_is_given_twice_whatever_races(tmp_path):
    with headrace(tmp_path / "h", "server", "--port", free_port(), "--agents-port", "0") as server:
        assert asyncio.run(asyncio.wait_for(race(server, server.directory), ALL_SECONDS)) > 5
