"""Watches over the wire: where they start, what they say, and how they end."""

import asyncio
import json
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from headrace.api.kinds import CONFIG_MAP, NAMESPACE
from headrace.apiserver import lanes, watching
from headrace.apiserver.identity import VIEWER_GROUP
from headrace.apiserver.tokens import create_bearer_token, revoke_token, revoke_user
from headrace.client.errors import ApiError
from headrace.client.http import Client
from headrace.store.history import Retention
from headrace.store.protocol import Gone
from tests.apiserver.joined import stranger
from tests.apiserver.serving import Serving, serving

PATH = "/api/v1/namespaces/default/configmaps"


async def make(server: Serving, *names: str) -> str:
    made: dict[str, Any] = {"metadata": {"resourceVersion": "0"}}
    for name in names:
        made = await server.store.create(CONFIG_MAP, {"metadata": {"name": name}}, "default")
    return str(made["metadata"]["resourceVersion"])


@pytest.fixture
async def client(server: Serving) -> AsyncIterator[Client]:
    async with server.http() as opened:
        yield opened


async def events(client: Client, count: int = 0, **query: str) -> list[tuple[str, str]]:
    """(type, name) of the first `count` events, or of all until the stream ends."""
    found: list[tuple[str, str]] = []
    async with asyncio.timeout(10), aclosing(client.documents(PATH, query={"watch": "1", **query})) as documents:
        async for document in documents:
            name = document["object"].get("metadata", {}).get("name") or document["object"].get("reason") or ""
            found.append((document["type"], name))
            if len(found) == count:
                break
    return found


async def test_without_a_revision_it_starts_with_the_state(server: Serving, client: Client) -> None:
    await make(server, "a", "b")
    assert await events(client, 2) == [("ADDED", "a"), ("ADDED", "b")]
    assert await events(client, 2, resourceVersion="0") == [("ADDED", "a"), ("ADDED", "b")]
    assert await events(client, 1, fieldSelector="metadata.name=b") == [("ADDED", "b")]


async def test_with_a_revision_it_starts_after_it(server: Serving, client: Client) -> None:
    revision = await make(server, "a")
    await make(server, "b")
    assert await events(client, 1, resourceVersion=revision) == [("ADDED", "b")]


@pytest.mark.parametrize(("selector", "one_in"), [("", 1), ("third=0", 3)], ids=["everything", "by a label"])
async def test_large_changes_committed_together_reach_each_watch_once_and_in_order(
    tmp_path: Path, selector: str, one_in: int
) -> None:
    async with serving(tmp_path, durable=True) as server, server.http() as client:
        query = {"watch": "1", "resourceVersion": await make(server, "before"), "labelSelector": selector}
        told = [asyncio.Queue[tuple[str, str]]() for _ in range(5)]

        async def follow(queue: asyncio.Queue[tuple[str, str]]) -> None:
            async with aclosing(client.documents(PATH, query=query)) as documents:
                async for document in documents:
                    meta = document["object"]["metadata"]
                    queue.put_nowait((meta["name"], meta["resourceVersion"]))

        async with asyncio.timeout(60), asyncio.TaskGroup() as watches:
            tasks = [watches.create_task(follow(queue)) for queue in told]
            for wave in range(0, 90, 30):
                creates = (server.store.create(CONFIG_MAP, large(at), "default") for at in range(wave, wave + 30))
                made = [each["metadata"] for each in await asyncio.gather(*creates)]
                expected = [(meta["name"], meta["resourceVersion"]) for meta in made[::one_in]]
                for queue in told:
                    assert [await queue.get() for _ in expected] == expected
            for task in tasks:
                task.cancel()


def large(number: int) -> dict[str, Any]:
    labels = {"third": str(number % 3)}
    return {"metadata": {"name": f"large-{number}", "labels": labels}, "data": {"text": "x" * (number * 500)}}


