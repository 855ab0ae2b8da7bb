"""`gpu.example.com` and `nic.example.com`: devices that do not exist. What they hand out is environment.

On a node called node-a the plain GPUs' slice has a fixed name, so that the manifest in examples/ describes it exactly.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from headrace.api.cdi import ContainerEdits, Device, InvalidCdi
from headrace.devices.driver import gpu_config
from headrace.devices.driver.cdi_files import CdiFiles
from headrace.devices.driver.interface import (
    Allocated,
    DeviceHealth,
    Pool,
    Prepared,
    PrepareError,
    cdi_device_names,
)
from headrace.devices.driver.inventory import PLAIN, Described, gpus, nics

NAME, NIC_NAME = "gpu.example.com", "nic.example.com"
UNHEALTHY_FILE = "unhealthy-gpus"
SLICE_NAMES = {"node-a": "node-a-gpu.example.com-x7k2p"}

_NOT_NAME = re.compile(r"[^A-Z0-9_]")


class _Simulated:
    """Implements `Driver` but for its name and what a device is configured with."""

    name: str

    def __init__(
        self,
        node: str,
        cdi_directory: Path,
        prefix: str,
        inventory: tuple[Sequence[Described], Sequence[Described]],
        slice_names: Sequence[str] = (),
    ) -> None:
        self._node, self._prefix = node, prefix
        self._devices, self._counters = inventory
        self._slice_names = slice_names
        self._files = CdiFiles(cdi_directory, self.name, f"{self.name}/claim")

    def pools(self) -> Sequence[Pool]:
        return (Pool(self._node, self._devices, self._slice_names, self._counters),)

    def prepare(self, claim_uid: str, devices: Sequence[Allocated]) -> list[Prepared]:
        known = {str(device["name"]) for device in self._devices}
        for each in devices:
            if each.pool != self._node or each.device not in known:
                raise PrepareError(f"device {each.pool}/{each.device}: this node has {', '.join(sorted(known))}")
        entries = [
            Device(name, self._edits(claim_uid, each))
            for name, each in zip(cdi_device_names(claim_uid, devices), devices, strict=True)
        ]
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

    def _edits(self, claim_uid: str, allocated: Allocated) -> ContainerEdits:
        """`GPU_DEVICE_0=gpu-0` and what goes with it, numbered as the device is."""
        number = _NOT_NAME.sub("_", allocated.device.partition("-")[2].upper())
        variable = f"{self._prefix}_DEVICE_{number}"
        values = {"": allocated.device, "_RESOURCE_CLAIM": claim_uid} | self._configured(allocated)
        return ContainerEdits(env=tuple(f"{variable}{suffix}={value}" for suffix, value in values.items()))

    def _configured(self, allocated: Allocated) -> dict[str, str]:
        """What the configuration adds, by the variable's suffix. Raises PrepareError naming the wrong field."""
        raise NotImplementedError


class SimulatedGpus(_Simulated):
    """`profile`: which GPUs, as `inventory` has them. Raises ValueError where there is no such profile.

    A GPU is unhealthy as long as a file `unhealthy-gpus` beside the CDI directory has a line with its name, and what
    it has: `gpu-0 XID 79: fell off the bus`.
    """

    name = NAME

    def __init__(self, node: str, cdi_directory: Path, profile: str = PLAIN) -> None:
        names = (SLICE_NAMES[node],) if node in SLICE_NAMES and profile == PLAIN else ()
        super().__init__(node, cdi_directory, "GPU", gpus(profile), names)
        self._illnesses = cdi_directory.parent / UNHEALTHY_FILE

    def health(self) -> Sequence[DeviceHealth]:
        try:
            lines = self._illnesses.read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        ill = {name: message for name, _, message in (line.strip().partition(" ") for line in lines) if name}
        names = [str(device["name"]) for device in self._devices]
        return [DeviceHealth(self._node, name, name not in ill, ill.get(name, "")) for name in names]

    def _configured(self, allocated: Allocated) -> dict[str, str]:
        try:
            sharing = gpu_config.sharing(allocated.config)
        except gpu_config.InvalidConfig as wrong:
            raise PrepareError(f"config of request {allocated.request!r}: {wrong}") from None
        if sharing is None:
            return {}
        found = {"_SHARING_STRATEGY": sharing.strategy}
        if sharing.interval is not None:
            found["_TIMESLICE_INTERVAL"] = sharing.interval
        if sharing.partitions is not None:
            found["_PARTITION_COUNT"] = str(sharing.partitions)
        return found


class SimulatedNics(_Simulated):
    """Under the same PCIe roots as the GPUs of the topology profile."""

    name = NIC_NAME

    def __init__(self, node: str, cdi_directory: Path) -> None:
        super().__init__(node, cdi_directory, "NIC", (nics(), ()))

    def _configured(self, allocated: Allocated) -> dict[str, str]:
        if allocated.config:
            raise PrepareError(f"config of request {allocated.request!r}: {self.name} takes no configuration")
        return {}
