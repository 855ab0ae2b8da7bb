"""Selectors that fail on devices without an attribute, and what would not."""

from typing import Any

import pytest

from headrace.devices.allocate.inventory import Inventory
from headrace.devices.allocate.mending import mended, mendings

GPU = "gpu.example.com"
PATH = 'device.attributes["gpu.example.com"].driverVersion'


@pytest.mark.parametrize(
    ("expression", "key", "better"),
    [
        (f"{PATH}.major() > 1", "driverVersion", f"has({PATH}) && {PATH}.major() > 1"),
        (f"{PATH}.major() > 1 || true", "driverVersion", f"has({PATH}) && ({PATH}.major() > 1 || true)"),
        (f"has({PATH}) && {PATH}.major() > 1", "driverVersion", None),
        ("device.driver == 'x'", "driverVersion", None),
        ("device.capacity.x.memory > 1", "memory", "has(device.capacity.x.memory) && device.capacity.x.memory > 1"),
    ],
)
def test_the_question_comes_first(expression: str, key: str, better: str | None) -> None:
    assert mended(expression, key) == better


def claim(*expressions: str, alternatives: bool = False) -> dict[str, Any]:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    wanted = {"deviceClassName": GPU, "allocationMode": "ExactCount", "count": 1, "selectors": selectors}
    request = {"name": "gpu", "firstAvailable": [{"name": "a", **wanted}]} if alternatives else {"exactly": wanted}
    meta = {"name": "c", "namespace": "default"}
    return {"metadata": meta, "spec": {"devices": {"requests": [{"name": "gpu", **request}]}}}


def inventory(**attributes: Any) -> Inventory:
    made = Inventory()
    made.put_class({"metadata": {"name": GPU}, "spec": {}})
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": GPU, "nodeName": "n", "pool": pool, "devices": [{"name": "d", "attributes": attributes}]}
    made.put_slice("s", {"metadata": {"name": "s"}, "spec": spec})
    return made


NODE = {"metadata": {"name": "n"}}


@pytest.mark.parametrize("alternatives", [False, True])
def test_each_selector_that_fails_is_mended_until_none_does(alternatives: bool) -> None:
    other = 'device.attributes["gpu.example.com"].index > 0'
    found = mendings(NODE, [claim(f"{PATH}.major() >= 0", other, alternatives=alternatives)], inventory())
    assert [each.number for each in found] == [0]  # the first is false then, and the second is not asked
    assert found[0].request == ("gpu/a" if alternatives else "gpu")
    version = {"driverVersion": {"version": "550.0.0"}}
    found = mendings(NODE, [claim(f"{PATH}.major() >= 0", other)], inventory(**version))
    assert [(each.number, each.expression) for each in found] == [
        (1, f'has(device.attributes["gpu.example.com"].index) && {other}')
    ]


def test_other_errors_and_no_errors_are_left_alone() -> None:
    assert mendings(NODE, [claim("true")], inventory()) == []
    assert mendings(NODE, [claim("device.attributes == 3")], inventory()) == []
