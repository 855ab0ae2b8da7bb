"""Nodes that look alike to a demand get one answer: it is always the one that the plain walk finds on each of them."""

from itertools import count
from random import Random
from typing import Any

import pytest

from headrace.devices.allocate.allocator import Allocated, Failed, Outcome, Search
from headrace.devices.allocate.inventory import Inventory
from headrace.devices.allocate.standing import Standing
from tests.devices.allocate.shapes import CLASSES, GPU, NIC, claim, distinct, first_of, match, want

Json = dict[str, Any]


def selecting(*expressions: str) -> list[Json]:
    return [{"cel": {"expression": each}} for each in expressions]


MODEL = f'device.attributes["{GPU}"].model == "A"'
NEWER = f'device.attributes["{GPU}"].version.isGreaterThan(semver("1.2.0"))'
ROOMY = f'device.capacity["{GPU}"].memory.isGreaterThan(quantity("8Gi"))'
ANY_DOMAIN = 'device.attributes.exists(domain, domain == "gpu.example.com")'
MISSING = f'device.attributes["{GPU}"].missing == 1'
SHARE = {"shareID": "x", "consumedCapacity": {"memory": "16Gi"}}
TOLERATION = {"operator": "Exists"}

DEMANDS = (
    claim(want("r")),
    claim(want("r", 2, selectors=selecting(MODEL))),
    claim(want("r", 2, selectors=selecting(NEWER, ROOMY))),
    claim(want("r", selectors=selecting(ANY_DOMAIN))),
    claim(want("r", selectors=selecting(MISSING))),
    claim(want("r", 2, tolerations=[TOLERATION])),
    claim(want("r", 3), constraints=match()),
    claim(want("r", 2), want("nic", kind="nic"), constraints=match("example.com/root")),
    claim(want("r", 2), constraints=distinct()),
    claim({"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}),
    claim(want("watch", adminAccess=True), want("r")),
    claim(first_of("r", 3)),
    claim(want("r", capacity={"requests": {"memory": "1Gi"}})),
)
CONFIGURED = [
    {**CLASSES[0], "spec": {**CLASSES[0]["spec"], "config": [{"opaque": {"driver": GPU, "parameters": {"a": 1}}}]}},
    *CLASSES[1:],
]


class Fleet:
    """Nodes of few kinds, some of them odd, beside an inventory that is told of each change."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.has_shared = seed % 4 == 0
        self.nodes = [{"metadata": {"name": f"n{number}"}} for number in range(12)]
        self.slices: dict[str, Json] = {}
        self.held: dict[str, list[Json]] = {}
        self.told = self.fresh()
        for node in self.nodes:
            self.publish(node["metadata"]["name"], GPU)

    def fresh(self) -> Inventory:
        inventory = Inventory()
        for each in CONFIGURED:
            inventory.put_class(each)
        for node in self.nodes:
            inventory.put_node(node)
        for key, each in self.slices.items():
            inventory.put_slice(key, each)
        for key, results in self.held.items():
            inventory.hold(key, results)
        return inventory

    def publish(self, node: str, driver: str) -> None:
        pool = node if self.random.random() < 0.9 else "shared-name"
        spec: Json = {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": self.random.choice((1, 1, 1, 1, 2))},
            "devices": [self.device(number, node) for number in range(self.random.choice((3, 4)))],
        }
        if self.has_shared and self.random.random() < 0.1:
            del spec["nodeName"]
            spec["allNodes"] = True
        key = f"{node}-{driver}"
        self.slices[key] = {"metadata": {"name": key}, "spec": spec}
        self.told.put_slice(key, self.slices[key])

    def device(self, number: int, node: str) -> Json:
        chance, roll = self.random, self.random.random()
        attributes: Json = {
            "model": {"string": chance.choice("AAAB")},
            "group": {"int": number // 2},
            "version": {"version": chance.choice(("1.2.0", "1.10.0"))},
            "uuid": {"string": f"{node}-{number}"},
            "example.com/root": {"string": chance.choice(("x", "y"))},
        }
        device: Json = {"name": f"d{number}", "attributes": attributes, "capacity": {"memory": {"value": "16Gi"}}}
        if roll < 0.05:
            device["taints"] = [{"key": "k", "effect": "NoSchedule"}]
        elif roll < 0.07:
            attributes["odd"] = chance.choice(({}, {"version": "1"}, {"string": None}, {"strings": ["a"]}))
        elif roll < 0.09:
            device["allowMultipleAllocations"] = True
        elif roll < 0.1:
            device["bindingConditions"] = ["ready"]
        elif roll < 0.11:
            device["name"] = "d0"
        elif roll < 0.12:
            del device["capacity"]
        elif roll < 0.13:
            del attributes["group"]
        return device

    def change(self) -> None:
        node = self.random.choice(self.nodes)["metadata"]["name"]
        roll = self.random.random()
        if roll < 0.5:
            self.publish(node, self.random.choice((GPU, GPU, NIC)))
        elif roll < 0.6 and self.slices:
            key = self.random.choice(list(self.slices))
            del self.slices[key]
            self.told.drop_slice(key)
        elif roll < 0.9 and self.slices:
            spec = self.random.choice(list(self.slices.values()))["spec"]
            device = self.random.choice(spec["devices"])
            result = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
            key = f"claim-{self.random.randint(0, 8)}"
            self.held[key] = [result if self.random.random() < 0.9 else {**result, **SHARE}]
            self.told.hold(key, self.held[key])
        elif self.held:
            key = self.random.choice(list(self.held))
            del self.held[key]
            self.told.drop_claim(key)


def plainly(inventory: Inventory, node: Json, asked: Json) -> Outcome:
    search = Search(node, [asked], inventory, ids(), is_plain=True)
    while (outcome := search.run()) is None:
        pass
    return outcome


def ids() -> Any:
    return (f"share-{number}" for number in count())


@pytest.mark.parametrize("seed", range(60))
def test_any_fleet_gets_the_answers_of_the_plain_walk(seed: int) -> None:
    fleet = Fleet(seed)
    asked_for = fleet.random.sample(DEMANDS, 3)  # few: a demand that ends in errors has every node looked at in full
    standing = [Standing(fleet.told, [asked]) for asked in asked_for]
    for _ in range(10):
        for _ in range(3):
            fleet.change()
        fresh = fleet.fresh()
        for each, asked in zip(standing, asked_for, strict=True):
            while not each.run(3):
                pass
            fitting = set(each.names())
            for node in fleet.nodes:
                name, outcome = node["metadata"]["name"], plainly(fresh, node, asked)
                assert (name in fitting) == isinstance(outcome, Allocated), (name, asked)
                if isinstance(outcome, Allocated):
                    assert each.results(name, ids()) == outcome.results
                if fleet.told.may_have_invalid_pool(name) is False:
                    assert not (isinstance(outcome, Failed) and outcome.kind == "invalid-pools")


def test_most_nodes_of_an_ordinary_fleet_are_never_looked_at_in_full() -> None:
    told = Inventory()
    for each in CLASSES:
        told.put_class(each)
    for number in range(100):
        device = {"name": "d", "attributes": {"uuid": {"string": str(number)}, "model": {"string": "A"}}}
        pool = {"name": f"p{number}", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": GPU, "nodeName": f"n{number}", "pool": pool, "devices": [device]}
        told.put_node({"metadata": {"name": f"n{number}"}})
        told.put_slice(str(number), {"metadata": {"name": str(number)}, "spec": spec})
    standing = Standing(told, [DEMANDS[0]])
    while not standing.run(100):
        pass
    assert len(list(standing.names())) == 100
    assert len(told.views) == 1
