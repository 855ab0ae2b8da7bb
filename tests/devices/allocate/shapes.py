"""The shapes on which Kubernetes' allocator needs exponential time, and everyday ones, by name."""

from collections.abc import Callable, Mapping
from typing import Any

GPU, NIC = "gpu.example.com", "nic.example.com"
NUMA = f"{GPU}/group"

Case = dict[str, Any]


def _selector(expression: str) -> dict[str, Any]:
    return {"cel": {"expression": expression}}


CLASSES = [
    {"metadata": {"name": "gpu"}, "spec": {"selectors": [_selector(f'device.driver == "{GPU}"')]}},
    {"metadata": {"name": "nic"}, "spec": {"selectors": [_selector(f'device.driver == "{NIC}"')]}},
]


def want(name: str, count: int = 1, kind: str = "gpu", **more: Any) -> dict[str, Any]:
    exactly = {"deviceClassName": kind, "allocationMode": "ExactCount", "count": count, **more}
    return {"name": name, "exactly": exactly}


def first_of(name: str, alternatives: int, kind: str = "gpu") -> dict[str, Any]:
    """A request with that many alternatives, each for one device."""
    subs = [
        {"name": f"s{at}", "deviceClassName": kind, "allocationMode": "ExactCount", "count": 1}
        for at in range(alternatives)
    ]
    return {"name": name, "firstAvailable": subs}


def claim(
    *requests: dict[str, Any], constraints: list[dict[str, Any]] | None = None, name: str = "c"
) -> dict[str, Any]:
    devices = {"requests": list(requests), "constraints": constraints or []}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": devices}}


def gpus(number: int, group_of: Callable[[int], int] = lambda at: at, **more: Any) -> list[dict[str, Any]]:
    return [{"name": f"gpu-{at}", "attributes": {"group": {"int": group_of(at)}}, **more} for at in range(number)]


def case(devices: list[dict[str, Any]], *claims: dict[str, Any], counters: list[dict[str, Any]] | None = None) -> Case:
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 2 if counters else 1}
    slices = [
        {"metadata": {"name": "n-gpu"}, "spec": {"driver": GPU, "nodeName": "n", "pool": pool, "devices": devices}}
    ]
    if counters:
        spec = {"driver": GPU, "nodeName": "n", "pool": pool, "sharedCounters": counters}
        slices.append({"metadata": {"name": "n-counters"}, "spec": spec})
    return {
        "name": "shape",
        "node": "n",
        "nodes": [{"metadata": {"name": "n"}}],
        "slices": slices,
        "classes": CLASSES,
        "claims": list(claims),
    }


def match(attribute: str = NUMA) -> list[dict[str, Any]]:
    return [{"matchAttribute": attribute}]


def distinct(attribute: str = NUMA) -> list[dict[str, Any]]:
    return [{"distinctAttribute": attribute}]


def _shares(requests: int) -> Case:
    capacity = {"memory": {"value": "64Gi"}}
    devices = gpus(8, allowMultipleAllocations=True, capacity=capacity)
    small = [want(f"r{at}", capacity={"requests": {"memory": "1Gi"}}) for at in range(requests)]
    return case(devices, claim(*small, want("big", capacity={"requests": {"memory": "65Gi"}})))


def _full_shares(requests: int) -> Case:
    devices = gpus(8, allowMultipleAllocations=True, capacity={"memory": {"value": "1Gi"}})
    return case(devices, claim(*(want(f"r{at}", capacity={"requests": {"memory": "1Gi"}}) for at in range(requests))))


def partitions(wanted: int) -> Case:
    """Eight GPUs in eight parts each, of which three fit."""
    devices = [
        {
            "name": f"gpu-{gpu}-part-{part}",
            "consumesCounters": [{"counterSet": f"gpu-{gpu}", "counters": {"memory": {"value": "1"}}}],
        }
        for gpu in range(8)
        for part in range(8)
    ]
    counters = [{"name": f"gpu-{gpu}", "counters": {"memory": {"value": "3"}}} for gpu in range(8)]
    return case(devices, claim(want("r", wanted)), counters=counters)


