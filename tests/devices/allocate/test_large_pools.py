"""Pools of thousands of devices that every node sees: the work on them comes in slices, and is not done once a node."""

from typing import Any

import pytest

from headrace.devices.allocate.inventory import Inventory
from headrace.devices.allocate.standing import Standing
from tests.devices.allocate.shapes import CLASSES, GPU, claim, match, want

Json = dict[str, Any]

POOLS, SLICES, DEVICES, NODES = 4, 8, 128, 20
WORK = 2_000

NEVER = {"selectors": [{"cel": {"expression": f'device.attributes["{GPU}"].uuid == "none"'}}]}
EVERYTHING = claim({"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}})


def inventory() -> Inventory:
    made = Inventory()
    for each in CLASSES:
        made.put_class(each)
    for number in range(NODES):
        made.put_node({"metadata": {"name": f"n{number}"}})
    for pool in range(POOLS):
        for number in range(SLICES):
            name = f"p{pool}-{number}"
            made.put_slice(name, {"metadata": {"name": name}, "spec": spec(f"p{pool}", number)})
    return made


def spec(pool: str, number: int) -> Json:
    devices = [
        {
            "name": f"d-{number}-{at}",
            "attributes": {"group": {"int": at // 4}, "uuid": {"string": f"{pool}-{number}-{at}"}},
        }
        for at in range(DEVICES)
    ]
    known_by = {"name": pool, "generation": 1, "resourceSliceCount": SLICES}
    return {"driver": GPU, "allNodes": True, "pool": known_by, "devices": devices}


@pytest.mark.parametrize(
    ("asked", "fitting"),
    [
        pytest.param(claim(want("r")), NODES, id="any device"),
        pytest.param(claim(want("r", 4), constraints=match()), NODES, id="four that match"),
        pytest.param(claim(want("r", 4), want("none", **NEVER), constraints=match()), 0, id="one that is not there"),
        pytest.param(EVERYTHING, 0, id="all of them, which is more than a claim may have"),
    ],
)
def test_many_nodes_share_large_pools_slice_by_slice(asked: Json, fitting: int) -> None:
    told = inventory()
    standing, steps, read = Standing(told, [asked]), 0, 0
    while not standing.run(WORK):
        steps += 1
        assert len(told.views) - read <= 8
        read = len(told.views)
    assert steps > 2
    assert len(list(standing.names())) == fitting
    pools = [{id(pool) for pool in view.pools} for view in told.views.values()]
    assert len(set.union(*pools)) == POOLS


def test_a_device_given_away_is_seen_by_all_nodes() -> None:
    told = inventory()
    standing = Standing(told, [claim(want("r"))])
    for number in range(3):
        while not standing.run(WORK):
            pass
        for name in ("n0", "n19"):
            (result,) = standing.results(name, iter(()))
            (picked,) = result["devices"]["results"]
            assert picked["device"] == f"d-0-{number}"
        told.hold(f"claim-{number}", [picked])
    told.drop_claim("claim-0")
    while not standing.run(WORK):
        pass
    assert standing.results("n7", iter(()))[0]["devices"]["results"][0]["device"] == "d-0-0"
