"""Bindings, evictions, options of a deletion: what small bodies say wrongly is told, not obeyed."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from headrace.api.kinds import POD, SECRET
from headrace.apiserver.credentials import NAMESPACE, object_name
from headrace.apiserver.tokens import create_bearer_token
from headrace.client.errors import ApiError
from headrace.client.http import Client
from headrace.client.kubeconfig import Cluster
from headrace.store.protocol import Deletion
from tests.apiserver.serving import Serving

POD_PATH = "/api/v1/namespaces/default/pods/web"


@pytest.fixture
async def client(server: Serving) -> AsyncIterator[Client]:
    await server.store.create(
        POD, {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}, "default"
    )
    async with server.http() as opened:
        yield opened


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        pytest.param("POST", "/binding", {"metadata": "x", "target": {"name": "n"}}, id="a binding without metadata"),
        pytest.param(
            "POST", "/binding", {"metadata": {"labels": ["a"]}, "target": {"name": "n"}}, id="a binding's list"
        ),
        pytest.param("POST", "/binding", {"target": "n"}, id="a binding to a text"),
        pytest.param("POST", "/eviction", {"metadata": 5}, id="an eviction of a number"),
        pytest.param("POST", "/eviction", {"deleteOptions": "now"}, id="an eviction's options in words"),
        pytest.param(
            "POST", "/eviction", {"deleteOptions": {"gracePeriodSeconds": "1"}}, id="an eviction's text of time"
        ),
        pytest.param("POST", "/eviction", {"deleteOptions": {"dryRun": ["Some"]}}, id="an eviction that is half dry"),
        pytest.param("POST", "/eviction", {"deleteOptions": {"propagationPolicy": "X"}}, id="an eviction of no policy"),
        pytest.param("DELETE", "", {"preconditions": "x"}, id="a deletion's condition in words"),
        pytest.param("DELETE", "", {"preconditions": {"uid": ["x"]}}, id="a deletion's list of uids"),
        pytest.param("DELETE", "", {"gracePeriodSeconds": "soon"}, id="a deletion's text of time"),
        pytest.param("DELETE", "", {"propagationPolicy": ["Orphan"]}, id="a deletion's list of policies"),
    ],
)
async def test_what_has_the_wrong_type_is_refused(
    server: Serving, client: Client, method: str, path: str, body: dict[str, Any]
) -> None:
    with pytest.raises(ApiError) as refused:
        await client.request(method, POD_PATH + path, body=body)
    assert refused.value.code == 400, refused.value
    assert "deletionTimestamp" not in (await server.store.get(POD, "web", "default"))["metadata"]


async def test_nulls_count_as_left_out(client: Client) -> None:
    await client.request("POST", POD_PATH + "/eviction", body={"metadata": None, "deleteOptions": None})


@pytest.mark.parametrize("then", ["broken", "broken and deleted"])
async def test_a_token_whose_secret_is_broken_grants_nothing(server: Serving, then: str) -> None:
    token = await create_bearer_token(server.store, "viewer", ("headrace:viewers",), server.now())
    admin = server.cluster()
    async with Client(Cluster(admin.server, ca_pem=admin.ca_pem, token=token)) as holder:
        await holder.request("GET", "/api/v1/namespaces")
        name = object_name("bearer", token.split(".")[1])
        await server.store.patch(SECRET, name, NAMESPACE, fields={"data": {"hash": None}})
        if then == "broken and deleted":
            await server.store.delete(SECRET, name, NAMESPACE, Deletion())
        with pytest.raises(ApiError) as refused:
            await holder.request("GET", "/api/v1/namespaces")
    assert refused.value.code == 401
