"""Credentials that run out while a client lives: token files, plug-ins, and answers of 401."""

import json
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from headrace.client.credentials import Credentials
from headrace.client.errors import ApiError, Unreachable
from headrace.client.http import Client
from headrace.client.kubeconfig import TOKEN_FILE_SECONDS, in_cluster, load


@asynccontextmanager
async def answering(good: list[str], seen: list[str]) -> AsyncIterator[str]:
    """A server that takes the tokens in `good` alone and notes what it was shown."""

    async def answer(request: web.Request) -> web.Response:
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        seen.append(shown)
        return web.json_response({}, status=200 if shown in good else 401)

    app = web.Application()
    app.router.add_route("*", "/{any:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def kubeconfig(directory: Path, server: str, user: dict[str, Any]) -> Path:
    entry = {"name": "a", "user": user}
    document = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "users": [entry],
    }
    path = directory / "config"
    path.write_text(yaml.safe_dump(document))
    return path


def plugin(directory: Path, **status: str) -> dict[str, Any]:
    """A program that prints a credential with its own count in it."""
    program = directory / "plugin"
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    program.write_text(
        f"#!{sys.executable}\nimport pathlib\np = pathlib.Path({str(directory / 'count')!r})\n"
        "n = int(p.read_text()) + 1 if p.exists() else 1\np.write_text(str(n))\n"
        f"print({json.dumps(answer)!r}.replace('COUNT', str(n)))\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin"}}


async def test_a_token_file_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first")
    cluster = load(kubeconfig(tmp_path, "http://a", {"tokenFile": "token"}))
    now = [cluster.good_until or 0.0]
    credentials = Credentials(cluster, wall=lambda: now[0] - 1)
    (tmp_path / "token").write_text("second")
    assert (await credentials.current()).token == "first"
    now[0] += TOKEN_FILE_SECONDS
    assert (await credentials.current()).token == "second"


async def test_inside_a_pod_a_renewed_token_is_taken_when_the_old_one_is_refused(tmp_path: Path) -> None:
    for name in ("ca.crt", "token", "namespace"):
        (tmp_path / name).write_text(name)
    cluster = in_cluster({"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"}, tmp_path)
    credentials = Credentials(cluster)
    (tmp_path / "token").write_text("renewed")
    old = await credentials.current()
    credentials.refuse(old)
    assert (old.token, (await credentials.current()).token) == ("token", "renewed")


async def test_a_plug_in_runs_again_when_its_credential_has_ended(tmp_path: Path) -> None:
    seen: list[str] = []
    async with answering([f"t{number}" for number in range(9)], seen) as server:
        given = plugin(tmp_path, token="tCOUNT", expirationTimestamp="2020-01-01T00:00:00Z")
        async with Client(load(kubeconfig(tmp_path, server, given))) as client:
            await client.request("GET", "/a")
            await client.request("GET", "/b")
    assert len(set(seen)) == len(seen) == 2


async def test_a_refused_credential_is_replaced_once_and_the_request_sent_again(tmp_path: Path) -> None:
    seen: list[str] = []
    async with answering(["t2"], seen) as server:
        cluster = load(kubeconfig(tmp_path, server, plugin(tmp_path, token="tCOUNT")))
        async with Client(cluster) as client:
            await client.request("POST", "/a", body={})
            await client.request("POST", "/b", body={})
    assert seen == ["t1", "t2", "t2"]


async def test_what_is_refused_again_is_an_error(tmp_path: Path) -> None:
    seen: list[str] = []
    async with answering([], seen) as server:
        cluster = load(kubeconfig(tmp_path, server, plugin(tmp_path, token="tCOUNT")))
        async with Client(cluster) as client:
            with pytest.raises(ApiError):
                await client.request("GET", "/a")
    assert seen == ["t1", "t2"]


async def test_a_plug_in_that_fails_later_sends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.client import http

    monkeypatch.setattr(http, "FIRST_DELAY_SECONDS", 0.001)
    seen: list[str] = []
    async with answering(["t1"], seen) as server:
        given = plugin(tmp_path, token="tCOUNT")
        async with Client(load(kubeconfig(tmp_path, server, given))) as client:
            await client.request("GET", "/a")
            (tmp_path / "plugin").write_text("#!/bin/sh\necho no network >&2\nexit 3\n")
            client._credentials.refuse(await client._credentials.current())
            with pytest.raises(Unreachable, match="ended with 3: no network"):
                await client.request("GET", "/b")
    assert seen == ["t1"]
