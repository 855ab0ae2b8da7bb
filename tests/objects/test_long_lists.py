"""A long list without a limit is read in turns: others are served between them, and all of it is of one revision."""

import asyncio

import pytest

from headrace.api.kinds import CONFIG_MAP
from headrace.objects import reading
from tests.objects.stores import opened


@pytest.mark.parametrize("labels", ["", "odd=yes"])
async def test_what_is_written_while_a_long_list_is_read_is_not_in_it(
    monkeypatch: pytest.MonkeyPatch, labels: str
) -> None:
    monkeypatch.setattr(reading, "TURN_ROWS", 4)
    store = await opened()
    for number in range(20):
        meta = {"name": f"c-{number:02}", "labels": {"odd": "yes" if number % 2 else "no"}}
        await store.create(CONFIG_MAP, {"metadata": meta, "data": {"is": "old"}}, "default")
    before = await store.list(CONFIG_MAP, "default", labels=labels, limit=100)

    listing = asyncio.ensure_future(store.list(CONFIG_MAP, "default", labels=labels))
    await asyncio.sleep(0)
    written = 0
    while not listing.done():
        await store.patch(CONFIG_MAP, f"c-{19 - written:02}", "default", fields={"data": {"is": "new"}})
        await store.create(CONFIG_MAP, {"metadata": {"name": f"d-{written}", "labels": {"odd": "yes"}}}, "default")
        await store.delete(CONFIG_MAP, f"c-{10 - written:02}", "default")
        written += 1
        await asyncio.sleep(0)

    assert written > 2, "others had their turn"
    found = await listing
    assert (found.items, found.revision, found.resume) == (before.items, before.revision, "")
