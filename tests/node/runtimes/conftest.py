"""Real runtimes on real processes, in each way this machine can limit them; nothing is left afterwards."""

import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.node.cgroups import directories, hierarchy
from headrace.node.cgroups.hierarchy import Hierarchies
from headrace.node.cgroups.tree import Unavailable, plant
from headrace.node.keeper.launch import KeeperFailed
from headrace.node.runtimes.process import ProcessRuntime
from headrace.node.runtimes.protocol import ContainerSpec, ContainerState, Limits
from tests.node.eventually import eventually
from tests.node.runtimes.podman_service import Service, missing, serving

APPROXIMATE = Hierarchies({})
MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """A Podman service of the tests' own."""
    if why := missing():
        pytest.fail(why)
    with serving() as running:
        yield running


@dataclass
class Running:
    """A runtime and its directory, with what tests ask of it again and again."""

    runtime: ProcessRuntime
    data_dir: Path

    def log(self, id: str) -> list[str]:
        path = self.data_dir / f"{id}.log"
        return [line.split(" ", 3)[3] for line in path.read_text().splitlines()] if path.exists() else []

    def spec(self, id: str, *argv: str, **limits: int) -> ContainerSpec:
        return ContainerSpec(
            id=id,
            pod_uid="uid",
            pod="default/pod",
            container=f"c-{id}",
            argv=argv,
            env={},
            working_dir="/",
            log_path=str(self.data_dir / f"{id}.log"),
            limits=Limits(**limits),
        )

    async def start(self, id: str, *argv: str, **limits: int) -> ContainerState:
        return await self.runtime.start(self.spec(id, *argv, **limits))

    async def says(self, id: str, word: str) -> None:
        await eventually(lambda: word in self.log(id))

    async def state(self, id: str) -> ContainerState:
        return {state.id: state for state in await self.runtime.list()}[id]

    async def ended(self, id: str) -> ContainerState:
        async def look() -> ContainerState | None:
            state = await self.state(id)
            return state if state.state == "exited" else None

        return await eventually(look)

    async def clear(self) -> None:
        for state in await self.runtime.list():
            await self.runtime.kill(state.id)
            await self.ended(state.id)
            await self.runtime.remove(state.id)
        await self.runtime.stop_keeper()


def unavailable() -> str | None:
    """Why cgroups cannot be had here."""
    try:
        directories.prune(plant(hierarchy.find(), f"probe-{os.getpid()}").parents)
    except Unavailable as reason:
        return str(reason)
    return None


REASON = unavailable()
needs_cgroups = pytest.mark.skipif(REASON is not None, reason=f"limits cannot be enforced here: {REASON}")
BOTH = [pytest.param(None, id="cgroups", marks=needs_cgroups), pytest.param(APPROXIMATE, id="approximate")]


async def opened(data_dir: Path, hierarchies: Hierarchies | None) -> AsyncIterator[Running]:
    runtime = await ProcessRuntime.open(data_dir, hierarchies)
    running = Running(runtime, data_dir)
    yield running
    with contextlib.suppress(KeeperFailed):
        await running.clear()
    left = [parent for parent in cgroups_of(runtime) if parent.exists()]
    assert not left, "cgroups were left behind"


def cgroups_of(runtime: ProcessRuntime) -> list[Path]:
    tree = runtime._tree
    return tree.parents if tree is not None else []


@pytest.fixture
async def enforced(tmp_path: Path) -> AsyncIterator[Running]:
    async for running in opened(tmp_path, None):
        yield running


@pytest.fixture
async def approximate(tmp_path: Path) -> AsyncIterator[Running]:
    async for running in opened(tmp_path, APPROXIMATE):
        yield running


@pytest.fixture(params=BOTH)
async def running(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Running]:
    async for running in opened(tmp_path, request.param):
        yield running
