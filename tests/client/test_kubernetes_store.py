"""The Store over HTTP against our own server: what a controller far away may rely on."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.api.kinds import CONFIG_MAP, NODE, POD
from headrace.client.errors import ApiError, Unreachable
from headrace.store.kubernetes import KubernetesStore, store_error
from headrace.store.protocol import (
    AlreadyExists,
    Conflict,
    Deletion,
    Gone,
    Invalid,
    NotFound,
    Preconditions,
    Refused,
    Unavailable,
)
from tests.apiserver.serving import Serving, serving


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Serving]:
    async with serving(tmp_path) as opened:
        yield opened


@pytest.fixture
async def remote(server: Serving) -> AsyncIterator[KubernetesStore]:
    async with server.remote() as store:
        yield store


def config(name: str, **data: str) -> dict[str, object]:
    return {"metadata": {"name": name, "labels": {"app": name}}, "data": data}


async def test_what_is_created_is_read_back_listed_and_deleted(remote: KubernetesStore) -> None:
    made = await remote.create(CONFIG_MAP, config("a", x="1"), "default")
    assert await remote.get(CONFIG_MAP, "a", "default") == made
    listing = await remote.list(CONFIG_MAP, "default", labels="app=a")
    assert listing.items == [made]
    await remote.delete(CONFIG_MAP, "a", "default")
    with pytest.raises(NotFound, match='configmaps "a" not found'):
        await remote.get(CONFIG_MAP, "a", "default")


async def test_refusals_come_back_as_the_errors_they_were(remote: KubernetesStore) -> None:
    made = await remote.create(CONFIG_MAP, config("a", x="1"), "default")
    with pytest.raises(AlreadyExists):
        await remote.create(CONFIG_MAP, config("a"), "default")
    with pytest.raises(Conflict):
        await remote.patch(CONFIG_MAP, "a", "default", fields={"data": {"x": "2"}}, version="1")
    with pytest.raises(Conflict):
        await remote.delete(CONFIG_MAP, "a", "default", Deletion(Preconditions(uid="other")))
    with pytest.raises(Invalid) as refusal:
        await remote.create(POD, {"metadata": {"name": "p"}, "spec": {"containers": []}}, "default")
    assert any(cause.field == "spec.containers" for cause in refusal.value.causes)
    version = made["metadata"]["resourceVersion"]
    written = await remote.patch(CONFIG_MAP, "a", "default", fields={"data": {"x": "2"}}, version=version)
    assert written["data"] == {"x": "2"}


async def test_a_dry_run_changes_nothing(remote: KubernetesStore) -> None:
    await remote.create(CONFIG_MAP, config("a", x="1"), "default", dry_run=True)
    with pytest.raises(NotFound):
        await remote.get(CONFIG_MAP, "a", "default")


async def test_a_list_in_pages_shows_one_snapshot(remote: KubernetesStore) -> None:
    for name in "abc":
        await remote.create(CONFIG_MAP, config(name), "default")
    first = await remote.list(CONFIG_MAP, "default", limit=2)
    await remote.create(CONFIG_MAP, config("d"), "default")
    second = await remote.list(CONFIG_MAP, "default", limit=2, resume=first.resume)
    names = [item["metadata"]["name"] for item in (*first.items, *second.items)]
    assert (names, second.resume, second.revision) == (["a", "b", "c"], "", first.revision)


async def test_a_watch_tells_each_change_once_and_in_order(remote: KubernetesStore) -> None:
    await remote.create(CONFIG_MAP, config("a", x="1"), "default")
    seen: list[tuple[str, str]] = []
    began = asyncio.Event()

    async def follow() -> None:
        async for event in remote.watch(CONFIG_MAP, "default"):
            if event.type != "BOOKMARK":
                seen.append((event.type, event.object["metadata"]["name"]))
                began.set()
            if event.type == "DELETED":
                return

    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        tasks.create_task(follow())
        await began.wait()
        await remote.create(CONFIG_MAP, config("b"), "default")
        await remote.patch(CONFIG_MAP, "b", "default", fields={"data": {"y": "1"}})
        await remote.delete(CONFIG_MAP, "b", "default")
    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]


async def test_a_watch_goes_on_where_the_server_ended_it(server: Serving, remote: KubernetesStore) -> None:
    listing = await remote.list(CONFIG_MAP, "default")
    seen: list[str] = []

    async def follow() -> None:
        async for event in remote.watch(CONFIG_MAP, "default", since=listing.revision):
            if event.type != "BOOKMARK":
                seen.append(event.object["metadata"]["name"])
                server.running.end_streams()
            if len(seen) == 3:
                return

    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        tasks.create_task(follow())
        for name in "abc":
            await remote.create(CONFIG_MAP, config(name), "default")
    assert seen == ["a", "b", "c"]


async def test_a_server_that_is_not_there_is_unavailable(server: Serving) -> None:
    from dataclasses import replace

    from headrace.client import http

    gone = replace(server.cluster(), server="https://127.0.0.1:1")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(http, "FIRST_DELAY_SECONDS", 0.001)
        async with server.remote(cluster=gone) as store:
            with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1"):
                await store.create(NODE, {"metadata": {"name": "n"}})


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(ApiError(410, "Expired", "too old", {}), Gone, id="a compacted revision is Gone"),
        pytest.param(ApiError(409, "AlreadyExists", "x", {}), AlreadyExists, id="409 is told apart by its reason"),
        pytest.param(ApiError(409, "", "x", {}), Conflict, id="a 409 without a reason is a conflict"),
        pytest.param(ApiError(502, "", "x", {}), Unavailable, id="a proxy's fault is Unavailable"),
        pytest.param(Unreachable("x", sent=True), Unavailable, id="no answer is Unavailable"),
    ],
)
def test_errors_are_mapped(error: ApiError | Unreachable, expected: type[Exception]) -> None:
    assert type(store_error(error)) is expected


def test_a_refusal_from_a_server_that_sends_only_causes_keeps_its_words() -> None:
    causes = [{"reason": "InsufficientCapacity", "field": "cpu", "message": "node a: insufficient cpu"}]
    error = store_error(ApiError(403, "Forbidden", 'pods "p" is forbidden', {"causes": causes}))
    assert isinstance(error, Refused)
    assert (str(error.shortfall), set(error.shortfall.missing)) == ("node a: insufficient cpu", {"cpu"})
