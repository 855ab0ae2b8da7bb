"""`gpu.example.com`: two GPUs that do not exist, for the demo and for tests. What it hands out is environment.

On a node called node-a its slice has a fixed name, so that the manifest in examples/ describes it exactly.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.api.cdi import ContainerEdits, Device, InvalidCdi
from headrace.devices.driver.cdi_files import CdiFiles
from headrace.devices.driver.interface import Allocated, Pool, Prepared, PrepareError

NAME = "gpu.example.com"
SLICE_NAMES = {"node-a": "node-a-gpu.example.com-x7k2p"}

DEVICES: tuple[Mapping[str, Any], ...] = (
    {
        "name": "gpu-0",
        "attributes": {
            "model": {"string": "A100"},
            "driverVersion": {"version": "550.54.15"},
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

CONFIG_VERSION, CONFIG_KIND = "gpu.example.com/v1", "GpuConfig"
STRATEGIES = ("TimeSlicing", "SpacePartitioning")

_NOT_NAME = re.compile(r"[^A-Z0-9_]")


class SimulatedGpus:
    """Implements `Driver`."""

    name = NAME

    def __init__(self, node: str, cdi_directory: Path) -> None:
        self._node = node
        self._files = CdiFiles(cdi_directory, NAME, f"{NAME}/claim")

    def pools(self) -> Sequence[Pool]:
        names = (SLICE_NAMES[self._node],) if self._node in SLICE_NAMES else ()
        return (Pool(self._node, DEVICES, names),)

    def prepare(self, claim_uid: str, devices: Sequence[Allocated]) -> list[Prepared]:
        known = {str(device["name"]) for device in DEVICES}
        for each in devices:
            if each.pool != self._node or each.device not in known:
                raise PrepareError(f"device {each.pool}/{each.device}: this node has {', '.join(sorted(known))}")
        entries = [Device(f"{claim_uid}-{each.device}", _edits(claim_uid, each)) for each in devices]
        try:
            names = self._files.write(claim_uid, entries)
        except (OSError, InvalidCdi) as error:
            raise PrepareError(f"CDI document: {error}") from None
        return [Prepared(each, (name,)) for each, name in zip(devices, names, strict=True)]

    def unprepare(self, claim_uid: str) -> None:
        try:
            self._files.remove(claim_uid)
        except OSError as error:
            raise PrepareError(f"CDI document: {error}") from None


def _edits(claim_uid: str, allocated: Allocated) -> ContainerEdits:
    """`GPU_DEVICE_0=gpu-0` and what goes with it, numbered as the device is."""
    number = _NOT_NAME.sub("_", allocated.device.rpartition("-")[2].upper())
    env = [f"GPU_DEVICE_{number}={allocated.device}", f"GPU_DEVICE_{number}_RESOURCE_CLAIM={claim_uid}"]
    if strategy := _strategy(allocated):
        env.append(f"GPU_DEVICE_{number}_SHARING_STRATEGY={strategy}")
    return ContainerEdits(env=tuple(env))


def _strategy(allocated: Allocated) -> str:
    """The last configured sharing strategy. Raises PrepareError naming the wrong field."""
    chosen = ""
    for parameters in allocated.config:
        where = f"config of request {allocated.request!r}"
        version, kind = parameters.get("apiVersion"), parameters.get("kind")
        if (version, kind) != (CONFIG_VERSION, CONFIG_KIND):
            raise PrepareError(f"{where}: {version} {kind}: must be {CONFIG_VERSION} {CONFIG_KIND}")
        sharing = parameters.get("sharing")
        if sharing is None:
            continue
        if not isinstance(sharing, Mapping) or sharing.get("strategy") not in STRATEGIES:
            said = sharing.get("strategy") if isinstance(sharing, Mapping) else sharing
            raise PrepareError(f"{where}: sharing.strategy {said!r}: must be one of {', '.join(STRATEGIES)}")
        chosen = str(sharing["strategy"])
    return chosen
