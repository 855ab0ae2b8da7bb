"""Where cgroups are, from recorded mountinfo and cgroup files of different systems."""

from pathlib import Path

import pytest

from headrace.node.cgroups.hierarchy import UNIFIED, Hierarchies, find

OTHER = "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
V1 = (
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd\n"
)
UNIFIED_BESIDE = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
V2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid,nodev shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
IN_A_CONTAINER = "700 690 0:29 /docker/abc /sys/fs/cgroup/cpu ro,nosuid master:9 - cgroup cgroup rw,cpu\n"
WITH_A_SPACE = "35 31 0:32 / /mnt/c\\040groups/memory rw,relatime - cgroup cgroup rw,memory\n"


def system(tmp_path: Path, mountinfo: str, cgroup: str = "") -> Hierarchies:
    for name in ("self", "7"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mountinfo").write_text(OTHER + mountinfo)
        (tmp_path / name / "cgroup").write_text(cgroup)
    return find(tmp_path)


@pytest.mark.parametrize(
    ("mountinfo", "version"),
    [("", "none"), (V1, "v1"), (V1 + UNIFIED_BESIDE, "hybrid"), (V2, "v2")],
)
def test_the_version_is_what_is_mounted(tmp_path: Path, mountinfo: str, version: str) -> None:
    assert system(tmp_path, mountinfo).version == version


@pytest.mark.parametrize(
    ("mountinfo", "cgroup", "places"),
    [
        pytest.param(
            V1 + UNIFIED_BESIDE,
            "4:memory:/a/b\n2:cpu,cpuacct:/\n1:name=systemd:/init.scope\n0::/u\n",
            {
                "memory": "/sys/fs/cgroup/memory/a/b",
                "cpu": "/sys/fs/cgroup/cpu,cpuacct",
                "cpuacct": "/sys/fs/cgroup/cpu,cpuacct",
                UNIFIED: "/sys/fs/cgroup/unified/u",
            },
            id="each controller has its own place",
        ),
        pytest.param(
            V2, "0::/user.slice/x.scope\n", {UNIFIED: "/sys/fs/cgroup/user.slice/x.scope"}, id="one place on v2"
        ),
        pytest.param(
            IN_A_CONTAINER,
            "3:cpu:/docker/abc/pod\n",
            {"cpu": "/sys/fs/cgroup/cpu/pod"},
            id="below what a container sees",
        ),
        pytest.param(IN_A_CONTAINER, "3:cpu:/docker/other\n", {}, id="outside what a container sees"),
        pytest.param(WITH_A_SPACE, "3:memory:/x\n", {"memory": "/mnt/c groups/memory/x"}, id="a space in the path"),
        pytest.param(V1, "4:memory:/a:b\n", {"memory": "/sys/fs/cgroup/memory/a:b"}, id="a colon in the name"),
    ],
)
def test_a_process_is_found_by_its_own_file(tmp_path: Path, mountinfo: str, cgroup: str, places: dict) -> None:
    hierarchies = system(tmp_path, mountinfo, cgroup)
    assert hierarchies.places(7) == {name: Path(path) for name, path in places.items()}


def test_a_process_that_is_gone_is_said_to_be_gone(tmp_path: Path) -> None:
    with pytest.raises(ProcessLookupError, match="process 8"):
        system(tmp_path, V2).places(8)


def test_a_directory_tells_its_controllers(tmp_path: Path) -> None:
    hierarchies = system(tmp_path, V1 + UNIFIED_BESIDE)
    assert hierarchies.controllers(Path("/sys/fs/cgroup/cpu,cpuacct/headrace/x")) == ["cpu", "cpuacct"]
    assert hierarchies.controllers(Path("/elsewhere")) == []
