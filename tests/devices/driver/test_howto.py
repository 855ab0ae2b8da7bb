"""The driver of docs/howto/write-a-driver.md is what it says: it is run as it is printed."""

import re
from pathlib import Path

import pytest

from headrace.api.kinds import RESOURCE_SLICE
from headrace.devices.driver.interface import Allocated, PrepareError
from tests.devices.driver.test_published import directory, plugin, with_node

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "write-a-driver.md"


async def test_the_printed_driver_publishes_prepares_and_leaves_nothing():
    printed = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    defined = {}
    exec(compile(printed, str(PAGE), "exec"), defined)
    with directory() as path:
        store = await with_node()
        driver = defined["Fpgas"]("node-a", path / "cdi")
        await plugin(driver, store, path).publish()
        [found] = (await store.list(RESOURCE_SLICE)).items
        assert found["spec"]["driver"] == "fpga.example.com"
        [prepared] = driver.prepare("uid", [Allocated("r", "node-a", "fpga-0")])
        assert prepared.cdi_names == ("fpga.example.com/claim=uid-fpga-0",)
        with pytest.raises(PrepareError, match="config of request 'r': X: takes none"):
            driver.prepare("uid", [Allocated("r", "node-a", "fpga-0", ({"kind": "X"},))])
        driver.unprepare("uid")
        driver.unprepare("uid")
        assert list((path / "cdi").iterdir()) == []
