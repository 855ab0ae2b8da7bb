"""What a machine has, read from its sysfs and /dev below a root that may be a recorded tree: PCI functions, network
interfaces, /dev/dri, /dev/kvm, NUMA nodes. Reads only; what cannot be read is left out, never guessed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
PCI_BUS_ID = "resource.kubernetes.io/pciBusID"
NUMA_NODE = "resource.kubernetes.io/numaNode"

BRIDGES = "06"  # a PCI class: part of the machine's own wiring
VFIO_DRIVER, VFIO_NODE = "vfio-pci", "/dev/vfio/vfio"
ATTRIBUTE_CHARACTERS = 64

_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_PCI_ROOT = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")
_NUMBERED = re.compile(r"\d+")
_MEMORY = re.compile(r"MemTotal:\s+(\d+) kB")
_NOT_LABEL = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class HostDevice:
    """`nodes` are paths under /dev that a container needs; `env` tells it what it was given. `shared`: any number of
    claims may have it at once.
    """

    name: str
    attributes: Mapping[str, Mapping[str, Any]]
    nodes: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    shared: bool = False


def discover(root: Path = Path("/")) -> list[HostDevice]:
    """Every device once, by name."""
    sys = root / "sys"
    functions = _pci_functions(sys)
    drm = _drm_nodes(sys)
    found = list(_interfaces(sys, functions))
    taken = {device.attributes[PCI_BUS_ID]["string"] for device in found if PCI_BUS_ID in device.attributes}
    found += [_pci(path, drm.pop(address, ())) for address, path in functions.items() if address not in taken]
    found += [_platform_drm(place, nodes) for place, nodes in drm.items() if place not in functions]
    if (root / "dev/kvm").exists():
        found.append(HostDevice("kvm", {"kind": _text("kvm")}, ("/dev/kvm",), shared=True))
    found += _numa_nodes(sys)
    return sorted(_distinct(found), key=lambda device: device.name)


def _pci_functions(sys: Path) -> dict[str, Path]:
    """By address, where each is in the tree of devices; bridges are left out."""
    found: dict[str, Path] = {}
    for link in _entries(sys / "bus/pci/devices"):
        if _PCI_ADDRESS.fullmatch(link.name) and not _hex(link / "class").startswith(BRIDGES):
            found[link.name] = link.resolve()
    return found


def _pci(path: Path, drm: tuple[str, ...]) -> HostDevice:
    address = path.name
    attributes = _pci_attributes(path) | {"kind": _text("gpu" if drm else "pci")}
    nodes = drm
    group = _target(path / "iommu_group")
    if not drm and group and _target(path / "driver") == VFIO_DRIVER:
        nodes = (f"/dev/vfio/{group}", VFIO_NODE)
        attributes["kind"] = _text("vfio")
    return HostDevice(f"pci-{_label(address)}", attributes, nodes, {"PCI_ADDRESS": address})


def _pci_attributes(path: Path) -> dict[str, Mapping[str, Any]]:
    """Kubernetes' standard attributes and what the function says of itself."""
    attributes: dict[str, Mapping[str, Any]] = {PCI_BUS_ID: _text(path.name)}
    if root := next((part for part in path.parts if _PCI_ROOT.fullmatch(part)), ""):
        attributes[PCIE_ROOT] = _text(root)
    # A device without affinity says -1: told as an attribute it would match every other such device.
    if (numa := _number(path / "numa_node")) is not None and numa >= 0:
        attributes[NUMA_NODE] = {"int": numa}
    for name, file in (("vendor", "vendor"), ("device", "device"), ("class", "class")):
        if value := _hex(path / file):
            attributes[name] = _text(f"0x{value}")
    if driver := _target(path / "driver"):
        attributes["driver"] = _text(driver)
    return attributes


def _interfaces(sys: Path, functions: Mapping[str, Path]) -> Iterator[HostDevice]:
    """Those with a device behind them: what is virtual comes and goes with containers."""
    for link in _entries(sys / "class/net"):
        place = link.resolve()
        if not (place / "device").exists():
            continue
        address = next((part for part in reversed(place.parts) if part in functions), "")
        attributes = dict(_pci_attributes(functions[address])) if address else {}
        attributes |= {"kind": _text("network"), "interface": _text(link.name)}
        if mac := _read(link / "address"):
            attributes["mac"] = _text(mac)
        if (speed := _number(link / "speed")) is not None and speed > 0:
            attributes["speedMbps"] = {"int": speed}
        yield HostDevice(f"net-{_label(link.name)}", attributes, env={"INTERFACE": link.name})


def _drm_nodes(sys: Path) -> dict[str, tuple[str, ...]]:
    """Nodes of /dev/dri by the PCI address behind them, or by the device's name where there is none."""
    found: dict[str, list[str]] = {}
    for link in _entries(sys / "class/drm"):
        if re.fullmatch(r"(card|renderD)\d+", link.name) and (link / "device").exists():
            found.setdefault((link / "device").resolve().name, []).append(f"/dev/dri/{link.name}")
    return {place: tuple(sorted(nodes)) for place, nodes in found.items()}


def _platform_drm(place: str, nodes: tuple[str, ...]) -> HostDevice:
    return HostDevice(f"dri-{_label(place)}", {"kind": _text("gpu"), "platform": _text(place)}, nodes)


def _numa_nodes(sys: Path) -> Iterator[HostDevice]:
    """Those with CPUs; claims may take parts of their capacity."""
    for path in _entries(sys / "devices/system/node"):
        number = path.name.removeprefix("node")
        cpus = _read(path / "cpulist")
        if not _NUMBERED.fullmatch(number) or not cpus:
            continue
        capacity = {"cpu": str(_count(cpus))}
        if memory := _MEMORY.search(_read(path / "meminfo")):
            capacity["memory"] = f"{memory[1]}Ki"
        attributes = {"kind": _text("numa"), NUMA_NODE: {"int": int(number)}, "cpus": _text(cpus)}
        yield HostDevice(f"numa-{number}", attributes, env={"CPUS": cpus}, capacity=capacity, shared=True)


def _distinct(found: list[HostDevice]) -> Iterator[HostDevice]:
    """Names that differ only in what a label cannot hold (eth0.1 and eth0-1) go by their order."""
    seen: dict[str, int] = {}
    for device in found:
        count = seen[device.name] = seen.get(device.name, 0) + 1
        name = device.name if count == 1 else f"{device.name}-{count}"
        yield (
            device
            if count == 1
            else HostDevice(name, device.attributes, device.nodes, device.env, device.capacity, device.shared)
        )


def _count(cpus: str) -> int:
    """`0-3,8` is five."""
    total = 0
    for part in cpus.split(","):
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return total


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:  # such as the speed of an interface that is down
        return ""


def _number(path: Path) -> int | None:
    try:
        return int(_read(path))
    except ValueError:
        return None


def _hex(path: Path) -> str:
    return _read(path).removeprefix("0x").lower()


def _target(link: Path) -> str:
    """The name of what a link points to; empty where there is none."""
    return link.readlink().name if link.is_symlink() else ""


def _text(value: str) -> Mapping[str, Any]:
    return {"string": value[:ATTRIBUTE_CHARACTERS]}


def _label(text: str) -> str:
    return _NOT_LABEL.sub("-", text.lower()).strip("-")[:50] or "x"
