"""Parts run apart: a server, and an agent on another data directory that joins it with a token, once."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.e2e.processes import SERVER, headrace, wait_for

POD = """
apiVersion: v1
kind: Pod
metadata: {name: far}
spec:
  terminationGracePeriodSeconds: 1
  nodeSelector: {kubernetes.io/hostname: node-b}
  containers:
  - {name: main, image: none, command: ["sh", "-c", "echo I run far away; sleep 1000"]}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with headrace(tmp_path_factory.mktemp("server") / "h", *SERVER) as running:
        yield running


def places(server):
    told = json.loads((server.directory / "up.json").read_text())
    return ("--server", told["url"], "--agents-server", f"127.0.0.1:{told['agentsPort']}")


@contextlib.contextmanager
def agent(server, directory, *arguments):
    command = [sys.executable, "-m", "headrace.cli", "agent", *places(server), "--data-dir", str(directory), *arguments]
    log = directory.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield process, log
    finally:
        process.terminate()
        process.wait(timeout=30)


def is_ready(server, node):
    nodes = json.loads(server.run("get", "nodes", "-o", "json"))["items"]
    return any(
        each["type"] == "Ready" and each["status"] == "True"
        for found in nodes
        if found["metadata"]["name"] == node
        for each in found.get("status", {}).get("conditions", ())
    )


def ended_with(server, directory, *arguments):
    with agent(server, directory, *arguments) as (process, log):
        assert process.wait(timeout=60) == 1
        return log.read_text()


def test_an_agent_joins_with_a_token_runs_pods_and_needs_it_only_once(server, tmp_path):
    token = server.run("token", "create", "--node", "node-b").strip()
    stored = server.run("get", "secrets", "-A", "-o", "json")
    assert token.split(".")[2] not in stored, "only the hash of the secret is stored"
    home = tmp_path / "b"
    with agent(server, home, "--node-name", "node-b", "--join", token) as (process, _):
        wait_for("node-b is Ready", lambda: is_ready(server, "node-b"))
        server.run("apply", "-f", "-", text=POD)
        wait_for("its output is here", lambda: "I run far away" in logs(server))
        mapped = Path(f"/proc/{process.pid}/maps").read_text()
        assert "/grpc/" in mapped
        assert "/cryptography/" not in mapped, "10 MB for as long as an agent runs"
    with agent(server, home, "--node-name", "node-b") as (process, _):
        wait_for("it is back without a token", lambda: "far away" in logs(server))
        assert local("status", home) == f"a node agent runs in {home} (pid {process.pid}), whose server is elsewhere\n"
        assert f"an agent runs here (pid {process.pid}), whose server is elsewhere" in local("doctor", home)
        assert "headrace is down; containers run on" in down(home, "--keep-containers")
        assert process.wait(timeout=30) == 0
    with agent(server, home, "--node-name", "node-b") as (process, _):
        wait_for("it is back with its container", lambda: "far away" in logs(server))
        assert "headrace is down; 1 container ended" in down(home, "--grace-period", "1")
        assert process.wait(timeout=30) == 0
    assert f"headrace does not run in {home}" in down(home)
    server.run("delete", "pod", "far", "--grace-period", "0", "--force", "--no-wait")
    again = ended_with(server, tmp_path / "thief", "--node-name", "node-b", "--join", token)
    assert "joining" in again
    assert "Traceback" not in again


def down(directory, *options):
    return local("down", directory, *options)


def local(what, directory, *options):
    command = [sys.executable, "-m", "headrace.cli", what, "--data-dir", str(directory), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=90).stdout


def logs(server):
    try:
        return server.run("logs", "far")
    except AssertionError:
        return ""


@pytest.mark.parametrize(
    ("node", "join", "words"),
    [
        pytest.param("node-z", "", "give --join a token of `headrace token create --node node-z`", id="no token"),
        pytest.param("node-z", "hrjoin.a.b", "is no join token", id="no token's form"),
    ],
)
def test_what_cannot_join_says_what_to_do(server, tmp_path, node, join, words):
    told = ended_with(server, tmp_path / "z", "--node-name", node, *(("--join", join) if join else ()))
    assert words in told
    assert "Traceback" not in told


def test_a_token_is_good_for_the_node_it_names_and_no_other(server, tmp_path):
    token = server.run("token", "create", "--node", "node-c").strip()
    told = ended_with(server, tmp_path / "d", "--node-name", "node-d", "--join", token)
    assert "node-d" in told
    assert "Traceback" not in told


def test_a_token_lets_a_user_do_what_its_role_may_until_it_is_revoked(server, tmp_path):
    token = server.run("token", "create", "--user", "ann", "--ttl", "2h").strip()
    mine = yaml.safe_load(server.kubeconfig.read_text())
    for each in mine["users"]:
        each["user"] = {"token": token}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(mine))
    made = tmp_path / "pod.yaml"
    made.write_text(POD)
    assert "kube-system" in server.run("get", "namespaces", "--kubeconfig", str(kubeconfig))
    told = server.run("apply", "-f", str(made), "--kubeconfig", str(kubeconfig), code=1)
    assert 'User "ann" cannot' in told
    server.run("token", "revoke", token)
    told = server.run("get", "namespaces", "--kubeconfig", str(kubeconfig), code=1)
    assert f"Unauthorized: the server does not take the credentials in {kubeconfig}: revoked" in told
    assert "Name another --kubeconfig" in server.run("doctor", "--kubeconfig", str(kubeconfig), code=1)
    server.run("token", "create", "--user", "ben")
    assert server.run("token", "revoke", "--user", "bne").endswith("among them 0 tokens; is the name right?\n")
    assert server.run("token", "revoke", "--user", "ben").endswith("among them 1 token\n")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param((), "name either --node or --user", id="for nobody"),
        pytest.param(("--node", "a", "--user", "ann"), "name either --node or --user", id="for both"),
        pytest.param(("--node", "a", "--role", "admin"), "--role admin: goes with --user", id="a node with a role"),
        pytest.param(("--user", "system:node:a"), "the server's own", id="a name of the server's own"),
        pytest.param(("--user", "ann", "--ttl", "1w"), "--ttl 1w: must be a number and s, m, h or d", id="weeks"),
    ],
)
def test_a_token_that_cannot_be_is_refused(server, options, words):
    assert words in server.run("token", "create", *options, code=2)


def test_a_second_server_on_the_file_is_refused_with_its_holders_pid(server):
    told = server.run(*SERVER, code=1)
    assert str(server.process.pid) in told
    assert "Traceback" not in told
