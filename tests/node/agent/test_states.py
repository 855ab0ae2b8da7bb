"""What the agent knows of its containers: what it did while the runtime was read is not forgotten."""

import asyncio
import time

import structlog

from headrace.node.containers import container_id
from headrace.node.runtimes.protocol import ContainerState
from headrace.node.states import States
from headrace.runtime.clock import LoopClock

FIRST, SECOND = container_id("pod", "main", 0), container_id("pod", "main", 1)


def state(id: str, pid: int = 1) -> ContainerState:
    return ContainerState(id, "pod", "main", "running", pid, 1, 0.0)


class SlowRuntime:
    """Looks at once, and answers when it is let."""

    def __init__(self, *found: ContainerState) -> None:
        self.found = found
        self.may_answer = asyncio.Event()

    async def list(self) -> list[ContainerState]:
        found = list(self.found)
        await self.may_answer.wait()
        return found


def reader(runtime: SlowRuntime) -> States:
    clock = LoopClock(time.time)
    return States(runtime, lambda _: None, clock=clock, random=lambda: 0.5, log=structlog.get_logger())  # type: ignore[arg-type]


async def refreshed(
    runtime: SlowRuntime, *, put: tuple[ContainerState, ...] = (), drop: tuple[str, ...] = ()
) -> list[str]:
    states = reader(runtime)
    reading = asyncio.create_task(states.look())
    await asyncio.sleep(0)
    for each in put:
        states.put(each)
    for id in drop:
        states.drop(id)
    runtime.may_answer.set()
    await reading
    return [each.id for each in states.of("pod")]


async def test_a_container_that_was_started_meanwhile_stays():
    assert await refreshed(SlowRuntime(state(FIRST)), put=(state(SECOND),)) == [FIRST, SECOND]


async def test_one_that_was_removed_meanwhile_stays_away():
    assert await refreshed(SlowRuntime(state(FIRST), state(SECOND)), drop=(FIRST,)) == [SECOND]


async def test_what_the_runtime_says_goes_before_what_was_put():
    runtime = SlowRuntime(state(FIRST, pid=2))
    states = reader(runtime)
    runtime.may_answer.set()
    states.put(state(FIRST, pid=1))
    await states.look()
    assert [each.pid for each in states.of("pod")] == [2]
