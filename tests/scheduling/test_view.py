"""The ledger of a node in the scheduler's view, when the node itself changes."""

import json

from headrace.ledger.node import Ledger
from headrace.resize.controller import ledger_of
from tests.scheduling.test_kept import World


def test_a_node_s_change_costs_one_sum_over_its_holders_and_keeps_pods_and_reservations(monkeypatch):
    """(Holder by holder each copied all the others.)"""
    world = World()
    world.node("n0", 400)
    for number in range(100):
        world.pod(f"p{number}", "n0", 1)
    world.reservation("r", "n0", 7)
    records = []
    record = Ledger.record
    monkeypatch.setattr(Ledger, "record", lambda self, *told: records.append(told) or record(self, *told))
    node = {
        "metadata": {
            "name": "n0",
            "annotations": {"headrace.dev/strays": json.dumps({"x": {"cpu": 500, "memory": 1024}})},
        },
        "status": {"capacity": {"cpu": "300", "memory": "8Gi", "pods": "200"}},
    }
    world.nodes.tell("n0", node)
    assert not records
    found = world.view.candidate("n0").ledger
    assert found == ledger_of(node, world.pods, world.reservations)
    assert found.room("cpu") == 300_000 - 100_000 - 7_000 - 500
    node = {**node, "metadata": {"name": "n0"}}
    world.nodes.tell("n0", node)
    assert world.view.candidate("n0").ledger == ledger_of(node, world.pods, world.reservations)


def test_a_pod_that_was_replaced_unseen_by_one_that_waits_holds_nothing_any_more():
    world = World()
    world.node("n0", 4)
    world.pod("p", "n0", 3)
    other = {"metadata": {"name": "p", "namespace": "default", "uid": "another"}, "spec": {"containers": []}}
    world.pods.tell("default/p", other)
    assert world.view.candidate("n0").ledger.room("cpu") == 4_000
