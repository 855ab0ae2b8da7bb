"""What a machine is told that cannot join."""

import socket
from pathlib import Path

import pytest

from headrace.client import http
from headrace.node.certificate import Credentials
from headrace.node.joining import JoinFailed, join


async def test_a_server_that_cannot_be_reached_is_told_with_what_to_look_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "FIRST_DELAY_SECONDS", 0.001)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        url = f"https://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(JoinFailed) as failed:
            await join(url, "hrjoin.a.b.c", "node-b", Credentials(tmp_path / "pki"))
    assert str(failed.value).startswith(f"{url}: Connection refused; is the server running, ")
    assert "`headrace up --host ADDRESS`" in str(failed.value)