def _none_match() -> Case:
    never = _selector(f'device.attributes["{GPU}"].group == 999')
    requests = [want(f"r{at}") for at in range(3)]
    return case(gpus(128), claim(*requests, want("last", selectors=[never])))


def _groups(size: int) -> Callable[[int], int]:
    return lambda at: at // size


EXPLODING: Mapping[str, Case] = {
    "unsat match: 64 dev, groups of 11, want 12": case(
        gpus(64, _groups(11)), claim(want("r", 12), constraints=match())
    ),
    "unsat match: 64 dev, groups of 15, want 16": case(
        gpus(64, _groups(15)), claim(want("r", 16), constraints=match())
    ),
    "unsat match 8x1: 64 dev, groups of 7": case(
        gpus(64, _groups(7)), claim(*(want(f"r{at}") for at in range(8)), constraints=match())
    ),
    "gpu 4 of 32 + missing nic": case(gpus(32), claim(want("gpu", 4), want("nic", kind="nic"))),
    "gpu 3 of 64 + missing nic": case(gpus(64), claim(want("gpu", 3), want("nic", kind="nic"))),
    "gpu 4 of 64 + missing nic": case(gpus(64), claim(want("gpu", 4), want("nic", kind="nic"))),
    "gpu 8 of 64 + missing nic": case(gpus(64), claim(want("gpu", 8), want("nic", kind="nic"))),
    "unsat distinct: 4 values x 16, want 5": case(gpus(64, _groups(16)), claim(want("r", 5), constraints=distinct())),
    "unsat distinct: 6 values x 8, want 7": case(gpus(48, _groups(8)), claim(want("r", 7), constraints=distinct())),
    "unsat distinct: 8 values x 8, want 9": case(gpus(64, _groups(8)), claim(want("r", 9), constraints=distinct())),
    "unsat shares: 6 requests of 1Gi on 8 devices + 1 too big": _shares(6),
    "unsat shares: 8 requests of 1Gi on 8 devices + 1 too big": _shares(8),
    "unsat shares: 9 requests of 1Gi on 8 devices of 1Gi": _full_shares(9),
    "unsat firstAvailable: 3 requests x 3 alternatives, 12 dev + missing nic": case(
        gpus(12), claim(*(first_of(f"r{at}", 3) for at in range(3)), want("nic", kind="nic"))
    ),
    "unsat firstAvailable: 4 requests x 3 alternatives, 12 dev + missing nic": case(
        gpus(12), claim(*(first_of(f"r{at}", 3) for at in range(4)), want("nic", kind="nic"))
    ),
    "unsat firstAvailable: 5 requests x 3 alternatives, 12 dev + missing nic": case(
        gpus(12), claim(*(first_of(f"r{at}", 3) for at in range(5)), want("nic", kind="nic"))
    ),
    "unsat firstAvailable: 7 requests x 3 alternatives on 6 devices": case(
        gpus(6), claim(*(first_of(f"r{at}", 3) for at in range(7)))
    ),
    "64 partitions on 8 gpus (3 fit each), want 25": partitions(25),
    "CEL: 128 dev, 4 requests same selector, last none": _none_match(),
    "2 claims: 6 of 24, then impossible": case(
        gpus(24), claim(want("gpu", 6), name="one"), claim(want("nic", kind="nic"), name="two")
    ),
    "match 4 requests x2 late": case(
        gpus(64, lambda at: at // 7), claim(*(want(f"r{at}", 2) for at in range(4)), constraints=match())
    ),
}

EVERYDAY: Mapping[str, Case] = {
    "1x8 count=1": case(gpus(8), claim(want("r"))),
    "1x8 count=4": case(gpus(8), claim(want("r", 4))),
    "64 dev, groups of 3, last of 4; want 4 match": case(
        gpus(64, lambda at: min(at // 3, 20)), claim(want("r", 4), constraints=match())
    ),
    "64 dev, groups of 3, last of 4; 4x1 match": case(
        gpus(64, lambda at: min(at // 3, 20)), claim(*(want(f"r{at}") for at in range(4)), constraints=match())
    ),
    "64 partitions on 8 gpus (3 fit each), want 24": partitions(24),
}
