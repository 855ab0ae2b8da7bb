"""What the controllers of a real cluster do beside resizing."""

import pytest
import structlog
from prometheus_client import CollectorRegistry

from headrace.runtime.clock import LoopClock
from headrace.serve.cluster import Term
from headrace.serve.cluster_jobs import cluster_jobs
from headrace.store.protocol import Forbidden, Unavailable
from tests.runtime.home import controllers, open_store, wall

pytestmark = pytest.mark.looptime


class Answering:
    """A server that answers the first reads with these errors."""

    def __init__(self, store, *errors):
        self._store, self.errors = store, list(errors)

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def get(self, *where):
        if self.errors:
            raise self.errors.pop(0)
        return await self._store.get(*where)


@pytest.mark.parametrize(
    ("errors", "left"),
    [
        pytest.param([Unavailable("starting"), Unavailable("starting")], 0, id="a server that starts is asked again"),
        pytest.param([Forbidden("no"), Forbidden("no")], 1, id="one that forbids it is not"),
    ],
)
async def test_definitions_are_installed(errors, left):
    store = await open_store()
    answering = Answering(store, *errors)
    clock, log = LoopClock(wall), structlog.get_logger()
    term = Term(None, controllers(store), answering, None, CollectorRegistry(), clock, log)
    define, *_ = cluster_jobs(term)
    await define()
    assert len(answering.errors) == left
