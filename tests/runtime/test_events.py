"""What the recorder does with an event that cannot be written."""

import pytest
import structlog

from headrace.api.kinds import EVENT, NAMESPACE, POD
from headrace.runtime.actions import Event
from tests.runtime.home import controllers, open_store, running

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


class Broken(str):
    """Text that fails halfway, as a fault of ours would."""

    __slots__ = ()

    def encode(self, *_, **__):
        raise KeyError("gone")


async def test_an_event_that_cannot_be_written_is_told_by_name_and_the_next_one_is_written():
    store = await open_store()
    await store.create(NAMESPACE, {"metadata": {"name": "default"}})
    manager = controllers(store)
    with structlog.testing.capture_logs() as logs:
        async with running(manager):
            for message in (Broken("x"), "half a character: \ud800", "well"):
                event = Event(POD, "default", "web", "uid", "Normal", "Told", message)
                manager.recorder.record(event)
            await manager.recorder.flush()
    told = [each["message"] for each in (await store.list(EVENT, "default")).items]
    assert told == ["half a character: ?", "well"]
    assert [each["key"] for each in logs if each["log_level"] == "error"] == ["default/web"]