async def test_a_streaming_list_ends_its_state_with_a_bookmark(server: Serving, client: Client) -> None:
    await make(server, "a")
    query = {"watch": "1", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    query["allowWatchBookmarks"] = "true"
    async with asyncio.timeout(10), aclosing(client.documents(PATH, query=query)) as documents:
        first, second = await anext(documents), await anext(documents)
    assert first["type"] == "ADDED"
    assert second["type"] == "BOOKMARK"
    assert second["object"]["kind"] == "ConfigMap"
    assert second["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert second["object"]["metadata"]["resourceVersion"] >= first["object"]["metadata"]["resourceVersion"]


@pytest.mark.parametrize("initial", ["true", "false"])
async def test_state_not_older_than_a_revision_to_come_is_not_given(client: Client, initial: str) -> None:
    """A client that was told of a later revision, before a backup was restored, took the older state for newer."""
    query = {"sendInitialEvents": initial, "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    with pytest.raises(ApiError, match="Too large resource version: 999999") as refused:
        await events(client, 1, resourceVersion="999999", **query)
    assert refused.value.code == 504


@pytest.mark.parametrize(("revision", "code"), [("x", 400), ("9" * 5000, 400), ("-1", 400), ("9" * 18, 410)])
async def test_a_revision_that_was_never_given_out_is_refused(client: Client, revision: str, code: int) -> None:
    with pytest.raises(ApiError) as refused:
        await events(client, 1, resourceVersion=revision)
    assert refused.value.code == code


@pytest.mark.parametrize(
    "token", [b'[1e400,"",""]', b'["x","",""]', b'[99999999999999999999,"",""]', b'[-1,"",""]', b"{}"]
)
async def test_a_continue_token_that_was_never_given_out_is_refused(client: Client, token: bytes) -> None:
    with pytest.raises(ApiError, match="continue key is not valid"):
        await client.request("GET", PATH, query={"limit": "1", "continue": urlsafe_b64encode(token).decode()})


async def test_bookmarks_of_metadata_are_of_their_kind_too(server: Serving) -> None:
    """A client that reads metadata only knows no other kind."""
    accept = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
    query = {"watch": "1", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    query["allowWatchBookmarks"] = "true"
    async with server.http() as client:
        assert client._session is not None
        async with client._session.http.get(PATH, params=query, headers=accept) as response:
            event = json.loads(await response.content.readline())
    assert (event["type"], event["object"]["kind"]) == ("BOOKMARK", "PartialObjectMetadata")
    assert event["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_watch_that_sees_nothing_is_told_how_far_it_is(
    server: Serving, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LEAST_BETWEEN_BOOKMARKS_SECONDS", 0.0)
    revision = await make(server, "a")
    query = {"watch": "1", "resourceVersion": revision, "allowWatchBookmarks": "true"}
    query["fieldSelector"] = "metadata.name=none"
    async with asyncio.timeout(10), aclosing(client.documents(PATH, query=query)) as documents:
        await anext(documents)
        await make(server, "b", "c")
        last = await server.store.create(NAMESPACE, {"metadata": {"name": "elsewhere"}})
        server.store.rows.remind()
        bookmark = await anext(documents)
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["resourceVersion"] == last["metadata"]["resourceVersion"]


async def test_a_client_that_does_not_read_for_a_while_misses_nothing(server: Serving) -> None:
    """What does not fit the line waits, and nothing that comes later is written before it."""
    revision = await make(server, "first")
    context = server.cluster().tls()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.running.port, ssl=context, limit=1024)
    request = f"GET {PATH}?watch=1&resourceVersion={revision} HTTP/1.1\r\nhost: x\r\n\r\n"
    writer.write(request.encode())
    await reader.readuntil(b"\r\n\r\n")
    names = [f"large-{number}" for number in range(60)]
    for name in names:
        await server.store.create(CONFIG_MAP, {"metadata": {"name": name}, "data": {"a": "x" * 200_000}}, "default")
    seen: list[str] = []
    async with asyncio.timeout(30):
        while len(seen) < len(names):
            size = int(await reader.readuntil(b"\r\n"), 16)
            event = json.loads((await reader.readexactly(size + 2))[:-2])
            seen.append(event["object"]["metadata"]["name"])
    assert seen == names
    writer.close()


async def test_it_ends_plainly_when_its_time_is_over(server: Serving, client: Client) -> None:
    await make(server, "a")
    assert await events(client, timeoutSeconds="1") == [("ADDED", "a")]


async def test_a_revision_that_is_not_one_is_refused_before_it_starts(client: Client) -> None:
    for revision in ("x", "-1", "1e3"):
        with pytest.raises(ApiError) as refusal:
            await events(client, resourceVersion=revision)
        assert refusal.value.code == 400
    with pytest.raises(ApiError, match="unable to parse requirement"):
        await events(client, labelSelector="a=(")


async def test_a_table_watch_gives_rows_and_the_columns_once(server: Serving) -> None:
    await make(server, "a", "b")
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    async with server.http() as client:
        assert client._session is not None
        async with client._session.http.get(PATH, params={"watch": "1"}, headers={"Accept": accept}) as response:
            tables = [json.loads(await response.content.readline())["object"] for _ in range(2)]
    assert [table["rows"][0]["cells"][:2] for table in tables] == [["a", 0], ["b", 0]]
    assert [column["name"] for column in tables[0]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert tables[1]["columnDefinitions"] is None


async def test_one_identity_has_a_limited_number_of_watches(
    server: Serving, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(lanes._LONG_LIMITS, "watch", 2)
    await make(server, "a")
    async with aclosing(client.documents(PATH, query={"watch": "1"})) as first:
        await anext(first)
        async with aclosing(client.documents(PATH, query={"watch": "1"})) as second:
            await anext(second)
            with pytest.raises(ApiError) as refusal:
                await events(client, 1)
            assert (refusal.value.code, refusal.value.details["retryAfterSeconds"]) == (429, 1)
        async with server.http("viewer") as other:
            assert await events(other, 1) == [("ADDED", "a")]


@pytest.mark.parametrize("by", [pytest.param("token", id="its token"), pytest.param("user", id="its user")])
async def test_the_watches_of_a_revoked_credential_end_at_once(server: Serving, by: str) -> None:
    await make(server, "a")
    token = await create_bearer_token(server.store, "ann", (VIEWER_GROUP,), server.now())
    cluster = stranger(server)
    cluster = type(cluster)(cluster.server, ca_pem=cluster.ca_pem, token=token)
    async with Client(cluster) as client, asyncio.timeout(5):
        async with aclosing(client.documents(PATH, query={"watch": "1"})) as documents:
            await anext(documents)
            if by == "token":
                await revoke_token(server.store, token.split(".")[1])
            else:
                await revoke_user(server.store, "ann", server.now())
            assert [document async for document in documents] == []
        with pytest.raises(ApiError) as refusal:
            await client.request("GET", PATH)
        assert refusal.value.code == 401


async def test_a_list_from_the_future_is_told_to_come_back(client: Client) -> None:
    with pytest.MonkeyPatch.context() as patched:
        from headrace.client import http

        patched.setattr(http, "TRIES", 1)
        with pytest.raises(ApiError, match="Too large resource version") as refusal:
            await client.request("GET", PATH, query={"resourceVersion": "999999"})
    assert refusal.value.code == 504


async def test_what_is_compacted_is_gone_for_watches_and_pages_alike(tmp_path: Path) -> None:
    async with serving(tmp_path, retention=Retention(revisions=5, seconds=0.0)) as server, server.http() as client:
        first = await make(server, "a", "b", "c")
        page = await client.request("GET", PATH, query={"limit": "1"})
        for number in range(100):
            await make(server, f"more-{number}")
        with pytest.raises(ApiError) as refusal:
            await client.request("GET", PATH, query={"limit": "1", "continue": page["metadata"]["continue"]})
        assert (refusal.value.code, refusal.value.reason) == (410, "Expired")
        query = {"resourceVersion": first, "resourceVersionMatch": "Exact"}
        with pytest.raises(ApiError) as refusal:
            await client.request("GET", PATH, query=query)
        assert refusal.value.code == 410
        assert await events(client, resourceVersion=first) == [("ERROR", "Expired")]
        async with server.remote() as store:
            with pytest.raises(Gone):
                async for _ in store.watch(CONFIG_MAP, "default", since=first):
                    pass
