"""Durable admissions: how many reservations a second the ledger takes, each checked and synced to disk.

In process: CapacityReservations made by 16 tasks at the home that guards them. Through the service:
ValidateResourceUpdate of 16 clients over gRPC with TLS, each of which keeps room for a workload of its own.
"""

import asyncio
import contextlib
import json
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc

from bench.resize.machine import cpu_milliseconds, load_now, server
from headrace.api.kinds import CAPACITY_RESERVATION, NAMESPACE, NODE, POD
from headrace.api.times import to_micro_time
from headrace.client.http import Client
from headrace.client.kubeconfig import load
from headrace.objects.local import Caller, LocalStore
from headrace.serve.shipped import install
from headrace.store.kubernetes import KubernetesStore
from headrace.store.protocol import AlreadyExists, Store
from headrace.store.sqlite import open_rows
from headrace.wire.generated import resize_pb2 as wire
from headrace.wire.generated.resize_pb2_grpc import ResourceManagerStub
from tests.e2e.processes import Headrace

CALLERS = 16
AMOUNTS = {"cpu": "1", "memory": "64Mi"}


async def furnish(store: Store) -> None:
    """A node with more than is asked for, and a Pod for each caller."""
    with contextlib.suppress(AlreadyExists):
        await store.create(NAMESPACE, {"metadata": {"name": "default"}})
    await store.create(NODE, {"metadata": {"name": "node"}})
    amounts = {"cpu": "100000", "memory": "100Ti", "pods": "1000"}
    fields = {"status": {"capacity": amounts, "allocatable": amounts}}
    await store.patch(NODE, "node", fields=fields, subresource="status")
    container = {"name": "app", "image": "app", "resources": {"requests": AMOUNTS, "limits": AMOUNTS}}
    for number in range(CALLERS):
        meta = {"name": f"p{number}", "labels": {"headrace.dev/managed": "true"}}
        await store.create(POD, {"metadata": meta, "spec": {"nodeName": "node", "containers": [container]}}, "default")


async def rate(rounds: int, ask: Callable[[int, int], Awaitable[None]]) -> float:
    """How many a second, with all callers at once."""

    async def caller(number: int, count: int) -> None:
        for turn in range(count):
            await ask(number, turn)

    async with asyncio.TaskGroup() as tasks:
        for number in range(CALLERS):
            tasks.create_task(caller(number, 10))
    began = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for number in range(CALLERS):
            tasks.create_task(caller(number, rounds // CALLERS))
    return rounds // CALLERS * CALLERS / (time.perf_counter() - began)


async def in_process(directory: Path, rounds: int) -> tuple[float, float]:
    """Admissions a second, and milliseconds of this process's CPU for each."""
    rows = await open_rows(directory / "bench.db")
    store = LocalStore(rows, wall=time.time, new_uid=lambda: str(uuid.uuid4()), caller=Caller(user="system:admin"))
    await install(store)
    await furnish(store)

    async def ask(number: int, turn: int) -> None:
        spec = {
            "node": "node",
            "resources": {"cpu": "2", "memory": "64Mi"},
            "beneficiaries": {"pods": [f"p{number}"]},
            "expirationTime": to_micro_time(time.time() + 60),
        }
        wanted = {"metadata": {"generateName": f"r{number}-"}, "spec": spec}
        await store.create(CAPACITY_RESERVATION, wanted, "default")

    before = time.process_time()
    found = await rate(rounds, ask)
    used = (time.process_time() - before) * 1000 / (rounds + 10 * CALLERS)
    await rows.close()
    return found, used


async def through_the_service(running: Headrace, rounds: int) -> tuple[float, float]:
    """The same of the server's process."""
    cluster = load(running.kubeconfig)
    async with Client(cluster) as client:
        await furnish(KubernetesStore(client))
    port = json.loads((running.directory / "up.json").read_text())["agentsPort"]
    credentials = grpc.ssl_channel_credentials(
        cluster.ca_pem.encode(), cluster.key_pem.encode(), cluster.certificate_pem.encode()
    )
    own = [("grpc.use_local_subchannel_pool", 1)]  # a connection for each
    channels = [grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, own) for _ in range(CALLERS)]
    stubs = [ResourceManagerStub(channel) for channel in channels]

    async def ask(number: int, turn: int) -> None:
        request = wire.ValidateResourceUpdateRequest(workload_id=f"default/p{number}/app", cpu_milli=2000 + turn % 2)
        answer = await stubs[number].ValidateResourceUpdate(request, timeout=60)
        assert answer.allowed, answer.reason

    assert running.process is not None
    before = cpu_milliseconds(running.process.pid)
    found = await rate(rounds, ask)
    used = (cpu_milliseconds(running.process.pid) - before) / (rounds + 10 * CALLERS)
    for channel in channels:
        await channel.close()
    return found, used


def run(rounds: int) -> None:
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hb-", dir="/tmp")))
        print(f"{load_now()}\n\n| | reservations a second | CPU ms for each |\n|---|---|---|")
        found, used = asyncio.run(in_process(directory, rounds))
        print(f"| in process, 16 callers | {found:.0f} | {used:.2f} |")
        running, _ = stack.enter_context(server(directory))
        found, used = asyncio.run(through_the_service(running, rounds))
        print(f"| ValidateResourceUpdate, 16 clients | {found:.0f} | {used:.2f} |")
