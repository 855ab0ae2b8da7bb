"""The tests marked `real_cgroups`, on a machine whose only hierarchy is cgroup v2: one boot for all of them."""

import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from collections.abc import Iterator

import pytest

from tests.guest.image import RESULTS, ROOT
from tests.guest.kernel import CannotFetch, Kernel, kernel
from tests.guest.machine import Ended, GuestDied, run

pytestmark = [pytest.mark.guest, pytest.mark.xdist_group("guest")]

SECONDS = 1300  # about four minutes when nothing else runs: everything is emulated
# Why a test of the selection may be skipped there.
ALLOWED = ("a test of v1", "root may write everywhere")


MARKED = [
    str(file.relative_to(ROOT))
    for file in sorted((ROOT / "tests/node").rglob("test_*.py"))
    if "mark.real_cgroups" in file.read_text(encoding="utf-8")
]


@pytest.fixture(scope="module")
def guest_kernel() -> Kernel:
    try:
        return kernel()
    except CannotFetch as why:
        pytest.fail(str(why))


@pytest.fixture(scope="module")
def ended(guest_kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    began = time.monotonic()
    folder = tmp_path_factory.mktemp("guest")
    selection = ("-m", "real_cgroups", "-k", "not approximate and not thirty_agents")
    told = ("-v", "--color=no", "--durations=10", "-p", "no:cacheprovider", f"--junitxml={RESULTS}/junit.xml")
    command = (sys.executable, "-m", "pytest", *selection, *told, *MARKED)

    def say(line: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began:6.1f} {line}\n")
        sys.stdout.flush()

    try:
        yield run(guest_kernel, command, folder, SECONDS, say)
    except (GuestDied, FileNotFoundError) as why:
        pytest.fail(str(why))
    except subprocess.CalledProcessError as why:
        pytest.fail(f"{why}: {why.stderr!r}")
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def cases(ended: Ended) -> list[xml.Element]:
    return list(xml.fromstring(ended.result("junit.xml")).iter("testcase"))


def name(case: xml.Element) -> str:
    return f"{case.get('classname')}::{case.get('name')}"


def test_the_only_hierarchy_is_cgroup_v2_with_its_controllers(ended: Ended) -> None:
    [line] = [line for line in ended.console.splitlines() if line.startswith("guest: Linux")]
    assert {"cpu", "memory", "cpuset", "pids"} <= set(line.split("controllers ")[1].split(",")[0].split())


def test_all_of_them_pass(ended: Ended, cases: list[xml.Element]) -> None:
    failed = [
        f"{name(case)}\n{bad.text}" for case in cases for kind in ("failure", "error") for bad in case.findall(kind)
    ]
    assert not failed, "\n\n".join(failed)
    assert ended.code == 0, ended.console[-2000:]


def test_none_is_left_out_but_what_is_of_v1(cases: list[xml.Element]) -> None:
    assert len(cases) > 80
    skipped = [(name(case), bad.get("message", "")) for case in cases for bad in case.findall("skipped")]
    assert [each for each in skipped if not any(reason in each[1] for reason in ALLOWED)] == []


def test_each_file_has_had_its_turn(cases: list[xml.Element]) -> None:
    seen = {str(case.get("classname")).replace(".", "/") + ".py" for case in cases}
    assert seen == set(MARKED)
