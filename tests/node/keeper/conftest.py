"""A real keeper for each test, which is gone afterwards with all that it kept."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.node.keeper import identity
from headrace.node.keeper.client import KeeperClient
from headrace.node.keeper.launch import KeeperFailed
from tests.node.eventually import eventually


class Kept:
    """The keeper under test, with what tests ask of it again and again."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.client = KeeperClient(data_dir)

    def log_path(self, id: str) -> Path:
        return self.data_dir / "logs" / f"{id}.log"

    async def start(self, id: str, *argv: str, **fields: object) -> dict:
        request = {"id": id, "argv": argv, "env": {}, "log_path": str(self.log_path(id)), **fields}
        return await self.client.call("start", request)

    async def state(self, id: str) -> dict | None:
        return await self.client.call("get", {"id": id})

    async def ended(self, id: str) -> dict:
        async def look() -> dict | None:
            state = await self.state(id)
            return state if state is not None and state["state"] == "exited" else None

        return await eventually(look)

    async def pid(self) -> int:
        return (await self.client.call("hello"))["pid"]

    def lines(self, id: str, stream: str = "stdout") -> list[str]:
        """What the log and its rotated files hold, without the heads, oldest first."""
        path = self.log_path(id)
        files = [*sorted(path.parent.glob(f"{path.name}.?"), reverse=True), path] if path.exists() else []
        records = [line.split(" ", 3) for file in files for line in file.read_text().splitlines()]
        return [record[3] for record in records if record[1] == stream]

    async def clear(self) -> None:
        for state in await self.client.call("list"):
            await self.client.call("kill", {"id": state["id"]})
            await self.ended(state["id"])
            await self.client.call("remove", {"id": state["id"]})
        pid = await self.pid()
        await self.client.call("stop")
        await self.client.close()
        await eventually(lambda: not runs(pid))


def runs(pid: int) -> bool:
    found = identity.stat(pid)
    return found is not None and found.state not in identity.ZOMBIE_STATES


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Kept]:
    kept = Kept(tmp_path)
    yield kept
    with contextlib.suppress(KeeperFailed):
        await kept.clear()
