import asyncio

import pytest

from headrace.runtime.backoff import Backoff
from headrace.runtime.queue import Queue, Stopped
from headrace.runtime.refusals import Refusal, Refusals

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


class Counted:
    """What the queue told its metrics."""

    def __init__(self):
        self.depth, self.waited, self.worked = 0, [], []

    def added(self, depth):
        self.depth = depth

    def taken(self, depth, waited_seconds):
        self.depth = depth
        self.waited.append(waited_seconds)

    def done(self, worked_seconds):
        self.worked.append(worked_seconds)


def make():
    return Queue(asyncio.get_running_loop().time, Counted())


async def test_a_key_added_many_times_is_given_out_once():
    queue = make()
    for key in ("a", "b", "a", "a"):
        queue.add(key)
    assert [await queue.take(), await queue.take()] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_in_work_is_not_given_to_a_second_worker_and_no_change_is_missed():
    queue = make()
    queue.add("a")
    assert await queue.take() == "a"
    queue.add("a")
    queue.add("b")
    assert await queue.take() == "b"
    assert len(queue) == 0
    queue.done("a")
    assert await queue.take() == "a"


async def test_of_several_delays_for_a_key_the_earliest_counts():
    queue, loop = make(), asyncio.get_running_loop()
    started = loop.time()
    queue.add_after("a", 60)
    queue.add_after("a", 5)
    queue.add_after("a", 30)
    assert await queue.take() == "a"
    assert loop.time() - started == pytest.approx(5)
    queue.done("a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.take(), 3600)


async def test_a_waiting_worker_that_is_cancelled_does_not_swallow_a_key():
    queue = make()
    first, second = asyncio.create_task(queue.take()), asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await asyncio.wait_for(second, 1) == "a"


async def test_shutting_down_lets_the_key_in_work_finish_and_drops_the_rest():
    queue = make()
    queue.add("a")
    queue.add("b")
    queue.add_after("c", 1)
    assert await queue.take() == "a"
    queue.shut_down()
    queue.add("d")
    queue.done("a")
    with pytest.raises(Stopped):
        await queue.take()


async def test_waiting_and_working_times_are_measured():
    queue = make()
    queue.add("a")
    await asyncio.sleep(2)
    await queue.take()
    await asyncio.sleep(3)
    queue.done("a")
    assert queue._metrics.waited == [pytest.approx(2)]
    assert queue._metrics.worked == [pytest.approx(3)]


async def test_delays_double_up_to_a_bound_with_jitter_and_start_anew_after_a_success():
    low, high = Backoff(lambda: 0.0, 1.0, 10.0), Backoff(lambda: 1.0, 1.0, 10.0)
    assert [high.failed("a") for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    assert [low.failed("a") for _ in range(6)] == [0.5, 1, 2, 4, 5, 5]
    for _ in range(2000):
        high.failed("a")
    assert high.failed("a") == 10
    high.succeeded("a")
    assert high.failed("a") == 1
    assert high.failed("b") == 1


async def test_a_refusal_counts_until_the_ledger_of_its_node_changes():
    refusals: Refusals[int] = Refusals()
    refusals.remember(Refusal("web", "node-a", 4, "short of 1 cpu"))
    refusals.remember(Refusal("web", "node-a", 5, "short of 2 cpu"))
    refusals.remember(Refusal("db", "node-b", 9, "short of 3 cpu"))
    assert refusals.of("web").wish == 5
    assert refusals.ledger_changed("node-a") == ("web",)
    assert refusals.of("web") is None
    assert refusals.of("db").message == "short of 3 cpu"
    assert refusals.ledger_changed("node-a") == ()
