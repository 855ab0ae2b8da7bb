"""Rows against a model that remembers every state: pages of any revision, watches from any revision, exactly once."""

import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.store.history import Retention
from headrace.store.protocol import AlreadyExists, Conflict, Gone, NotFound
from headrace.store.rows import Change, Key
from headrace.store.sqlite import open_rows
from tests.store.builders import config_map, put, remove, write

names = st.sampled_from(["a", "b", "c", "d"])
namespaces = st.sampled_from(["one", "two"])
steps = st.lists(st.tuples(st.sampled_from(["put", "put", "stale", "remove", "other"]), namespaces, names), max_size=40)
KEEP_ALL = Retention(revisions=10_000, seconds=0, most=10_000)
KEEP_FEW = Retention(revisions=5, seconds=0, most=5)


class Model:
    """States and events of `configmaps` as they must be."""

    def __init__(self) -> None:
        self.now: dict[Key, int] = {}
        self.states: dict[int, dict[Key, int]] = {1: {}}
        self.events: list[tuple[int, Key, bool]] = []
        self.revision = 1

    def wrote(self, key: Key, revision: int, *, removed: bool) -> None:
        assert revision == self.revision + 1, "each write takes the next revision"
        self.revision = revision
        if key.resource == "configmaps":
            self.events.append((revision, key, removed))
            self.now.pop(key, None)
            if not removed:
                self.now[key] = revision
        self.states[revision] = dict(self.now)


async def play(rows, model: Model, steps) -> None:
    for action, namespace, name in steps:
        key = Key("secrets" if action == "other" else "configmaps", namespace, name)
        row = rows.get(key)
        found = row.revision if row else 0
        assert found == model.now.get(key, found)
        if action == "stale":
            with pytest.raises((AlreadyExists, Conflict, NotFound)):
                await rows.commit(write(key, 0 if found else 99, {"data": {}}))
        elif action == "remove":
            if found:
                model.wrote(key, await rows.commit(remove(name, found, namespace)), removed=True)
        else:
            model.wrote(key, await rows.commit(write(key, found, {"data": {"was": found}})), removed=False)


def keys_of(page) -> dict[Key, int]:
    for row in page.rows:
        assert orjson.loads(row.body)["metadata"]["resourceVersion"] == str(row.revision)
    assert [row.key for row in page.rows] == sorted(row.key for row in page.rows)
    return {row.key: row.revision for row in page.rows}


async def take_until(stream: AsyncIterator[Change | int], revision: int) -> list[Change]:
    """All changes up to `revision`, checked against the promise of the bookmarks."""
    found: list[Change] = []
    told = 0
    async for each in stream:
        reached = each if isinstance(each, int) else each.revision
        assert reached > told or isinstance(each, int), "changes come in order, each once"
        told = max(told, reached)
        if not isinstance(each, int):
            found.append(each)
        if told >= revision:
            break
    await stream.aclose()
    return found


@given(steps, st.integers(1, 3))
@settings(deadline=None)
def test_a_page_of_any_revision_is_the_state_of_that_revision(steps, limit):
    async def run():
        rows, model = await open_rows(":memory:", inline=True, retention=KEEP_ALL), Model()
        await play(rows, model, steps)
        for revision, state in model.states.items():
            assert keys_of(rows.page("configmaps", at=revision)) == state
            for namespace in ("one", "two"):
                expected = {key: each for key, each in state.items() if key.namespace == namespace}
                assert keys_of(rows.page("configmaps", namespace, at=revision)) == expected
            pages, after = {}, None
            while True:
                page = rows.page("configmaps", after=after, limit=limit, at=revision)
                pages |= keys_of(page)
                assert page.remaining == len(state) - len(pages)
                if not page.more:
                    break
                after = page.rows[-1].key
            assert pages == state
        assert rows.page("configmaps").revision == rows.revision == model.revision
        await rows.close()

    asyncio.run(run())


@given(steps, steps, st.data())
@settings(deadline=None)
def test_a_watch_from_any_revision_is_complete_in_order_and_each_once(before, after, data):
    async def run():
        rows, model = await open_rows(":memory:", inline=True, retention=KEEP_ALL), Model()
        await play(rows, model, before)
        since = data.draw(st.integers(0, model.revision))
        stream = rows.watch("configmaps", since=since)
        narrow = rows.watch("configmaps", "one", since=since)
        first = [await anext(stream), await anext(narrow)]
        await play(rows, model, after)
        # A last write that everyone sees ends the watches.
        for namespace in ("one", "two"):
            await play(rows, model, [("put", namespace, "end")])
        found = [*changes(first[0]), *await take_until(stream, model.revision)]
        assert [(each.revision, each.key, each.body is None) for each in found] == [
            each for each in model.events if each[0] > since
        ]
        told = [*changes(first[1]), *await take_until(narrow, model.revision - 1)]
        assert [each.revision for each in told] == [
            revision for revision, key, _ in model.events if revision > since and key.namespace == "one"
        ]
        for each in found:
            told = each.body if each.body is not None else each.gone
            assert orjson.loads(told)["metadata"]["resourceVersion"] == str(each.revision)
            state = model.states[each.revision - 1]
            assert (each.before is None) == (each.key not in state)
            if each.before is not None:
                assert orjson.loads(each.before)["metadata"]["resourceVersion"] == str(state[each.key])
        await rows.close()

    asyncio.run(run())


def changes(first: Change | int) -> list[Change]:
    return [] if isinstance(first, int) else [first]


@given(steps)
@settings(deadline=None)
def test_compaction_keeps_what_it_promises_and_refuses_the_rest(steps):
    async def run():
        rows, model = await open_rows(":memory:", inline=True, retention=KEEP_FEW), Model()
        await play(rows, model, steps)
        assert keys_of(rows.page("configmaps")) == model.now
        for revision, state in model.states.items():
            if revision >= model.revision - KEEP_FEW.revisions:
                assert keys_of(rows.page("configmaps", at=revision)) == state
            elif revision < model.revision - KEEP_FEW.revisions - 1:  # each commit compacts what was there before it
                with pytest.raises(Gone):
                    rows.page("configmaps", at=revision)
                with pytest.raises(Gone):
                    await anext(rows.watch("configmaps", since=revision))
        await rows.close()

    asyncio.run(run())


async def test_compaction_leaves_only_current_objects_and_the_kept_history(tmp_path):
    rows = await open_rows(tmp_path / "rows.db", inline=True, retention=KEEP_FEW)
    revision = await rows.commit(put("a"))
    await rows.commit(put("untouched"))
    for number in range(500):
        revision = await rows.commit(put("a", revision, str(number)))
        await rows.commit(remove("b", await rows.commit(put("b"))))
    kept = rows._writing.execute("SELECT count(*) FROM changes").get
    assert kept < 2 + 2 * KEEP_FEW.revisions + 2
    assert {row.key for row in rows.page("configmaps").rows} == {config_map("a"), config_map("untouched")}
    await rows.close()


async def test_history_is_kept_for_its_seconds_and_then_goes():
    clock = [0.0]
    retention = Retention(revisions=1, seconds=300, most=1_000)
    rows = await open_rows(":memory:", inline=True, now=lambda: clock[0], retention=retention)
    revision = first = await rows.commit(put("a"))
    for _ in range(10):
        clock[0] += 20
        revision = await rows.commit(put("a", revision))
    assert rows.page("configmaps", at=first).rows[0].revision == first
    for _ in range(20):
        clock[0] += 20
        revision = await rows.commit(put("a", revision))
    with pytest.raises(Gone, match="too old"):
        rows.page("configmaps", at=first)
    await rows.close()
