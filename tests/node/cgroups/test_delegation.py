"""Where an agent may limit on a real v2 hierarchy: in a cgroup that was delegated to it, and nowhere else.

Source: kernel Documentation/admin-guide/cgroup-v2.rst, "Delegation" and "No Internal Process Constraint".
"""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.node.cgroups import files, hierarchy
from headrace.node.cgroups.hierarchy import UNIFIED
from headrace.node.cgroups.tree import SUPERVISOR, enable
from tests.node.eventually import eventually
from tests.node.keeper.conftest import runs

pytestmark = [
    pytest.mark.real_cgroups,
    pytest.mark.skipif(hierarchy.find().version != "v2", reason="a test of v2"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may delegate"),
]
USER = 1000


class Place:
    """A cgroup below the root, with a data directory of the user's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cgroup = root / f"delegation-{os.getpid()}"
        self.data_dir = Path(tempfile.mkdtemp(prefix="hd-", dir="/tmp"))
        os.chown(self.data_dir, USER, USER)
        enable(root)
        self.cgroup.mkdir()

    def delegate(self) -> None:
        for path in (self.cgroup, *(self.cgroup / name for name in ("cgroup.procs", "cgroup.subtree_control"))):
            os.chown(path, USER, USER)

    async def agent(self, user: int = USER) -> dict[str, Any]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.node.cgroups.delegated", str(self.cgroup), str(user), str(self.data_dir)),
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        out, _ = await process.communicate()
        assert process.returncode == 0
        return json.loads(out)

    async def clear(self) -> None:
        members = {int(pid) for file in self.cgroup.rglob("cgroup.procs") for pid in files.read(file).split()}
        files.write(self.cgroup / "cgroup.kill", "1")
        await eventually(lambda: not any(map(runs, members)))
        for path in sorted((path.parent for path in self.cgroup.rglob("cgroup.procs")), reverse=True):
            path.rmdir()
        shutil.rmtree(self.data_dir)


@pytest.fixture
async def place() -> Iterator[Place]:
    place = Place(hierarchy.find().mounted[UNIFIED].mount_point)
    yield place
    await place.clear()


async def test_a_user_limits_in_a_cgroup_that_was_delegated(place: Place) -> None:
    place.delegate()
    seen = await place.agent()
    assert (seen["cpu"], seen["detail"]) == ("enforced", "cgroup v2")
    assert seen["agent"] == str(place.cgroup / SUPERVISOR)
    assert Path(seen["container"]).is_relative_to(place.cgroup / "headrace")
    assert seen["grown"] == [700, 200 << 20]
    assert seen["restored"]
    assert "bytes in use: nothing was changed" in seen["refused"]


async def test_beside_others_processes_it_says_what_to_do(place: Place) -> None:
    """Only leaves may have processes, and a shell that is there is not ours to move."""
    place.delegate()
    other = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
    files.write(place.cgroup / "cgroup.procs", str(other.pid))
    seen = await place.agent()
    assert seen["cpu"] == "approximate"
    assert "other processes are in it; start headrace in a scope of its own" in seen["detail"]
    assert seen["container"] == str(place.cgroup)
    other.kill()
    await other.wait()


async def test_a_cgroup_that_was_not_delegated_is_named(place: Place) -> None:
    seen = await place.agent()
    assert seen["cpu"] == "approximate"
    assert f"{place.cgroup}: not writable by this user" in seen["detail"]


async def test_controllers_that_were_not_handed_on_are_named(place: Place) -> None:
    place.cgroup = place.cgroup / "inner"
    place.cgroup.mkdir()
    place.delegate()
    try:
        seen = await place.agent()
    finally:
        place.cgroup.rmdir()
        place.cgroup = place.cgroup.parent
    assert seen["cpu"] == "approximate"
    assert "controllers cpu and memory are not delegated; start with systemd-run" in seen["detail"]


async def test_root_beside_others_uses_the_whole_tree(place: Place) -> None:
    other = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
    files.write(place.cgroup / "cgroup.procs", str(other.pid))
    seen = await place.agent(0)
    assert seen["cpu"] == "enforced"
    assert Path(seen["container"]).is_relative_to(place.root / "headrace")
    other.kill()
    await other.wait()
