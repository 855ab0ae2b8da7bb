"""Commands at a server that is stopped: a word soon, and an end."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from headrace.cli import connection
from headrace.cli.main import root


@pytest.fixture
def url() -> Iterator[str]:
    """Where connections are taken and nobody ever shakes hands."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"https://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize(
    "command", [("get", "pods"), ("capacity",), ("logs", "web"), ("token", "revoke", "abc")], ids=" ".join
)
def test_a_server_that_is_stopped_is_told_once_and_ends_the_command(
    tmp_path: Path, url: str, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SILENT_SECONDS", 0.02)
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.2)
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    done = CliRunner().invoke(root, [*command, "--kubeconfig", str(tmp_path / "kubeconfig")])
    assert done.exit_code == 1
    assert done.output.splitlines() == [
        f"{url} does not answer yet; waiting",
        f"Error: {url}: no connection within 0.2 s; is it running? `headrace status` shows it",
    ]
