"""When a certificate cannot be renewed: the agent runs on, the log says why, and it is tried again each minute."""

import asyncio
import time

import pytest
import structlog

from headrace.node import connected
from headrace.node.certificate import Credentials
from headrace.node.connected import RETRY_SECONDS, Server
from headrace.runtime.clock import LoopClock
from tests.cli.test_up import certificate_of

pytestmark = pytest.mark.looptime


class RunsOn:
    """An agent that is never ready and never ends by itself."""

    def __init__(self):
        self.ready, self.was_ended = asyncio.Event(), False

    async def run(self):
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.was_ended = True


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(OSError(28, "No space left on device"), id="a full disk"),
        pytest.param(BlockingIOError(11, "Resource temporarily unavailable"), id="no process is to be had"),
        pytest.param(KeyError("certificate"), id="an answer that is none"),
    ],
)
async def test_an_agent_whose_certificate_cannot_be_renewed_runs_on_and_says_so(tmp_path, monkeypatch, fault):
    """It was put together anew each minute, and its log told nothing."""
    credentials = Credentials(tmp_path / "agent/pki")
    certificate_of("node-a", credentials.directory)
    agent, tries = RunsOn(), []

    async def renew(*_):
        tries.append(asyncio.get_running_loop().time())
        if len(tries) < 4:
            raise fault

    monkeypatch.setattr(connected, "renew", renew)
    in_a_year = LoopClock(lambda: time.time() + 300 * 86400)
    with structlog.testing.capture_logs() as told:
        await connected._until_renewed(
            agent, "node-a", Server("https://x", "x"), credentials, in_a_year, structlog.get_logger(), lambda: None
        )
    assert [round(at) for at in tries] == [RETRY_SECONDS * number for number in (1, 2, 3, 4)]
    assert [each["event"] for each in told] == ["certificate not renewed"] * 3 + ["certificate renewed"]
    assert all(each["error"] == str(fault) for each in told[:3])
    assert agent.was_ended
