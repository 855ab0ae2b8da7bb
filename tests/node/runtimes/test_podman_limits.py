"""Where Podman sets no limits, and whose cgroup a container is in: what is somebody else's is never taken for its."""

from pathlib import Path

import pytest

from headrace.node.cgroups.hierarchy import UNIFIED, Hierarchies, Mounted
from headrace.node.runtimes.podman_limits import NoCgroup, enforcement, group_of

ID = "f06e182744255f4fcf4a9ac7c86c7d224c9ba04b00571e87929bb39614dedaee"
DELEGATE = "not delegated to this user (in systemd: Delegate=cpu memory for user@.service)"


def host(*, rootless: bool, version: str, controllers: tuple[str, ...] = ()) -> dict[str, object]:
    return {"security": {"rootless": rootless}, "cgroupVersion": version, "cgroupControllers": list(controllers)}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        pytest.param(host(rootless=False, version="v1"), ("enforced", "enforced", ""), id="root on v1"),
        pytest.param(host(rootless=False, version="v2"), ("enforced", "enforced", ""), id="root on v2"),
        pytest.param(
            host(rootless=True, version="v1", controllers=("cpu", "memory")),
            ("none", "none", "rootless Podman sets no limits on cgroup v1"),
            id="a user on v1",
        ),
        pytest.param(
            host(rootless=True, version="v2", controllers=("cpu", "memory", "pids")),
            ("enforced", "enforced", ""),
            id="a user on v2 with both delegated",
        ),
        pytest.param(
            host(rootless=True, version="v2", controllers=("memory", "pids")),
            ("none", "enforced", f"rootless Podman: cpu {DELEGATE}"),
            id="a user on v2, as systemd delegates by default",
        ),
        pytest.param(
            host(rootless=True, version="v2"),
            ("none", "none", f"rootless Podman: cpu and memory {DELEGATE}"),
            id="a user on v2 with nothing delegated",
        ),
    ],
)
def test_what_podman_enforces(told: dict[str, object], expected: tuple[str, str, str]) -> None:
    assert enforcement(told) == expected


def machine(directory: Path, *names: str, place: str) -> Hierarchies:
    """Hierarchies with a process 7 at this place in all of them."""
    (directory / "proc/7").mkdir(parents=True)
    lines = [f"{number}:{name}:{place}\n" for number, name in enumerate(names)]
    (directory / "proc/7/cgroup").write_text("".join(lines))
    for name in names:
        (directory / (name or "unified") / place.strip("/")).mkdir(parents=True)
    return Hierarchies({name: Mounted(directory / (name or "unified"), "/") for name in names}, directory / "proc")


V1, V2 = ("cpu", "cpuacct", "cpuset", "memory", "freezer"), (UNIFIED,)


@pytest.mark.parametrize(
    ("names", "place"),
    [
        pytest.param(V1, f"/libpod_parent/libpod-{ID}", id="cgroupfs"),
        pytest.param(V1, f"/machine.slice/libpod-{ID}.scope", id="systemd"),
        pytest.param(V2, f"/machine.slice/libpod-{ID}.scope/container", id="crun"),
        pytest.param(V2, f"/system.slice/web.service/libpod-payload-{ID}", id="split, as in a Quadlet"),
        pytest.param(V2, f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope", id="rootless"),
    ],
)
def test_a_containers_own_cgroup_is_found(tmp_path: Path, names: tuple[str, ...], place: str) -> None:
    group = group_of(machine(tmp_path, *names, place=place), 7)
    assert all(f"{ID}" in directory for directory in group.directories)


@pytest.mark.parametrize("names", [pytest.param(V1, id="v1"), pytest.param(V2, id="v2")])
@pytest.mark.parametrize("place", ["/", "/user.slice/user-1000.slice/session-3.scope"])
def test_a_cgroup_that_others_are_in_is_not_taken_for_a_containers(
    tmp_path: Path, names: tuple[str, ...], place: str
) -> None:
    """Rootless on v1, or --cgroups=disabled. (The machine's use was told as the container's, its limits as adopted.)"""
    with pytest.raises(NoCgroup, match="it has no cgroup of its own, but is in "):
        group_of(machine(tmp_path, *names, place=place), 7)
