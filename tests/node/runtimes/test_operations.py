"""What the process runtime does with each change, on this version of cgroups, is what the reference says of both."""

import pytest

from tests.node.operations_table import column
from tests.node.runtimes.conftest import Running, needs_cgroups
from tests.node.runtimes.operations import OPERATIONS, Bench, Operation
from tests.node.runtimes.programs import PYTHON

pytestmark = [needs_cgroups, pytest.mark.real_cgroups]

HOLD = (*PYTHON, "import time\nheld = bytearray(b'x') * (40 << 20)\nprint('ready')\ntime.sleep(600)")
CACHE = (
    *PYTHON,
    "import os, sys, time\n"
    "file = open(sys.argv[1], 'wb')\n"
    "for _ in range(40): file.write(bytes(1 << 20))\n"
    "file.flush()\n"
    "os.fsync(file.fileno())\n"
    "print('ready')\n"
    "time.sleep(600)",
)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_the_process_runtime_does_as_the_reference_says(enforced: Running, operation: Operation) -> None:
    bench = Bench(enforced, HOLD, (*CACHE, str(enforced.data_dir / "cached")))
    assert await operation.measure(bench) == column("runtimes", "process runtime").get(operation.name)


def test_the_reference_has_every_row_and_no_other() -> None:
    assert list(column("runtimes", "process runtime")) == [operation.name for operation in OPERATIONS]
