"""`headrace agent`, `driver` and `adopt` by themselves: what cannot work is said at once, not tried for ever."""

import tempfile
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.apiserver import pki
from headrace.cli.main import root
from headrace.cli.parts import _agents_of
from headrace.node.certificate import Credentials
from headrace.node.signing import signing_request


def told_by(*arguments):
    done = CliRunner().invoke(root, arguments)
    assert done.exit_code == 2, done.output
    return " ".join(done.output.split())


@pytest.fixture
def short():
    """A driver's unix sockets lie below it, which have no room for a long path."""
    with tempfile.TemporaryDirectory(prefix="headrace-", dir="/tmp") as directory:
        yield Path(directory)


@pytest.mark.parametrize("part", [("agent", "--join", "any"), ("driver", "gpu.example.com")], ids=["agent", "driver"])
@pytest.mark.parametrize(
    "url",
    [
        pytest.param("box", id="a host alone"),
        pytest.param("http://127.0.0.1:7443", id="without TLS"),
        pytest.param("https://", id="no host"),
        pytest.param("https://box:port", id="a port that is no number"),
        pytest.param("https://box:99999", id="a port that cannot be"),
        pytest.param("https://box:7443/api", id="a path"),
        pytest.param("https://[::1", id="half an address"),
    ],
)
def test_a_server_that_is_no_url_of_an_api_is_told_with_what_would_be(tmp_path, part, url):
    """A driver went on for ever, with `Name or service not known` every two seconds."""
    told = told_by(*part, "--server", url, "--data-dir", str(tmp_path))
    assert f"--server {url}: must be the URL of the API, such as https://10.0.0.5:7443" in told


@pytest.mark.parametrize(
    ("url", "streams"),
    [
        ("https://box:7443", "box:7444"),
        ("https://box", "box:7444"),
        ("https://[::1]:7443", "[::1]:7444"),
        ("https://[::1]", "[::1]:7444"),
    ],
)
def test_agents_streams_are_looked_for_on_the_apis_host(url, streams):
    assert _agents_of(url) == streams


@pytest.mark.parametrize("part", [("agent",), ("driver", "gpu.example.com")], ids=["agent", "driver"])
def test_the_directory_of_another_node_is_told_at_once(short, part):
    """Beside `headrace up`, with no directory of its own, a second node's agent waited for the first; a driver ran."""
    now = time.time()
    authority = pki.ensure(short / "ca", now)
    credentials = Credentials(short / "agent" / "pki")
    request = signing_request(credentials.key, "node-a").encode()
    signed = pki.sign_request(authority, request, now, "system:node:node-a", ("system:nodes",))
    credentials.store(signed.decode(), authority.ca_pem().decode())
    place = ("--server", "https://127.0.0.1:1", "--data-dir", str(short / "agent"))
    told = told_by(*part, *place, "--node-name", "node-b")
    assert "belongs to node node-a, and a node keeps its name; give --node-name node-a, or another --data-dir" in told


def test_a_driver_beside_no_agent_is_told_what_to_start(short):
    told = told_by("driver", "gpu.example.com", "--server", "https://127.0.0.1:1", "--data-dir", str(short))
    assert f"no agent has joined a server from {short}; start one there first" in told


def test_a_container_of_a_podman_that_is_not_there_is_told_how_to_start_it(tmp_path):
    done = CliRunner().invoke(root, ["adopt", "web", "--podman-socket", str(tmp_path / "podman.sock")])
    assert done.exit_code == 1
    assert f"podman socket {tmp_path}/podman.sock: No such file or directory; start it (`systemctl" in done.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("stats",), "no such command 'stats'; did you mean 'status'?", id="a slip"),
        pytest.param(("simulate", "cell"), "no such command 'cell'; did you mean 'cel'?", id="a slip in a group"),
        pytest.param(
            ("explain", "pod/web"), "no such command 'pod/web'; did you mean 'pod'?", id="a name as kubectl has"
        ),
        pytest.param(("explain", "node", "box"), "no such command 'node'; there are claim, pod", id="a kind without"),
        pytest.param(("token", "list"), "no such command 'list'; there are create, revoke", id="a verb without"),
    ],
)
def test_a_command_that_is_not_there_is_told_with_those_that_are(arguments, words):
    assert words in told_by(*arguments)
