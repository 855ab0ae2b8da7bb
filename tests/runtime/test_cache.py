import asyncio

import msgspec
import pytest
import structlog

from headrace.api.kinds import CONFIG_MAP, NAMESPACE
from headrace.api.objects import name_of, version_of
from headrace.runtime.cache import Informers
from headrace.runtime.clock import LoopClock
from headrace.store.protocol import Gone, Unavailable
from tests.runtime.home import open_store, wall

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


class Troubled:
    """The real store, whose watches end in the ways given, one after another, each after one event."""

    def __init__(self, store, *endings):
        self._store, self._endings = store, list(endings)
        self.lists = 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def list(self, *arguments, **options):
        self.lists += 1
        return await self._store.list(*arguments, **options)

    async def watch(self, *arguments, **options):
        async for event in self._store.watch(*arguments, **options):
            yield event
            if event.type != "BOOKMARK" and self._endings:
                ending = self._endings.pop(0)
                if ending is None:
                    return
                raise ending


def informers_of(store, ordered=True):
    clock = LoopClock(wall)
    return Informers(store, clock=clock, random=lambda: 0.5, log=structlog.get_logger(), ordered=ordered)


async def a_store():
    store = await open_store()
    await store.create(NAMESPACE, {"metadata": {"name": "default"}})
    return store


async def put(store, name, color="red"):
    obj = {"metadata": {"name": name}, "data": {"color": color}}
    return await store.create(CONFIG_MAP, obj, "default")


async def paint(store, name, color):
    return await store.patch(CONFIG_MAP, name, "default", fields={"data": {"color": color}})


def colors(informer):
    return {name_of(obj): obj["data"]["color"] for obj in informer}


class Running:
    def __init__(self, informers):
        self._informers = informers

    async def __aenter__(self):
        self._task = asyncio.create_task(self._informers.run())
        await self._informers.wait_until_synced()

    async def __aexit__(self, *_):
        self._task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self._task


@pytest.mark.parametrize("ordered", [True, False], ids=["versions are numbers", "versions are opaque"])
@pytest.mark.parametrize(
    "endings",
    [(), (None,) * 4, (Gone("compacted"),) * 4, (Unavailable("cut"), None, Gone("compacted"), Unavailable("cut"))],
    ids=["a quiet watch", "a proxy that ends watches", "histories that are compacted", "everything at once"],
)
async def test_the_cache_is_what_a_list_would_say_whatever_happens_to_the_watch(endings, ordered):
    store = await a_store()
    for name in ("a", "b", "c"):
        await put(store, name)
    informers = informers_of(Troubled(store, *endings), ordered)
    informer = informers.of(CONFIG_MAP)
    told = {}
    informer.subscribe(lambda before, after: told.update({name_of(after or before): after}))
    async with Running(informers):
        for number in range(6):
            await paint(store, "a", f"color {number}")
            await put(store, f"new-{number}")
            if number < 2:
                await store.delete(CONFIG_MAP, ("b", "c")[number], "default")
            await asyncio.sleep(number)
        await asyncio.sleep(60)
        listed = {name_of(obj): version_of(obj) for obj in (await store.list(CONFIG_MAP, "default")).items}
        assert {name_of(obj): version_of(obj) for obj in informer} == listed
        assert {name: version_of(obj) for name, obj in told.items() if obj is not None} == listed


async def test_a_watch_that_ends_plainly_goes_on_without_a_new_list():
    store = Troubled(await a_store(), None, None, None)
    informers = informers_of(store)
    informer = informers.of(CONFIG_MAP)
    async with Running(informers):
        for number in range(5):
            await put(store, f"n{number}")
            await asyncio.sleep(5)
        assert (len(informer), store.lists) == (5, 1)


async def test_an_index_follows_every_change():
    store = await a_store()
    informers = informers_of(store)
    informer = informers.of(CONFIG_MAP)
    informer.add_index("color", lambda obj: [obj["data"]["color"]])
    async with Running(informers):
        await put(store, "a", "red")
        await put(store, "b", "red")
        await paint(store, "a", "blue")
        await asyncio.sleep(1)
        assert [name_of(obj) for obj in informer.indexed("color", "red")] == ["b"]
        assert [name_of(obj) for obj in informer.indexed("color", "blue")] == ["a"]
        await store.delete(CONFIG_MAP, "a", "default")
        await asyncio.sleep(1)
        assert informer.indexed("color", "blue") == []


