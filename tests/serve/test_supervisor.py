"""Parts of `headrace up` that cannot be started for a while."""

import asyncio

import pytest
import structlog

from headrace.serve import supervisor
from headrace.serve.supervisor import supervise

pytestmark = pytest.mark.looptime


class Child:
    """Runs until it is told to end."""

    def __init__(self):
        self.ended = asyncio.Event()

    def send_signal(self, number):
        self.ended.set()

    async def wait(self):
        await self.ended.wait()
        return 0


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(BlockingIOError(11, "Resource temporarily unavailable"), id="no process is free"),
        pytest.param(OSError(12, "Cannot allocate memory"), id="no memory is free"),
    ],
)
async def test_a_part_that_cannot_be_started_is_told_and_started_later(monkeypatch, error):
    """Its server ran on without an agent for ever, and said nothing."""
    child, tries, started = Child(), [], asyncio.Event()

    async def create(*_, **__):
        tries.append(asyncio.get_running_loop().time())
        if len(tries) < 4:
            raise error
        started.set()
        return child

    monkeypatch.setattr(supervisor.asyncio, "create_subprocess_exec", create)
    with structlog.testing.capture_logs() as told:
        task = asyncio.create_task(supervise("agent", ("agent",), {}, structlog.get_logger()))
        await started.wait()
    assert [round(at, 1) for at in tries] == [0, 0.4, 1.2, 2.8]
    assert [(each["event"], each["error"]) for each in told] == [("part not started, trying it again", str(error))] * 3
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert child.ended.is_set()
