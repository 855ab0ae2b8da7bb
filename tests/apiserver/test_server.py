"""The server as a whole: what it keeps over a restart, how it stops, and when it says that it is full."""

import asyncio
import dataclasses
import socket
import time
from contextlib import aclosing
from pathlib import Path

import pytest

from headrace.api.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE, NODE, POD, Kind
from headrace.apiserver import lanes
from headrace.apiserver.identity import ADMIN
from headrace.apiserver.server import serve
from headrace.client.errors import ApiError, Unreachable
from headrace.client.http import Client
from headrace.serve.credentials import end_user
from headrace.store.protocol import Refused
from tests.apiserver.serving import Serving, serving
from tests.node.eventually import eventually

WIDGET = Kind("example.com", "v1", "Widget", "widgets")
DEFINITION = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}


async def test_a_restart_keeps_objects_kinds_and_credentials(tmp_path: Path) -> None:
    async with serving(tmp_path, durable=True) as first, first.remote() as store:
        await store.create(CUSTOM_RESOURCE_DEFINITION, DEFINITION)
        await store.create(WIDGET, {"metadata": {"name": "w"}}, "default")
        before = first.cluster()
    async with serving(tmp_path, durable=True) as second, second.remote() as store:
        assert (await store.get(WIDGET, "w", "default"))["metadata"]["name"] == "w"
        assert second.cluster().certificate_pem == before.certificate_pem
        names = {item["metadata"]["name"] for item in (await store.list(NAMESPACE)).items}
        assert names == {"default", "kube-system", "kube-public", "kube-node-lease"}


async def test_an_administrator_who_was_revoked_is_given_another_kubeconfig_by_the_next_start(tmp_path: Path) -> None:
    async with serving(tmp_path, durable=True) as first, first.http() as client:
        old, viewer = first.cluster(), first.cluster("viewer")
        assert await end_user(client, ADMIN) == 0, "the answer still comes, though nothing after it would"
        async with first.http(cluster=old) as refused:
            with pytest.raises(ApiError, match="Unauthorized"):
                await refused.request("GET", "/api/v1/namespaces")
        issued_seconds = int(time.time())
    await eventually(lambda: int(time.time()) > issued_seconds)  # certificates have whole seconds
    async with serving(tmp_path, durable=True) as second, second.http() as client:
        await client.request("GET", "/api/v1/namespaces")
        async with second.http(cluster=dataclasses.replace(old, server=second.running.url)) as refused:
            with pytest.raises(ApiError, match="Unauthorized"):
                await refused.request("GET", "/api/v1/namespaces")
        assert second.cluster("viewer").certificate_pem == viewer.certificate_pem
        new = second.cluster()
    async with serving(tmp_path, durable=True) as third:
        assert third.cluster().certificate_pem == new.certificate_pem, "once"


async def test_it_stops_at_once_with_watches_open_and_finishes_answers(tmp_path: Path) -> None:
    async with serving(tmp_path) as opened:
        client = Client(opened.cluster())
        await client.__aenter__()
        watch = client.documents("/api/v1/namespaces", query={"watch": "1"})
        await anext(watch)
        began = time.monotonic()
    assert time.monotonic() - began < 2
    assert [event async for event in watch if event["type"] == "ERROR"] == []
    await client.__aexit__(None, None, None)


async def test_a_taken_address_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with serving(tmp_path) as opened:
            with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{port}: Address already in use"):
                async with serve(opened.store, data_dir=tmp_path / "other", port=port):
                    pass


async def test_what_fails_while_it_serves_comes_out_as_it_was(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with serving(tmp_path):
            raise ZeroDivisionError


async def test_full_lanes_say_when_to_come_back_and_heartbeats_have_their_own(
    server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.client import http

    monkeypatch.setattr(http, "TRIES", 1)
    monkeypatch.setitem(lanes._LIMITS, "writes", 0)
    async with server.http() as client:
        with pytest.raises(ApiError) as refusal:
            await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "a"}})
        assert (refusal.value.code, refusal.value.reason) == (429, "TooManyRequests")
        assert refusal.value.details["retryAfterSeconds"] == 1
        await client.request("GET", "/api/v1/namespaces")
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        await client.request("POST", leases, body={"metadata": {"name": "a"}, "spec": {}})


async def test_the_client_comes_back_after_429(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lanes._LIMITS, "writes", 0)
    asked = asyncio.Event()
    original = lanes.too_many

    def told(*words: str) -> object:
        asked.set()
        return original(*words)

    monkeypatch.setattr(lanes, "too_many", told)
    async with server.http() as client, asyncio.timeout(10):
        waiting = asyncio.create_task(client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "late"}}))
        await asked.wait()
        monkeypatch.setitem(lanes._LIMITS, "writes", 1)
        assert (await waiting)["metadata"]["name"] == "late"


async def test_a_wish_that_does_not_fit_is_refused_with_what_is_missing_and_who_holds_it(server: Serving) -> None:
    capacity = {"cpu": "1", "memory": "1Gi", "pods": "10"}
    await server.store.create(NODE, {"metadata": {"name": "n"}})
    status = {"status": {"capacity": capacity, "allocatable": capacity}}
    await server.store.patch(NODE, "n", fields=status, subresource="status")
    for name, cpu in (("first", "700m"), ("second", "600m")):
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        await server.store.create(POD, {"metadata": {"name": name}, "spec": {"containers": [container]}}, "default")
    binding = {"target": {"kind": "Node", "name": "n"}}
    async with server.http() as client, server.remote() as store:
        await store.create_subresource(POD, "first", "default", "binding", binding)
        with pytest.raises(ApiError) as answer:
            await client.request("POST", "/api/v1/namespaces/default/pods/second/binding", body=binding)
        with pytest.raises(Refused) as refusal:
            await store.create_subresource(POD, "second", "default", "binding", binding)
    assert (answer.value.code, answer.value.reason) == (403, "Forbidden")
    (cause,) = answer.value.details["causes"]
    assert (cause["reason"], cause["field"]) == ("InsufficientCapacity", "cpu")
    assert cause["message"] == str(refusal.value.shortfall)
    assert refusal.value.shortfall.missing == {"cpu": 300}
    assert "700m" in str(refusal.value.shortfall)
    assert any("first" in holder for holder in refusal.value.shortfall.holders)


async def test_a_watch_of_a_stopped_server_fails_and_does_not_hang(tmp_path: Path) -> None:
    async with serving(tmp_path) as opened:
        cluster = opened.cluster()
    async with Client(cluster) as client, asyncio.timeout(10):
        with pytest.raises(Unreachable):
            async with aclosing(client.documents("/api/v1/namespaces", query={"watch": "1"})) as documents:
                await anext(documents)


async def test_metrics_count_what_was_asked(server: Serving) -> None:
    await server.store.create(CONFIG_MAP, {"metadata": {"name": "a"}}, "default")
    async with server.http() as client:
        await client.request("GET", "/api/v1/namespaces/default/configmaps/a")
        with pytest.raises(ApiError):
            await client.request("GET", "/api/v1/namespaces/default/secret-name/ghost")
        text = await client.text("/metrics")
    assert 'apiserver_request_total{code="200",resource="configmaps",verb="get"} 1.0' in text
    assert 'apiserver_current_inflight_requests{lane="reads"} 1.0' in text, "the question itself"
    assert "apiserver_longrunning_requests 0.0" in text
    assert "secret-name" not in text, "a path is a caller's text and must not become a metric"
