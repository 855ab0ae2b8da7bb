"""What the podman runtime does with each change is what the reference says."""

import pytest

from tests.node.operations_table import column
from tests.node.runtimes.operations import OPERATIONS, Bench, Operation
from tests.node.runtimes.test_podman import Home, home

__all__ = ["home"]  # a fixture
pytestmark = [pytest.mark.podman, pytest.mark.xdist_group("podman")]

HOLD = ("sh", "-c", "dd if=/dev/zero of=/dev/shm/held bs=1M count=40 2>/dev/null && echo ready; sleep 600")
CACHE = ("sh", "-c", "dd if=/dev/zero of=/work/file bs=1M count=40 conv=fsync 2>/dev/null && echo ready; sleep 600")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_the_podman_runtime_does_as_the_reference_says(home: Home, operation: Operation) -> None:
    assert await operation.measure(Bench(home, HOLD, CACHE)) == column("runtimes", "podman runtime")[operation.name]
