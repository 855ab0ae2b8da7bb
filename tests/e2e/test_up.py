"""`headrace up --detach` as README shows it: when it returns, the next command finds what it needs."""

import pytest

from tests.e2e.processes import Headrace

UP = ("up", "--detach", "--port", "0", "--agents-port", "0", "--node-name", "node-a")


@pytest.fixture
def detached(tmp_path):
    running = Headrace(tmp_path / "data", UP)
    yield running
    running.run("down", "--grace-period", "1")


def test_when_up_returns_its_node_is_ready_and_its_log_has_no_chatter(detached):
    assert "node node-a is ready" in detached.run(*UP)
    assert "node-a   Ready" in detached.run("get", "nodes")
    log = (detached.directory / "headrace.log").read_text()
    assert "gRPC" not in log
    assert "fork" not in log
    assert "runs already" in detached.run(*UP, code=1)
