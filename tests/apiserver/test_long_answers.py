"""Long lists in other forms than they are stored in: the same answers as in one go, formed while others are served."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
import yaml

from headrace.api.kinds import CONFIG_MAP, NAMESPACE
from tests.apiserver.serving import Serving, serving

COUNT = 400
PATH = "/api/v1/namespaces/long/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
AWKWARD = {"text": "- a: [1]\n  b: 'it''s'\n", "empty": "", "no": "no"}


async def get(server: Serving, path: str, accept: str) -> bytes:
    cluster = server.cluster()
    connector = aiohttp.TCPConnector(ssl=cluster.tls())
    async with (
        aiohttp.ClientSession(cluster.server, connector=connector) as session,
        session.get(path, headers={"Accept": accept}) as answer,
    ):
        assert answer.status == 200
        return await answer.read()


@pytest.fixture
async def server(tmp_path: Path) -> Any:
    async with serving(tmp_path) as running:
        await running.store.bootstrap()
        await running.store.create(NAMESPACE, {"metadata": {"name": "long"}})
        for number in range(COUNT):
            meta = {"name": f"c-{number:03}", "labels": {"odd": str(number % 2)}}
            await running.store.create(CONFIG_MAP, {"metadata": meta, "data": AWKWARD}, "long")
        yield running


async def test_every_form_has_every_object(server: Serving) -> None:
    whole = orjson.loads(await get(server, PATH, "application/json"))
    assert len(whole["items"]) == COUNT
    assert yaml.safe_load(await get(server, PATH, "application/yaml")) == yaml.safe_load(orjson.dumps(whole))
    table = orjson.loads(await get(server, PATH, TABLE))
    assert [row["cells"][0] for row in table["rows"]] == [item["metadata"]["name"] for item in whole["items"]]
    assert [row["object"]["metadata"] for row in table["rows"]] == [item["metadata"] for item in whole["items"]]
    partial = orjson.loads(await get(server, PATH, METADATA))
    assert [each["metadata"] for each in partial["items"]] == [item["metadata"] for item in whole["items"]]
    assert table["metadata"] == partial["metadata"] == whole["metadata"]
    assert list(table) == ["kind", "apiVersion", "metadata", "columnDefinitions", "rows"]


@pytest.mark.parametrize("accept", [TABLE, METADATA, "application/yaml"])
async def test_no_objects(server: Serving, accept: str) -> None:
    found = yaml.safe_load(await get(server, f"{PATH}?labelSelector=odd%3Dnone", accept))
    assert found["rows" if accept == TABLE else "items"] == []


@pytest.mark.parametrize("accept", [TABLE, METADATA, "application/yaml"])
async def test_others_are_served_meanwhile(server: Serving, accept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rests, rest = [0], server.store.turns.rest

    async def noted() -> None:
        rests[0] += 1
        await rest()

    monkeypatch.setattr(server.store.turns, "rest", noted)
    slow = asyncio.ensure_future(get(server, PATH, accept))
    await get(server, f"{PATH}/c-001", "application/json")
    await slow
    assert rests[0] >= 3, "about eighty rows a turn, or a few objects of YAML"


async def test_a_long_object_as_yaml(server: Serving) -> None:
    data = {f"key-{number}": "x" * 100 for number in range(1_000)}
    await server.store.create(CONFIG_MAP, {"metadata": {"name": "big"}, "data": data}, "long")
    assert yaml.safe_load(await get(server, f"{PATH}/big", "application/yaml"))["data"] == data
