"""Watches: ordered, complete, resumable, filtered."""

import asyncio
from collections.abc import AsyncIterator

from headrace.api import kinds
from headrace.store.protocol import Store, WatchEvent
from tests.store.contract.samples import config_map

SECONDS = 20


async def take(events: AsyncIterator[WatchEvent], count: int) -> list[tuple[str, str, str]]:
    """Type, name and value of the next events, bookmarks left out."""
    found: list[tuple[str, str, str]] = []

    async def collect() -> None:
        async for event in events:
            if event.type != "BOOKMARK":
                meta = event.object["metadata"]
                found.append((event.type, meta["name"], event.object.get("data", {}).get("key", "")))
                if len(found) == count:
                    return

    await asyncio.wait_for(collect(), SECONDS)
    return found


async def test_changes_come_in_order_each_once(store: Store, namespace: str) -> None:
    since = (await store.list(kinds.CONFIG_MAP, namespace)).revision
    await store.create(kinds.CONFIG_MAP, config_map("a", {"key": "1"}), namespace)
    await store.create(kinds.CONFIG_MAP, config_map("b", {"key": "1"}), namespace)
    await store.patch(kinds.CONFIG_MAP, "a", namespace, fields={"data": {"key": "2"}})
    await store.delete(kinds.CONFIG_MAP, "b", namespace)
    await store.create(kinds.CONFIG_MAP, config_map("b", {"key": "3"}), namespace)
    events = store.watch(kinds.CONFIG_MAP, namespace, since=since)
    assert await take(events, 5) == [
        ("ADDED", "a", "1"),
        ("ADDED", "b", "1"),
        ("MODIFIED", "a", "2"),
        ("DELETED", "b", "1"),
        ("ADDED", "b", "3"),
    ]


async def test_a_watch_sees_what_is_written_while_it_runs(store: Store, namespace: str) -> None:
    since = (await store.list(kinds.CONFIG_MAP, namespace)).revision
    watching = asyncio.create_task(take(store.watch(kinds.CONFIG_MAP, namespace, since=since), 3))
    await asyncio.sleep(0)
    for value in ("1", "2"):
        await store.create(kinds.CONFIG_MAP, config_map(f"item-{value}", {"key": value}), namespace)
    await store.delete(kinds.CONFIG_MAP, "item-1", namespace)
    assert await watching == [("ADDED", "item-1", "1"), ("ADDED", "item-2", "2"), ("DELETED", "item-1", "1")]


async def test_a_watch_goes_on_from_any_event(store: Store, namespace: str) -> None:
    since = (await store.list(kinds.CONFIG_MAP, namespace)).revision
    for number in range(4):
        await store.create(kinds.CONFIG_MAP, config_map(f"item-{number}"), namespace)
    events = store.watch(kinds.CONFIG_MAP, namespace, since=since)
    second = None
    async for event in events:
        if event.type != "BOOKMARK" and event.object["metadata"]["name"] == "item-1":
            second = event.object["metadata"]["resourceVersion"]
            break
    assert second is not None
    rest = await take(store.watch(kinds.CONFIG_MAP, namespace, since=second), 2)
    assert [name for _, name, _ in rest] == ["item-2", "item-3"]


async def test_a_deletion_is_told_at_its_own_revision(store: Store, namespace: str) -> None:
    made = await store.create(kinds.CONFIG_MAP, config_map("a"), namespace)
    await store.delete(kinds.CONFIG_MAP, "a", namespace)
    after = made["metadata"]["resourceVersion"]
    async for event in store.watch(kinds.CONFIG_MAP, namespace, since=after):
        if event.type == "DELETED":
            assert int(event.object["metadata"]["resourceVersion"]) > int(after)
            assert event.object["metadata"]["uid"] == made["metadata"]["uid"]
            break


async def test_an_object_that_begins_or_ceases_to_match_comes_and_goes(store: Store, namespace: str) -> None:
    since = (await store.list(kinds.CONFIG_MAP, namespace)).revision
    await store.create(kinds.CONFIG_MAP, config_map("a", {"key": "1"}), namespace)
    for labels in ({"on": "yes"}, {"more": "yes"}, {"on": None}):
        await store.patch(kinds.CONFIG_MAP, "a", namespace, fields={"metadata": {"labels": labels}})
    await store.create(kinds.CONFIG_MAP, config_map("last", labels={"on": "yes"}), namespace)
    events = store.watch(kinds.CONFIG_MAP, namespace, since=since, labels="on=yes")
    assert await take(events, 4) == [
        ("ADDED", "a", "1"),
        ("MODIFIED", "a", "1"),
        ("DELETED", "a", "1"),
        ("ADDED", "last", "value"),
    ]


async def test_a_watch_from_nowhere_begins_with_what_is_there(store: Store, namespace: str) -> None:
    await store.create(kinds.CONFIG_MAP, config_map("a", {"key": "1"}), namespace)
    await store.patch(kinds.CONFIG_MAP, "a", namespace, fields={"data": {"key": "2"}})
    assert await take(store.watch(kinds.CONFIG_MAP, namespace), 1) == [("ADDED", "a", "2")]
