"""The disk's thread: an end is told once, at once or later, and a slow disk is not waited for."""

import asyncio
from collections.abc import Callable
from threading import Event

import pytest

from headrace.store.disk_thread import PATIENCE_SECONDS, DiskThread, Ended

ENDS_SECONDS = 30.0


@pytest.fixture
def soon() -> list[Callable[[], None]]:
    return []


def thread(soon: list[Callable[[], None]], told: Event, took: list[float]) -> DiskThread:
    """One whose clock says that pieces of work took these seconds, in turn."""
    ticks = iter([tick for seconds in took for tick in (0.0, seconds)])

    def later(work: Callable[[], None]) -> None:
        soon.append(work)
        told.set()

    return DiskThread(later, lambda: next(ticks))


def fails() -> None:
    raise OSError("the disk is gone")


async def test_quick_work_is_waited_for_and_not_told_again() -> None:
    later: list[Exception | None] = []
    disk = DiskThread(asyncio.get_running_loop().call_soon_threadsafe)
    ends = [disk.hand_and_wait(lambda: None, later.append) for _ in range(1000)]
    disk.end()
    await asyncio.sleep(0)
    assert ends.count(Ended(None)) + len(later) == 1000


async def test_a_failure_is_told_as_an_end_or_later_but_once() -> None:
    later: list[Exception | None] = []
    disk = DiskThread(asyncio.get_running_loop().call_soon_threadsafe)
    ended = disk.hand_and_wait(fails, later.append)
    disk.end()
    await asyncio.sleep(0)
    found = later if ended is None else [ended.failure]
    assert [str(failure) for failure in found] == ["the disk is gone"]


def test_work_that_lasts_is_left_and_told_later(soon: list[Callable[[], None]]) -> None:
    told, goes_on = Event(), Event()
    later: list[Exception | None] = []
    disk = thread(soon, told, [0.0])
    assert disk.hand_and_wait(lambda: None if goes_on.wait(ENDS_SECONDS) else fails(), later.append) is None
    assert not soon
    goes_on.set()
    disk.end()
    soon.pop()()
    assert later == [None]


def test_a_slow_disk_is_not_waited_for_until_it_is_quick_again(soon: list[Callable[[], None]]) -> None:
    told = Event()
    later: list[Exception | None] = []
    disk = thread(soon, told, [2 * PATIENCE_SECONDS, PATIENCE_SECONDS / 2] + [0.0] * 1000)
    disk.hand(lambda: None, later.append)
    assert told.wait(ENDS_SECONDS)
    told.clear()
    assert disk.hand_and_wait(lambda: None, later.append) is None, "though it ended at once"
    assert told.wait(ENDS_SECONDS)
    assert any(disk.hand_and_wait(lambda: None, later.append) == Ended(None) for _ in range(1000))
    disk.end()


def test_work_handed_over_before_the_end_is_done(soon: list[Callable[[], None]]) -> None:
    done: list[int] = []
    disk = thread(soon, Event(), [0.0] * 20)
    for number in range(20):
        disk.hand(lambda number=number: done.append(number), lambda _: None)  # type: ignore[misc]
    disk.end()
    assert done == list(range(20))
    assert len(soon) == 20
