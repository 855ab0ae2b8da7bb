"""Clusters for the benchmark: equal nodes of eight GPUs, and what Pods ask of them."""

from collections.abc import Mapping
from itertools import count
from typing import Any

from headrace.devices.allocate.inventory import Inventory
from tests.devices.allocate.shapes import CLASSES, GPU, claim, first_of, match, want

Case = dict[str, Any]


def cluster(nodes: int, *claims: Case) -> Case:
    """Nodes of eight GPUs in two NUMA groups, every GPU with an identity of its own."""
    return {
        "name": f"{nodes}x8",
        "node": "*",
        "nodes": [{"metadata": {"name": f"n{number}"}} for number in range(nodes)],
        "slices": [_slice(number) for number in range(nodes)],
        "classes": CLASSES,
        "claims": list(claims),
    }


def _slice(node: int) -> Case:
    devices = [
        {
            "name": f"gpu-{at}",
            "attributes": {
                "model": {"string": "A100" if at < 6 else "H100"},
                "group": {"int": at // 4},
                "index": {"int": at},
                "uuid": {"string": f"{node}-{at}"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for at in range(8)
    ]
    pool = {"name": f"n{node}", "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"n{node}-gpu"},
        "spec": {"driver": GPU, "nodeName": f"n{node}", "pool": pool, "devices": devices},
    }


def selecting(expression: str) -> dict[str, Any]:
    return {"selectors": [{"cel": {"expression": expression}}]}


A100 = selecting(f'device.attributes["{GPU}"].model == "A100"')


def _late(alternatives: int) -> Case:
    """Alternatives of which the last alone can be served."""
    subs = [
        {
            "name": f"s{at}",
            "deviceClassName": "gpu",
            "allocationMode": "ExactCount",
            "count": 1,
            **selecting(f'device.attributes["{GPU}"].index == {90 + at if at < alternatives - 1 else 7}'),
        }
        for at in range(alternatives)
    ]
    return {"name": "r", "firstAvailable": subs}


ASKED: Mapping[str, Case] = {
    "count=1 class only": claim(want("r")),
    "count=4, 2 selectors": claim(want("r", 4, **A100)),
    "2+1 gpus same group, 2 selectors": claim(want("two", 2, **A100), want("one", 1, **A100), constraints=match()),
    "unsat: nic missing": claim(want("gpu", 2, **A100), want("nic", kind="nic")),
    "firstAvailable of 8, the last fits": claim(_late(8)),
    "firstAvailable of 8, the first fits": claim(first_of("r", 8)),
}


def inventory(case: Case) -> Inventory:
    made = Inventory()
    for each in case["classes"]:
        made.put_class(each)
    for each in case["nodes"]:
        made.put_node(each)
    for number, each in enumerate(case["slices"]):
        made.put_slice(str(number), each)
    return made


def new_ids() -> Any:
    return (f"share-{number}" for number in count())
