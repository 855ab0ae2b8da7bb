"""Laws of the inventory: after any events it answers as one that was built from what is there now."""

from itertools import count
from random import Random
from typing import Any

import pytest

from headrace.devices.allocate.allocator import Allocated, Failed, Outcome, allocate
from headrace.devices.allocate.inventory import Inventory
from headrace.devices.allocate.standing import Standing
from tests.devices.allocate.shapes import CLASSES, GPU, claim, first_of, match, want

CLAIMS = (
    claim(want("r")),
    claim(want("r", 2), constraints=match()),
    claim(first_of("r", 2), want("one")),
    claim(want("r", 1, selectors=[{"cel": {"expression": f'device.attributes["{GPU}"].big'}}])),
)
NODES = [f"n{number}" for number in range(6)]


class World:
    """What is there, beside an inventory that is told of each change."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.slices: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, dict[str, Any]] = {}
        self.held: dict[str, list[dict[str, Any]]] = {}
        self.told = Inventory()
        for each in CLASSES:
            self.told.put_class(each)

    def fresh(self) -> Inventory:
        inventory = Inventory()
        for each in CLASSES:
            inventory.put_class(each)
        for node in self.nodes.values():
            inventory.put_node(node)
        for key, each in self.slices.items():
            inventory.put_slice(key, each)
        for key, results in self.held.items():
            inventory.hold(key, results)
        return inventory

    def change(self) -> None:
        self.random.choice((self.node, self.slice, self.slice, self.drop_slice, self.hold, self.hold, self.let_go))()

    def node(self) -> None:
        name = self.random.choice(NODES)
        if name in self.nodes and self.random.random() < 0.3:
            del self.nodes[name]
            self.told.drop_node(name)
            return
        node = {"metadata": {"name": name, "labels": {"zone": self.random.choice("ab")}}}
        self.nodes[name] = node
        self.told.put_node(node)

    def slice(self) -> None:
        name, pool = self.random.choice(NODES), self.random.choice(("p", "q"))
        spec: dict[str, Any] = {
            "driver": GPU,
            "pool": {"name": pool, "generation": self.random.choice((1, 1, 2)), "resourceSliceCount": 1},
            "devices": [self.device(number) for number in range(self.random.randint(1, 4))],
        }
        where = self.random.random()
        if where < 0.7:
            spec["nodeName"], spec["pool"]["name"] = name, f"{pool}-{name}"
        elif where < 0.85:
            spec["allNodes"] = True
        else:
            requirement = {"key": "zone", "operator": "In", "values": ["a"]}
            spec["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
        key = f"slice-{name}-{pool}"
        self.slices[key] = {"metadata": {"name": key}, "spec": spec}
        self.told.put_slice(key, self.slices[key])

    def device(self, number: int) -> dict[str, Any]:
        attributes: dict[str, Any] = {"group": {"int": self.random.randint(0, 1)}}
        if self.random.random() < 0.9:
            attributes["big"] = {"bool": self.random.random() < 0.5}
        device: dict[str, Any] = {"name": f"d{number}", "attributes": attributes}
        if self.random.random() < 0.2:
            device |= {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "2"}}}
        return device

    def drop_slice(self) -> None:
        if self.slices:
            key = self.random.choice(list(self.slices))
            del self.slices[key]
            self.told.drop_slice(key)

    def hold(self) -> None:
        if not self.slices:
            return
        spec = self.random.choice(list(self.slices.values()))["spec"]
        device = self.random.choice(spec["devices"])
        result = {"driver": GPU, "pool": spec["pool"]["name"], "device": device["name"]}
        if "capacity" in device:
            result |= {"shareID": "x", "consumedCapacity": {"memory": "1"}}
        key = f"claim-{self.random.randint(0, 5)}"
        self.held[key] = [result]
        self.told.hold(key, [result])

    def let_go(self) -> None:
        if self.held:
            key = self.random.choice(list(self.held))
            del self.held[key]
            self.told.drop_claim(key)


def answered(inventory: Inventory, node: dict[str, Any], asked: dict[str, Any]) -> Outcome:
    return allocate(node, [asked], inventory, (f"share-{number}" for number in count()))


@pytest.mark.parametrize("seed", range(40))
def test_any_events_leave_the_answers_of_a_fresh_inventory(seed: int) -> None:
    world = World(seed)
    for _ in range(60):
        world.change()
        fresh = world.fresh()
        for node in world.nodes.values():
            for asked in CLAIMS:
                assert answered(world.told, node, asked) == answered(fresh, node, asked)


@pytest.mark.parametrize("seed", range(40))
def test_the_standing_answer_is_that_of_every_node_alone(seed: int) -> None:
    world = World(seed)
    standing = [Standing(world.told, [asked]) for asked in CLAIMS]
    for _ in range(60):
        world.change()
        for each, asked in zip(standing, CLAIMS, strict=True):
            while not each.run(1):
                pass
            outcomes = {name: answered(world.told, world.told.nodes[name], asked) for name in world.told.names}
            assert list(each.names()) == [name for name, one in outcomes.items() if isinstance(one, Allocated)]
            assert each.first == next(
                (
                    name
                    for name, one in outcomes.items()
                    if isinstance(one, Allocated) or (isinstance(one, Failed) and one.fatal)
                ),
                None,
            )


def test_a_claim_that_comes_and_goes_leaves_nothing_behind() -> None:
    inventory = Inventory()
    result = {"driver": "d", "pool": "p", "device": "x", "shareID": "s", "consumedCapacity": {"memory": "1Gi"}}
    for _ in range(3):
        inventory.hold("c", [result, {**result, "shareID": "t"}])
        inventory.hold("other", [{"driver": "d", "pool": "p", "device": "y"}])
        inventory.drop_claim("c")
        inventory.drop_claim("other")
    assert not inventory.in_use.used
    assert not inventory.in_use.shares
    assert not inventory.in_use.consumed


def test_a_result_with_admin_access_holds_nothing() -> None:
    inventory = Inventory()
    inventory.hold("c", [{"driver": "d", "pool": "p", "device": "x", "adminAccess": True}])
    assert not inventory.in_use.holds(("d", "p", "x"))
