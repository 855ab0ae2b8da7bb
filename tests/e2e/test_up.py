"""`headrace up --detach` as README shows it: when it returns, the next command finds what it needs."""

import json
import os
import signal
import subprocess

import pytest

from tests.e2e.processes import Headrace, wait_for

UP = ("up", "--detach", "--port", "0", "--agents-port", "0", "--node-name", "node-a")


@pytest.fixture
def detached(tmp_path_factory):
    running = Headrace(tmp_path_factory.mktemp("up") / "h", UP)  # a driver's socket has no room for a longer path
    running.directory.mkdir()
    (running.directory / "test.log").touch()  # what `run` shows when a command fails
    yield running
    running.run("down", "--grace-period", "1")


def test_when_up_returns_its_node_is_ready_and_its_log_has_no_chatter(detached):
    assert "node node-a is ready" in detached.run(*UP, "--simulated-devices")
    assert "node-a   Ready" in detached.run("get", "nodes")
    assert "gpu.example.com" in detached.run("get", "resourceslices")
    log = (detached.directory / "headrace.log").read_text()
    assert "gRPC" not in log
    assert "fork" not in log
    assert "runs already" in detached.run(*UP, code=1)


@pytest.mark.slow
def test_what_a_killed_server_had_started_ends_with_it_so_that_a_node_has_one_agent(detached):
    detached.run(*UP)
    assert len(parts(detached.directory)) == 1
    pid = json.loads((detached.directory / "up.json").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for("its agent ends", lambda: not parts(detached.directory))
    detached.run(*UP)
    assert len(parts(detached.directory)) == 1


def parts(directory):
    told = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in told.splitlines() if "headrace.cli agent" in line and str(directory) in line]
