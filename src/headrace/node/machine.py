"""What this machine is and has, as its Node object tells it."""

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.api.quantity import NANO, Quantity, parse

PODS = 110
RESERVED = {"cpu": "100m", "memory": "256Mi"}


@dataclass(frozen=True, slots=True)
class Machine:
    """`memory_bytes` is what the kernel manages, or less where this process is confined to less."""

    cpus: int
    memory_bytes: int
    architecture: str
    operating_system: str
    kernel: str
    os_image: str
    machine_id: str
    boot_id: str

    def capacity(self) -> dict[str, str]:
        memory = Quantity(self.memory_bytes // 1024 * 1024 * NANO, "BinarySI")
        return {"cpu": str(self.cpus), "memory": str(memory), "pods": str(PODS)}

    def allocatable(self, reserved: Mapping[str, str]) -> dict[str, str]:
        """Capacity without what is reserved for the system and headrace itself, never below nothing."""
        left = self.capacity()
        for name, amount in reserved.items():
            total = parse(left[name])
            left[name] = str(Quantity(max(0, total.nano - parse(amount).nano), total.format))
        return left


_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "ppc64le": "ppc64le", "s390x": "s390x"}


def this_machine() -> Machine:
    """Raises OSError where /proc cannot be read."""
    return Machine(
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=_memory(),
        architecture=_ARCHITECTURES.get(platform.machine(), platform.machine()),
        operating_system=platform.system().lower(),
        kernel=platform.release(),
        os_image=_os_image(),
        machine_id=_text("/etc/machine-id"),
        boot_id=_text("/proc/sys/kernel/random/boot_id"),
    )


def _memory() -> int:
    [line] = [line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:")]
    return int(line.split()[1]) * 1024


def _os_image() -> str:
    fields = dict(line.partition("=")[::2] for line in _text("/etc/os-release").splitlines())
    return fields.get("PRETTY_NAME", platform.system()).strip('"')


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except FileNotFoundError:
        return ""
