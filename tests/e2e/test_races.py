"""Two wishes for the last room of a node, at the same time, through HTTP: exactly one is granted, every time."""

import asyncio
import os
from pathlib import Path

import pytest

from headrace.api.kinds import NODE, POD
from headrace.client.http import Client
from headrace.client.kubeconfig import load
from headrace.store.kubernetes import KubernetesStore
from headrace.store.protocol import Refused
from tests.e2e.processes import SERVER, headrace

RACES = int(os.environ.get("HEADRACE_RACES", "10000"))
SMALL, LARGE = {"cpu": "1", "memory": "64Mi"}, {"cpu": "3", "memory": "64Mi"}


def pod(name):
    container = {"name": "main", "image": "x", "resources": {"requests": SMALL, "limits": SMALL}}
    return {"metadata": {"name": name}, "spec": {"nodeName": "node-a", "containers": [container]}}


def admitted(amounts):
    return {"status": {"containerStatuses": [{"name": "main", "allocatedResources": amounts}]}}


async def race(directory: Path, races: int) -> list[int]:
    """The seed's example: total 8, others 5 (and 1 reserved), two workloads that each want 2 more of the 2... free.

    How many were granted in each race.
    """
    cluster = load(directory / "controller.kubeconfig")
    async with Client(load(directory / "kubeconfig")) as admin:
        store = KubernetesStore(admin)
        await store.create(NODE, {"metadata": {"name": "node-a"}})
        status = {
            "capacity": {"cpu": "8", "memory": "8Gi", "pods": "10"},
            "allocatable": {"cpu": "7", "memory": "8Gi", "pods": "10"},
        }
        await store.patch(NODE, "node-a", fields={"status": status}, subresource="status")
        await store.create(
            POD,
            {
                **pod("others"),
                "spec": {
                    **pod("others")["spec"],
                    "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "3"}}}],
                },
            },
            "default",
        )
        for name in ("a", "b"):
            await store.create(POD, pod(name), "default")
    granted = []
    async with Client(cluster) as one, Client(cluster) as other:
        stores = {"a": KubernetesStore(one), "b": KubernetesStore(other)}

        async def wish(name, amounts):
            try:
                await stores[name].patch(
                    POD, name, "default", fields=admitted(amounts), subresource="status", strategic=True
                )
            except Refused:
                return False
            return True

        for _ in range(races):
            answers = await asyncio.gather(wish("a", LARGE), wish("b", LARGE))
            granted.append(sum(answers))
            for name, won in zip("ab", answers, strict=True):
                if won:
                    assert await wish(name, SMALL)
    return granted


def test_two_wishes_for_the_last_room_never_both_win(tmp_path):
    with headrace(tmp_path / "h", *SERVER, "--no-controllers") as server:
        granted = asyncio.run(race(server.directory, 200))
    assert granted == [1] * 200


@pytest.mark.slow
def test_ten_thousand_races_without_one_overcommit(tmp_path):
    with headrace(tmp_path / "h", *SERVER, "--no-controllers") as server:
        granted = asyncio.run(race(server.directory, RACES))
    assert granted == [1] * RACES
