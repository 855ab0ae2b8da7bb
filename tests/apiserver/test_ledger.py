"""The ledger over HTTP: the guard's own books, with what was deleted and is not confirmed yet; for whom it is told."""

from pathlib import Path

import msgspec
import pytest

from headrace.api.kinds import NODE, POD
from headrace.client.errors import ApiError
from headrace.ledger.document import LEDGER_PATH, BooksDocument
from headrace.store.protocol import Deletion
from tests.apiserver.serving import serving
from tests.ledger.builders import container, node, pod


async def test_what_a_node_has_not_confirmed_is_still_charged_and_named(tmp_path: Path) -> None:
    async with serving(tmp_path) as opened, opened.http() as client, opened.remote() as store:
        await store.create(NODE, node(cpu="4"))
        await store.create(POD, pod("web", container(cpu="1") | {"image": "web"}), "default")
        await store.delete(POD, "web", "default", Deletion(grace_seconds=0))
        books = msgspec.convert(await client.request("GET", LEDGER_PATH), BooksDocument)
        ledger = books.nodes["node-a"]
        (holder,) = ledger.holders
        assert holder == f"Pod default/web (deleted at {books.revision}, not confirmed)"
        assert ledger.holders[holder]["cpu"] == 1000
        assert (ledger.total["cpu"], ledger.allocated["cpu"], ledger.available["cpu"]) == (4000, 1000, 3000)
        confirmed = {"metadata": {"annotations": {"headrace.dev/confirmed-revision": books.revision}}}
        await store.patch(NODE, "node-a", fields=confirmed)
        books = msgspec.convert(await client.request("GET", LEDGER_PATH), BooksDocument)
        assert books.nodes["node-a"].holders == {}


@pytest.mark.parametrize("client", ["viewer", "controller"])
async def test_those_who_may_read_objects_may_read_it(tmp_path: Path, client: str) -> None:
    async with serving(tmp_path) as opened, opened.http(client) as http:
        assert (await http.request("GET", LEDGER_PATH))["nodes"] == {}
        with pytest.raises(ApiError) as refused:
            await http.request("POST", LEDGER_PATH, body={})
        assert refused.value.code in (403, 405)
