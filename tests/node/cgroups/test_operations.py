"""What the kernel takes and refuses here is what the reference says of this version of cgroups."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.node.cgroups import directories, hierarchy
from headrace.node.cgroups.tree import plant
from headrace.node.runtimes.protocol import Limits
from tests.node.cgroups.operations import OPERATIONS, Bench, Operation
from tests.node.eventually import eventually
from tests.node.operations_table import column
from tests.node.runtimes.conftest import needs_cgroups

pytestmark = [needs_cgroups, pytest.mark.real_cgroups]


@pytest.fixture
async def bench(tmp_path: Path) -> Iterator[Bench]:
    tree = plant(hierarchy.find(), f"operations-{os.getpid()}")
    group = tree.group("a")
    group.create(Limits())
    yield Bench(group, "v2" if tree.version == "v2" else "v1", tmp_path)
    await eventually(group.kill)
    group.remove()
    directories.prune(tree.parents)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_the_kernel_answers_as_the_reference_says(bench: Bench, operation: Operation) -> None:
    assert operation.measure(bench) == column("kernel", f"cgroup {bench.version}").get(operation.name)


def test_the_reference_has_every_row_and_no_other() -> None:
    assert list(column("kernel", "cgroup v1")) == [operation.name for operation in OPERATIONS]
