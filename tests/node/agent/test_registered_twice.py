"""Drivers of one name: the newest is asked, as by a kubelet, and people are told that there are two."""

import asyncio
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import structlog

from headrace.api.kinds import EVENT, NODE
from headrace.api.objects import uid_of
from headrace.devices.driver.services import serve_registration
from headrace.node.plugins import Plugins
from headrace.runtime.clock import LoopClock
from tests.node.agent.home import open_store, running_agent, wall
from tests.node.agent.simulated_runtime import SimulatedRuntime
from tests.node.eventually import eventually

NAME = "gpu.example.com"
LOG = structlog.get_logger()


@pytest.fixture
def directory():
    """Unix sockets have no room for a long path."""
    with tempfile.TemporaryDirectory(prefix="hr-", dir="/tmp") as found:
        yield Path(found)


def looking(directory):
    """What finds the drivers, and what it told people: reasons and messages."""
    told = []
    plugins = Plugins(
        directory / "plugins_registry",
        clock=LoopClock(time.time),
        log=LOG,
        warn=lambda reason, message: told.append((reason, message)),
    )
    return plugins, told


@asynccontextmanager
async def driver(directory, socket, endpoint=None, *, listens=True):
    """Registered by `socket`; unless it `listens`, nobody answers at its endpoint."""
    endpoint = directory / (endpoint or f"{socket}.sock")
    path = directory / "plugins_registry" / f"{socket}-reg.sock"
    server = await serve_registration(path, NAME, endpoint, object(), LOG)
    serves = await serve_registration(endpoint, NAME, endpoint, object(), LOG) if listens else None
    try:
        yield str(endpoint)
    finally:
        path.unlink(missing_ok=True)
        for each in filter(None, (server, serves)):
            await each.stop(None)


async def test_the_newest_is_asked_and_the_older_one_again_when_it_has_left(directory):
    plugins, told = looking(directory)
    async with driver(directory, "z") as old:
        await plugins.look()
        assert told == []
        async with driver(directory, "a") as new:
            await plugins.look()
            assert plugins.get(NAME).endpoint == new
            await plugins.look()
        await plugins.look()
        assert plugins.get(NAME).endpoint == old
    [(reason, message)] = told
    assert reason == "DriverRegisteredTwice"
    assert message.startswith(f"driver {NAME} has registered again, at {new}, and is asked there from now on; {old} of")


async def test_one_at_whose_endpoint_nobody_listens_takes_nothing_over(directory):
    plugins, _ = looking(directory)
    async with driver(directory, "old") as old:
        await plugins.look()
        async with driver(directory, "new", listens=False):
            await plugins.look()
            assert plugins.get(NAME).endpoint == old


async def test_the_endpoint_of_another_is_refused_until_that_one_has_left(directory):
    plugins, told = looking(directory)
    async with AsyncExitStack() as first:
        endpoint = await first.enter_async_context(driver(directory, "first", "dra.sock", listens=False))
        await plugins.look()
        async with driver(directory, "second", "dra.sock"):
            await plugins.look()
            await plugins.look()
            [(reason, message)] = told
            assert reason == "DriverRefused"
            assert f"endpoint {endpoint} is registered for driver {NAME} already" in message
            await first.aclose()
            await plugins.look()
            assert plugins.get(NAME).endpoint == endpoint
    assert len(told) == 1


async def test_a_second_driver_is_an_event_of_the_node(directory):
    store = await open_store()
    async with running_agent(store, SimulatedRuntime(wall), directory), driver(directory, "old"):
        node = await store.get(NODE, "node-a")

        async def events():
            return (await store.list(EVENT, "default", fields="involvedObject.kind=Node")).items

        async with driver(directory, "new"):
            [event] = await eventually(events)
    assert (event["type"], event["reason"]) == ("Warning", "DriverRegisteredTwice")
    assert event["involvedObject"]["uid"] == uid_of(node)


async def test_a_directory_that_cannot_be_read_keeps_no_agent_from_going_on(directory):
    plugins, _ = looking(directory)
    (directory / "plugins_registry").write_text("somebody made a file of it")
    with pytest.raises(FileExistsError):
        await plugins.look()
    task = asyncio.create_task(plugins.run())
    await asyncio.sleep(0)  # its first look
    assert not task.done()
    (directory / "plugins_registry").unlink()
    (directory / "plugins_registry").mkdir()
    async with driver(directory, "a") as endpoint:
        async with asyncio.timeout(60):
            while plugins.get(NAME) is None:
                await plugins.changes()
        assert plugins.get(NAME).endpoint == endpoint
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
