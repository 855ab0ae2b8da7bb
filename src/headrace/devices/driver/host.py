"""`host.headrace.dev`: this machine's own devices, as sysfs tells them, handed out as device nodes and environment.

It sets nothing up and takes no configuration: whoever gets a device works with what the kernel shows.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.api.cdi import ContainerEdits, Device, DeviceNode, InvalidCdi
from headrace.devices.driver.cdi_files import CdiFiles
from headrace.devices.driver.host_discovery import HostDevice, discover
from headrace.devices.driver.interface import Allocated, DeviceHealth, Pool, Prepared, PrepareError, cdi_device_names

NAME = "host.headrace.dev"
PERMISSIONS = "rw"

_NOT_NAME = re.compile(r"[^A-Z0-9_]")


class HostDevices:
    """Implements `Driver` and `ReportsHealth`. `root` holds sys/ and dev/, the machine's own unless a test says so."""

    name = NAME

    def __init__(self, node: str, cdi_directory: Path, root: Path = Path("/")) -> None:
        self._node, self._root = node, root
        self._files = CdiFiles(cdi_directory, NAME, f"{NAME}/claim")
        self._published: dict[str, HostDevice] = {}

    def pools(self) -> Sequence[Pool]:
        found = discover(self._root)
        self._published = {each.name: each for each in found}
        return (Pool(self._node, [_described(each) for each in found]),)

    def health(self) -> Sequence[DeviceHealth]:
        """Healthy is what is still there, with all its nodes."""
        here = {each.name for each in discover(self._root)}
        return [
            DeviceHealth(self._node, name, not (wrong := self._wrong(device, name in here)), wrong)
            for name, device in sorted(self._published.items())
        ]

    def prepare(self, claim_uid: str, devices: Sequence[Allocated]) -> list[Prepared]:
        here = {each.name: each for each in discover(self._root)}
        entries: list[Device] = []
        for allocated, name in zip(devices, cdi_device_names(claim_uid, devices), strict=True):
            device = here.get(allocated.device)
            if allocated.pool != self._node or device is None:
                raise PrepareError(f"device {allocated.pool}/{allocated.device}: this machine has it no more")
            if allocated.config:
                raise PrepareError(f"config of request {allocated.request!r}: {NAME} takes no configuration")
            if wrong := self._wrong(device, is_here=True):
                raise PrepareError(f"device {allocated.device}: {wrong}")
            entries.append(Device(name, _edits(device)))
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

    def _wrong(self, device: HostDevice, is_here: bool) -> str:
        if not is_here:
            return "this machine has it no more"
        missing = [node for node in device.nodes if not (self._root / node.removeprefix("/")).exists()]
        return f"{', '.join(missing)} is not there" if missing else ""


def _described(device: HostDevice) -> Mapping[str, Any]:
    described: dict[str, Any] = {"name": device.name, "attributes": dict(device.attributes)}
    if device.capacity:
        described["capacity"] = {name: {"value": value} for name, value in device.capacity.items()}
    if device.shared:
        described["allowMultipleAllocations"] = True
    return described


def _edits(device: HostDevice) -> ContainerEdits:
    """`HOST_DEVICE_NET_ETH0=net-eth0`, `HOST_DEVICE_NET_ETH0_INTERFACE=eth0` and the nodes."""
    variable = f"HOST_DEVICE_{_NOT_NAME.sub('_', device.name.upper())}"
    env = [f"{variable}={device.name}", *(f"{variable}_{name}={value}" for name, value in device.env.items())]
    nodes = [DeviceNode(path=path, permissions=PERMISSIONS) for path in device.nodes]
    return ContainerEdits(env=tuple(env), device_nodes=tuple(nodes))