async def test_an_object_that_was_replaced_while_nobody_watched_is_told_once_as_another():
    store = await a_store()
    await put(store, "a", "red")
    troubled = Troubled(store, Gone("compacted"))
    informers = informers_of(troubled)
    informer = informers.of(CONFIG_MAP)
    told = []
    async with Running(informers):
        informer.subscribe(lambda before, after: told.append((before and before["data"], after and after["data"])))
        await paint(store, "a", "blue")
        await asyncio.sleep(0)
        await store.delete(CONFIG_MAP, "a", "default")
        await put(store, "a", "green")
        await asyncio.sleep(60)
        assert colors(informer) == {"a": "green"}
        assert told[0] == (None, {"color": "red"})
        assert told[-1][1] == {"color": "green"}


class Data(msgspec.Struct, frozen=True):
    color: str


class View(msgspec.Struct, frozen=True):
    data: Data


async def test_a_view_is_decoded_once_for_each_version_and_forgotten_with_its_object():
    store = await a_store()
    await put(store, "a", "red")
    informers = informers_of(store)
    informer = informers.of(CONFIG_MAP)
    views = informer.views(View)
    async with Running(informers):
        first = views(informer.get("default/a"))
        assert first.data.color == "red"
        assert views(informer.get("default/a")) is first
        await paint(store, "a", "blue")
        await asyncio.sleep(1)
        assert views(informer.get("default/a")).data.color == "blue"
        await store.delete(CONFIG_MAP, "a", "default")
        await asyncio.sleep(1)
        assert views._known == {}


@pytest.mark.parametrize("ordered", [True, False], ids=["versions are numbers", "versions are opaque"])
async def test_an_own_write_is_seen_when_the_watch_has_told_it(ordered):
    store = await a_store()
    informers = informers_of(store, ordered)
    informer = informers.of(CONFIG_MAP)
    calls = []
    async with Running(informers):
        made = await put(store, "a")
        assert informer.call_when_seen(made, lambda: calls.append("made")) is False
        await asyncio.sleep(1)
        assert calls == ["made"]
        painted = await paint(store, "a", "blue")
        await paint(store, "a", "green")
        await asyncio.sleep(1)
        assert informer.call_when_seen(painted, lambda: calls.append("painted")) is True
        gone = await store.delete(CONFIG_MAP, "a", "default")
        assert informer.call_when_seen(gone, lambda: calls.append("gone"), deleted=True) is False
        await asyncio.sleep(1)
        assert calls == ["made", "gone"]
        assert informer._awaited == {}


async def test_a_handler_that_fails_about_one_object_is_told_of_it_again_and_meanwhile_of_all_others():
    store = await a_store()
    informers = informers_of(store)
    informer = informers.of(CONFIG_MAP)
    told, also_told = [], []

    def handler(before, after):
        states = tuple(each and each["data"]["color"] for each in (before, after))
        told.append((name_of(after or before), *states))
        if states[1] == "odd":
            raise KeyError("no such color")

    informer.subscribe(handler)
    informer.subscribe(lambda before, after: also_told.append(name_of(after or before)))
    await put(store, "a")
    await put(store, "b", "odd")
    with structlog.testing.capture_logs() as logs:
        async with Running(informers):
            await paint(store, "a", "blue")
            await paint(store, "a", "odd")
            await asyncio.sleep(600)
            failures = [each for each in logs if each["log_level"] == "error"]
            assert {(each["key"], type(each["exc_info"])) for each in failures} == {
                ("default/a", KeyError),
                ("default/b", KeyError),
            }
            assert 20 < len(failures) < 100  # again and again, with growing delay
            assert {each for each in told if each[0] == "b"} == {("b", None, "odd")}
            assert also_told == ["a", "b", "a", "a"]
            told.clear()
            await paint(store, "a", "green")
            await store.delete(CONFIG_MAP, "b", "default")
            await asyncio.sleep(600)
    assert told == [("a", "blue", "green")]  # from where it last heard of it; of b it never did
    assert len([each for each in logs if each["log_level"] == "error"]) == len(failures)


@pytest.mark.parametrize("value", [None, 7, [["x"]]], ids=["no values", "a number", "what is no key"])
async def test_an_object_that_an_index_cannot_take_is_in_it_once_it_can(value):
    store = await a_store()
    informers = informers_of(store)
    informer = informers.of(CONFIG_MAP)
    informer.add_index("color", lambda obj: value if obj["data"]["color"] == "odd" else (obj["data"]["color"],))
    await put(store, "a", "odd")
    await put(store, "b")
    with structlog.testing.capture_logs() as logs:
        async with Running(informers):
            assert [name_of(each) for each in informer.indexed("color", "red")] == ["b"]
            await paint(store, "a", "red")
            await asyncio.sleep(1)
            assert sorted(name_of(each) for each in informer.indexed("color", "red")) == ["a", "b"]
            await paint(store, "b", "odd")
            await asyncio.sleep(1)
            assert [name_of(each) for each in informer.indexed("color", "red")] == ["a"]
            assert len(informer) == 2
    assert [each["key"] for each in logs if each["log_level"] == "error"] == ["default/a", "default/b"]
