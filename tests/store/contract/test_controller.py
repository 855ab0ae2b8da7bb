"""One small controller on each home: what it leaves there is the same, field by field."""

import asyncio
import random
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from headrace.api import kinds
from headrace.runtime.clock import LoopClock
from headrace.runtime.manager import ControllerManager
from headrace.runtime.metrics import ControllerMetrics
from headrace.store.protocol import NotFound, Store
from tests.store.contract.legs import CLUSTER_LEGS, LEGS
from tests.store.contract.replica_controller import RUN, Replicas

SECONDS = 30
OWN = ("uid", "creationTimestamp", "deletionTimestamp", "managedFields", "resourceVersion")


def bare(value: Any) -> Any:
    """Without what each home makes up for itself: uids, times, versions, managedFields."""
    if isinstance(value, dict):
        return {name: bare(item) for name, item in value.items() if name not in OWN and item is not None}
    return [bare(item) for item in value] if isinstance(value, list) else value


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(SECONDS):
        while not await true():  # noqa: ASYNC110  # another process writes it
            await asyncio.sleep(0.02)


async def history(store: Store, namespace: str) -> list[Any]:
    """What is there after each step of an owner's life."""
    manager = ControllerManager(
        store,
        clock=LoopClock(time.time),
        random=random.random,
        metrics=ControllerMetrics(CollectorRegistry()),
        log=structlog.get_logger(),
        ordered=False,
    )
    manager.add(Replicas(manager.informers, namespace))
    stages: list[Any] = []

    async def counted(count: str) -> bool:
        return (await store.get(kinds.CONFIG_MAP, "web", namespace))["data"].get("current") == count

    async def gone() -> bool:
        try:
            await store.get(kinds.CONFIG_MAP, "web", namespace)
        except NotFound:
            return True
        return False

    async def note() -> None:
        for kind in (kinds.CONFIG_MAP, kinds.POD):
            listing = await store.list(kind, namespace, labels=f"{RUN}={namespace}")
            stages.append(bare(listing.items))

    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(manager.run())
        await store.create(
            kinds.CONFIG_MAP,
            {"metadata": {"name": "web", "labels": {RUN: namespace}}, "data": {"replicas": "3"}},
            namespace,
        )
        await until(lambda: counted("3"))
        await note()
        await store.delete(kinds.POD, "web-1", namespace)
        await until(lambda: there(store, "web-1", namespace))
        await note()
        await store.patch(kinds.CONFIG_MAP, "web", namespace, fields={"data": {"replicas": "1"}})
        await until(lambda: counted("1"))
        await note()
        await store.delete(kinds.CONFIG_MAP, "web", namespace)
        await until(gone)
        await note()
        manager.stop()
        await running
    return stages


async def there(store: Store, name: str, namespace: str) -> bool:
    try:
        await store.get(kinds.POD, name, namespace)
    except NotFound:
        return False
    return True


async def histories(request: pytest.FixtureRequest, legs: list[str]) -> dict[str, list[Any]]:
    namespace = f"controller-{uuid.uuid4().hex[:8]}"
    found = {}
    for leg in legs:
        async with LEGS[leg](request) as store:
            await store.create(kinds.NAMESPACE, {"metadata": {"name": namespace}})
            account = {"metadata": {"name": "default"}, "automountServiceAccountToken": False}
            await store.create(kinds.SERVICE_ACCOUNT, account, namespace)
            found[leg] = await history(store, namespace)
    return found


async def test_its_objects_are_the_same_in_process_and_over_http(request: pytest.FixtureRequest) -> None:
    found = await histories(request, ["in-memory", "http"])
    stages = found["in-memory"]
    assert [[each["metadata"]["name"] for each in stage] for stage in stages] == [
        *(["web"], ["web-0", "web-1", "web-2"]),
        *(["web"], ["web-0", "web-1", "web-2"]),
        *(["web"], ["web-0"]),
        *([], []),
    ]
    assert found["http"] == stages


@pytest.mark.cluster
async def test_its_objects_are_the_same_on_kubernetes(request: pytest.FixtureRequest) -> None:
    found = await histories(request, ["in-memory", "http", *CLUSTER_LEGS])
    for leg, stages in found.items():
        assert stages == found["kubernetes"], leg
