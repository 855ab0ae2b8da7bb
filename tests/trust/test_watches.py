"""Watches whose line is cut at any byte: what a caller sees is ordered, unique and complete, and goes on where it was.

Judged against what the writer knows: each change of each object, by its revision.
"""

import asyncio
import itertools
import random
from collections.abc import Iterable

import pytest

from headrace.api.kinds import CONFIG_MAP
from headrace.client.http import Client
from headrace.store.history import Retention
from headrace.store.kubernetes import KubernetesStore
from headrace.store.protocol import Gone, Unavailable, WatchEvent
from tests.apiserver.serving import Serving, serving
from tests.trust.cutting import CuttingProxy, through

pytestmark = pytest.mark.trust

WRITES = 400
CUTS = 1_000
LONGEST = 3_000
END = "the-end"
Seen = tuple[str, str, int]
"""Type, name and revision of an event."""


def problems(seen: Iterable[Seen], written: Iterable[Seen]) -> list[str]:
    """What is wrong with the events of a watch, given all changes after its start, in order."""
    seen, written = list(seen), list(written)
    wrong = []
    revisions = [revision for _, _, revision in seen]
    if any(later < earlier for earlier, later in itertools.pairwise(revisions)):
        wrong.append("out of order")
    if len(set(revisions)) != len(revisions):
        wrong.append("an event came twice")
    if missing := set(written) - set(seen):
        wrong.append(f"{len(missing)} events are missing, the first is {min(missing, key=lambda each: each[2])}")
    if invented := set(seen) - set(written):
        wrong.append(f"{len(invented)} events never happened: {min(invented, key=lambda each: each[2])}")
    return wrong


async def write(opened: Serving, count: int, seed: int) -> list[Seen]:
    """Creates, changes and deletes; what each did."""
    chance, there, done = random.Random(seed), set[str](), list[Seen]()
    for number in range(count):
        name = f"object-{chance.randrange(8)}"
        if name in there and chance.random() < 0.2:
            there.remove(name)
            gone = await opened.store.delete(CONFIG_MAP, name, "default")
            done.append(("DELETED", name, opened.store.rows.revision))
            assert gone["metadata"]["name"] == name
        elif name in there:
            fields = {"data": {"text": f"{number}" + "é" * chance.randrange(200)}}
            changed = await opened.store.patch(CONFIG_MAP, name, "default", fields=fields)
            done.append(("MODIFIED", name, int(changed["metadata"]["resourceVersion"])))
        else:
            there.add(name)
            made = await opened.store.create(CONFIG_MAP, {"metadata": {"name": name}}, "default")
            done.append(("ADDED", name, int(made["metadata"]["resourceVersion"])))
        if number % 5 == 0:
            await asyncio.sleep(0.001)
    return done


async def watched(store: KubernetesStore, since: str) -> list[Seen]:
    """Events until END is made. A broken line is taken up at the last revision seen, never by listing again."""
    seen: list[Seen] = []
    while True:
        try:
            async for event in store.watch(CONFIG_MAP, "default", since=since):
                since = event.object["metadata"]["resourceVersion"]
                if event.type == "BOOKMARK":
                    continue
                name = event.object["metadata"]["name"]
                if name == END:
                    return seen
                seen.append((event.type, name, int(since)))
        except Unavailable:
            await asyncio.sleep(0)


async def trial(opened: Serving, next_cut, seed: int) -> tuple[list[Seen], list[Seen], int]:
    """A watch through the proxy while somebody writes: what was seen, what was written, how often it was cut."""
    since = str(opened.store.rows.revision)
    proxy = CuttingProxy(opened.running.port, opened.directory / "pki", next_cut)
    async with proxy.running() as port, Client(through(opened.cluster(), port)) as client:
        watching = asyncio.create_task(watched(KubernetesStore(client), since))
        written = await write(opened, WRITES, seed)
        await opened.store.create(CONFIG_MAP, {"metadata": {"name": END}}, "default")
        seen = await asyncio.wait_for(watching, 120)
    await opened.store.delete(CONFIG_MAP, END, "default")
    for name in {name for _, name, _ in written}:
        if (await opened.store.list(CONFIG_MAP, "default", fields=f"metadata.name={name}")).items:
            await opened.store.delete(CONFIG_MAP, name, "default")
    return seen, written, proxy.cuts


async def test_1000_cuts_at_any_byte_hide_double_and_reorder_nothing(tmp_path):
    chance, cuts, events = random.Random(1), 0, 0
    async with serving(tmp_path) as opened:
        while cuts < CUTS:
            seen, written, made = await trial(opened, lambda: chance.randrange(200, LONGEST), seed=cuts)
            assert problems(seen, written) == []
            cuts, events = cuts + made, events + len(seen)
    print(f"\n{cuts} cuts at random bytes, {events} events: ordered, unique, complete, resumed each time")


async def test_a_line_cut_at_each_of_its_first_bytes_resumes(tmp_path):
    """The status line, each header, the first chunk's size, the first event: byte by byte, then it is left alone."""
    counter = iter(range(1, 700))
    async with serving(tmp_path) as opened:
        seen, written, cuts = await trial(opened, lambda: next(counter, None), seed=5)
    assert problems(seen, written) == []
    assert cuts > 500
    print(f"\ncut at each of the first {cuts} bytes of an answer: nothing lost")


async def test_a_watch_of_what_is_compacted_is_told_so_and_never_goes_on_with_a_hole(tmp_path):
    async with serving(tmp_path, retention=Retention(revisions=50, seconds=0, most=50)) as opened:
        since = str(opened.store.rows.revision)
        await write(opened, 200, seed=3)
        async with opened.remote() as store:
            with pytest.raises(Gone):
                await anext(store.watch(CONFIG_MAP, "default", since=since))


WRITTEN: list[Seen] = [("ADDED", "a", 2), ("MODIFIED", "a", 3), ("ADDED", "b", 4), ("DELETED", "a", 5)]
WRONG = {
    "a lost event": [WRITTEN[0], *WRITTEN[2:]],
    "a lost last event": WRITTEN[:-1],
    "an event that comes twice": [*WRITTEN, WRITTEN[-1]],
    "events out of order": [WRITTEN[1], WRITTEN[0], *WRITTEN[2:]],
    "an event that never happened": [*WRITTEN, ("ADDED", "c", 6)],
    "another type than it was": [("MODIFIED", "a", 2), *WRITTEN[1:]],
}


@pytest.mark.parametrize("seen", WRONG.values(), ids=WRONG)
def test_control_wrong_events_are_noticed(seen):
    assert problems(WRITTEN, WRITTEN) == []
    assert problems(seen, WRITTEN) != []


async def test_control_a_caller_that_loses_an_event_at_a_cut_is_noticed(tmp_path, monkeypatch):
    """It resumes one revision too late."""
    honest = KubernetesStore.watch

    async def forgetful(self, kind, namespace="", *, since="", **more):
        events = honest(self, kind, namespace, since=str(int(since) + 1), **more)
        async for event in events:
            yield WatchEvent(event.type, event.object)

    monkeypatch.setattr(KubernetesStore, "watch", forgetful)
    async with serving(tmp_path) as opened:
        seen, written, _ = await trial(opened, lambda: 5_000, seed=2)
    assert problems(seen, written) != []
