"""The place of our groups, and the words when there is none. v2 on recorded trees, the rest on this machine."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.node.cgroups import directories, hierarchy
from headrace.node.cgroups.hierarchy import Hierarchies, Mounted
from headrace.node.cgroups.tree import SUPERVISOR, Unavailable, plant
from headrace.node.cgroups.v1 import V1Group
from headrace.node.keeper.members import in_groups
from headrace.node.runtimes.protocol import Limits
from tests.node.cgroups.recorded import V2_FILES, fill, v2_system
from tests.node.eventually import eventually
from tests.node.runtimes.conftest import needs_cgroups

pytestmark = pytest.mark.real_cgroups

ALL = "+cpu +memory +cpuset +pids"


def control(directory: Path) -> str:
    return (directory / "cgroup.subtree_control").read_text().strip()


def prepared(root: Path, place: str) -> Path:
    """The parents as the kernel would fill them."""
    top = root / "cgroup" / place.strip("/")
    for path in (top / "headrace", top / "headrace/test"):
        fill(path, V2_FILES)
    return top


def test_controllers_are_handed_on_down_to_the_containers(tmp_path: Path) -> None:
    hierarchies = v2_system(tmp_path, "/")
    top = prepared(tmp_path, "/")
    tree = plant(hierarchies, "test")
    assert [control(path) for path in (top, top / "headrace", top / "headrace/test")] == [ALL] * 3
    assert list(tree.group("a").directories) == [str(top / "headrace/test/a")]


def test_the_agent_leaves_a_cgroup_of_its_own_for_a_leaf(tmp_path: Path) -> None:
    hierarchies = v2_system(tmp_path, "/user.slice/run.scope", procs=str(os.getpid()))
    top = prepared(tmp_path, "/user.slice/run.scope")
    fill(top / SUPERVISOR, {"cgroup.procs": ""})
    plant(hierarchies, "test")
    assert (top / SUPERVISOR / "cgroup.procs").read_text() == str(os.getpid())
    assert control(top) == ALL


def test_started_again_from_that_leaf_it_uses_the_same_place(tmp_path: Path) -> None:
    hierarchies = v2_system(tmp_path, f"/run.scope/{SUPERVISOR}", procs=str(os.getpid()))
    fill(tmp_path / "cgroup/run.scope", V2_FILES)
    top = prepared(tmp_path, "/run.scope")
    tree = plant(hierarchies, "test")
    assert list(tree.group("a").directories) == [str(top / "headrace/test/a")]


def test_controllers_that_are_not_delegated_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    hierarchies = v2_system(tmp_path, "/user.slice")
    (tmp_path / "cgroup/user.slice/cgroup.controllers").write_text("memory pids\n")
    with pytest.raises(Unavailable, match="controllers cpu are not delegated; start with systemd-run --user"):
        plant(hierarchies, "test")


def test_no_hierarchy_is_a_reason(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no cgroup hierarchy is mounted"):
        plant(Hierarchies({}), "test")


def test_a_missing_controller_is_named(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text("1:cpu:/\n")
    fill(tmp_path / "cpu", {"cgroup.procs": ""})
    with pytest.raises(Unavailable, match="controller memory is not mounted"):
        plant(Hierarchies({"cpu": Mounted(tmp_path / "cpu", "/")}, tmp_path), "test")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_tree_that_is_not_writable_is_named(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text("1:cpu:/\n2:memory:/\n")
    mounted = {name: Mounted(fill(tmp_path / name, {"cgroup.procs": ""}), "/") for name in ("cpu", "memory")}
    (tmp_path / "memory").chmod(0o500)
    with pytest.raises(Unavailable, match="memory: not writable by this user"):
        plant(Hierarchies(mounted, tmp_path), "test")
    (tmp_path / "memory").chmod(0o700)


@needs_cgroups
def test_a_group_is_made_found_and_removed_on_this_machine() -> None:
    tree = plant(hierarchy.find(), f"tree-test-{os.getpid()}")
    try:
        group = tree.group("a")
        group.create(Limits(500, 64 << 20, 100))
        assert set(tree.found(tree.parents)) == {"a"}
        assert tree.at(group.directories).read() == group.kept(Limits(500, 64 << 20, 100))
        group.remove()
        group.remove()
        assert tree.found(tree.parents) == {}
        directories.prune(tree.parents)
        tree.group("b").create(Limits())  # the parents come back when they are needed
        tree.group("b").remove()
    finally:
        directories.prune(tree.parents)
    assert not any(Path(path).parent.exists() for path in group.directories)


@needs_cgroups
def test_a_group_that_cannot_have_its_first_limits_is_not_left_behind() -> None:
    tree = plant(hierarchy.find(), f"tree-test-{os.getpid()}")
    try:
        with pytest.raises(Exception, match="must be at least"):
            tree.group("a").create(Limits(0))
        assert tree.found(tree.parents) == {}
    finally:
        directories.prune(tree.parents)


def bound(directories: Sequence[str]) -> None:
    for file in (Path(path, "pids.max") for path in directories):
        if file.exists():
            file.write_text("100")


@needs_cgroups
@pytest.mark.skipif(hierarchy.find().version == "v2", reason="a test of v1: v2 kills at once, by cgroup.kill")
async def test_v1_alone_kills_what_forks_without_end() -> None:
    tree = plant(hierarchy.find(), f"tree-test-{os.getpid()}")
    whole = tree.group("a")
    group = tree.at([path for path in whole.directories if "unified" not in path])
    assert isinstance(group, V1Group)
    group.create(Limits())
    bound(group.directories)
    bomb = await asyncio.create_subprocess_exec(
        *("sh", "-c", "read go; while :; do (sleep 1 &); done"),
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert bomb.stdin is not None
        group.attach(bomb.pid)
        bomb.stdin.write(b"go\n")
        await eventually(lambda: len(in_groups(group.directories)) > 20)
        await eventually(group.kill)
        await bomb.wait()
        group.remove()
    finally:
        directories.prune(tree.parents)
