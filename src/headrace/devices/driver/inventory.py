"""Devices that do not exist, for the demo and for tests: pure data, one function for each profile of a driver.

`plain` is what examples/ describes exactly; the other profiles show what one slice of two GPUs cannot.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Described = Mapping[str, Any]  # a device as ResourceSlice's spec.devices writes it

PLAIN, TOPOLOGY, PARTITIONS = "plain", "topology", "partitions"
PROFILES = (PLAIN, TOPOLOGY, PARTITIONS)

PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
NUMA_NODE = "resource.kubernetes.io/numaNode"
ROOTS = ("pci0000:00", "pci0000:80")  # root N is on NUMA node N

DRIVER_VERSION = "550.54.15"
TOPOLOGY_MEMORY = ("80Gi", "80Gi", "40Gi", "40Gi")
PARTITIONS_OF_A_GPU = (("full", 1), ("half", 2), ("quarter", 4))
COMPUTE_UNITS, MEMORY_GI = 4, 80

DEVICES: tuple[Described, ...] = (
    {
        "name": "gpu-0",
        "attributes": {
            "model": {"string": "A100"},
            "driverVersion": {"version": DRIVER_VERSION},
            "numaNode": {"int": 0},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    },
    {
        "name": "gpu-1",
        "attributes": {"model": {"string": "A100"}, "numaNode": {"int": 1}},
        "capacity": {"memory": {"value": "40Gi"}},
    },
)


def gpus(profile: str) -> tuple[Sequence[Described], Sequence[Described]]:
    """Devices and the counter sets they share. Raises ValueError where there is no such profile."""
    match profile:
        case "plain":
            return DEVICES, ()
        case "topology":
            return [_gpu(number, memory) for number, memory in enumerate(TOPOLOGY_MEMORY)], ()
        case "partitions":
            return [each for number in range(len(ROOTS)) for each in _parts(number)], [
                _counters(number) for number in range(len(ROOTS))
            ]
    raise ValueError(f"profile {profile!r}: must be one of {', '.join(PROFILES)}")


def nics() -> Sequence[Described]:
    """One for each PCIe root of the other profiles."""
    return [
        {
            "name": f"nic-{number}",
            "attributes": {"model": {"string": "X7"}, "linkGbps": {"int": 100}, **_place(number)},
            "capacity": {"bandwidth": {"value": "100G"}},
        }
        for number in range(len(ROOTS))
    ]


def _place(root: int) -> dict[str, Any]:
    return {PCIE_ROOT: {"string": ROOTS[root]}, NUMA_NODE: {"int": root}, "numaNode": {"int": root}}


def _gpu(number: int, memory: str) -> Described:
    """Two GPUs under each root."""
    return {
        "name": f"gpu-{number}",
        "attributes": {
            "model": {"string": "A100"},
            "driverVersion": {"version": DRIVER_VERSION},
            **_place(number * len(ROOTS) // len(TOPOLOGY_MEMORY)),
        },
        "capacity": {"memory": {"value": memory}},
    }


def _parts(gpu: int) -> list[Described]:
    """A GPU whole, in halves and in quarters: what of it is taken leaves fewer of the others."""
    return [_part(gpu, profile, count, number) for profile, count in PARTITIONS_OF_A_GPU for number in range(count)]


def _part(gpu: int, profile: str, count: int, number: int) -> Described:
    memory, compute = {"value": f"{MEMORY_GI // count}Gi"}, {"value": str(COMPUTE_UNITS // count)}
    return {
        "name": f"gpu-{gpu}" if count == 1 else f"gpu-{gpu}-{profile}-{number}",
        "attributes": {
            "model": {"string": "A100"},
            "driverVersion": {"version": DRIVER_VERSION},
            "parent": {"string": f"gpu-{gpu}"},
            "profile": {"string": profile},
            **_place(gpu),
        },
        "capacity": {"memory": memory},
        "consumesCounters": [{"counterSet": f"gpu-{gpu}", "counters": {"memory": memory, "compute": compute}}],
    }


def _counters(gpu: int) -> Described:
    counters = {"memory": {"value": f"{MEMORY_GI}Gi"}, "compute": {"value": str(COMPUTE_UNITS)}}
    return {"name": f"gpu-{gpu}", "counters": counters}
