"""A credential that is revoked is refused within a second by the real server, and what it had open is cut."""

import asyncio
import contextlib
import threading
import time

import pytest

from headrace.apiserver.tokens import create_bearer_token, revoke_token, revoke_user
from headrace.client.http import Client
from headrace.client.kubeconfig import load
from headrace.store.kubernetes import KubernetesStore
from tests.trust.servers import Caller, Server, directory_of_server
from tests.trust.writers import CONFIG_MAPS, NO_ANSWER

pytestmark = pytest.mark.trust

REVOKED_SECONDS = 1.0
ROUNDS = 10
VIEWERS = ("headrace:viewers",)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with directory_of_server(tmp_path_factory.mktemp("revoked") / "data") as running:
        running.start()
        yield running


def as_admin(server: Server, work):
    """Runs `work(store)` with the administrator's credentials, in a process that is not the server."""

    async def whole():
        async with Client(load(server.directory / "kubeconfig")) as client:
            return await work(KubernetesStore(client))

    return asyncio.run(whole())


class OpenWatch:
    """A watch on a connection of its own; `ended` is when its stream ended."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.began, self.ended = threading.Event(), 0.0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        assert self.began.wait(20)

    def _read(self) -> None:
        with contextlib.suppress(*NO_ANSWER):
            answer = self._caller.open(f"{CONFIG_MAPS}?watch=true&resourceVersion=0")
            assert answer.status == 200
            self.began.set()
            while answer.read1(65536):
                pass
        self.ended = time.monotonic()

    def wait(self) -> float:
        self._thread.join(20)
        assert self.ended, "the watch is open still"
        return self.ended


def seconds_until_refused(caller: Caller, since: float) -> float:
    """Asks on, on the connection that it had, until the answer is 401."""
    while True:
        code, _ = caller.call("GET", CONFIG_MAPS)
        seconds = time.monotonic() - since
        if code == 401:
            return seconds
        assert code == 200
        assert seconds < 10, "it is not refused"


def test_a_revoked_bearer_token_is_refused_within_a_second_and_its_watch_is_cut(server):
    refused, cut = [], []
    for number in range(ROUNDS):
        token = as_admin(
            server, lambda store, n=number: create_bearer_token(store, f"reader-{n}", VIEWERS, time.time())
        )
        caller = server.caller(token=token)
        assert caller.call("GET", CONFIG_MAPS)[0] == 200
        watch = OpenWatch(server.caller(token=token))
        as_admin(server, lambda store, text=token: revoke_token(store, text.split(".")[1]))
        since = time.monotonic()
        refused.append(seconds_until_refused(caller, since))
        cut.append(watch.wait() - since)
    print(
        f"\nbearer tokens: {ROUNDS} revoked, refused after ≤ {max(refused):.3f} s, watches cut after ≤ {max(cut):.3f} s"
    )
    assert max(refused) <= REVOKED_SECONDS
    assert max(cut) <= REVOKED_SECONDS


def test_a_revoked_certificate_is_refused_within_a_second_and_its_watch_is_cut(server):
    caller = server.caller(kubeconfig="viewer.kubeconfig")
    assert caller.call("GET", CONFIG_MAPS)[0] == 200
    watch = OpenWatch(server.caller(kubeconfig="viewer.kubeconfig"))
    as_admin(server, lambda store: revoke_user(store, "viewer", time.time()))
    since = time.monotonic()
    refused = seconds_until_refused(caller, since)
    cut = watch.wait() - since
    assert server.caller(kubeconfig="viewer.kubeconfig").call("GET", CONFIG_MAPS)[0] == 401, "on a new connection too"
    print(f"\ncertificate: refused after {refused:.3f} s, its watch cut after {cut:.3f} s")
    assert max(refused, cut) <= REVOKED_SECONDS


def test_a_revoked_credential_stays_refused_after_a_restart(server):
    token = as_admin(server, lambda store: create_bearer_token(store, "twice", VIEWERS, time.time()))
    as_admin(server, lambda store: revoke_token(store, token.split(".")[1]))
    server.kill()
    server.start()
    assert server.caller(token=token).call("GET", CONFIG_MAPS)[0] == 401


def test_the_command_line_revokes_a_token_and_a_user(server):
    token = as_admin(server, lambda store: create_bearer_token(store, "by-hand", VIEWERS, time.time()))
    other = as_admin(server, lambda store: create_bearer_token(store, "by-hand", VIEWERS, time.time()))
    assert server.run("token", "revoke", token).returncode == 0
    assert [server.caller(token=each).call("GET", CONFIG_MAPS)[0] for each in (token, other)] == [401, 200]
    assert server.run("token", "revoke", "--user", "by-hand").returncode == 0
    assert server.caller(token=other).call("GET", CONFIG_MAPS)[0] == 401
    again = server.run("token", "revoke", token)
    assert again.returncode == 1
    assert "not found" in again.stderr


def test_control_a_token_that_is_not_revoked_is_not_refused(server):
    token = as_admin(server, lambda store: create_bearer_token(store, "kept", VIEWERS, time.time()))
    watch = OpenWatch(server.caller(token=token))
    with pytest.raises(AssertionError, match="not refused"):
        seconds_until_refused(server.caller(token=token), time.monotonic() - 9)
    assert not watch.ended
