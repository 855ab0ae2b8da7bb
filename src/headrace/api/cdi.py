"""Container Device Interface documents: what a prepared device adds to a container, under a qualified name. Pure.

Source: the CDI specification (cncf-tags/container-device-interface), versions 0.3.0 to 1.1.0. A field of a later
version is refused rather than lost.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import field

VERSIONS = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
HOOK_NAMES = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")

_VENDOR = re.compile(r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)
_CLASS = _VENDOR
_DEVICE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?", re.ASCII)
_ENV = re.compile(r"[^=\0]+=[^\0]*", re.DOTALL)


class InvalidCdi(ValueError):
    """The document or the name breaks the specification; the message names the field and what would be right."""


class _Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    pass


class DeviceNode(_Part, frozen=True):
    path: str
    host_path: str = ""
    type: str = ""
    major: int = 0
    minor: int = 0
    file_mode: int | None = None
    permissions: str = ""
    uid: int | None = None
    gid: int | None = None


class CdiMount(_Part, frozen=True):
    host_path: str
    container_path: str
    options: tuple[str, ...] = ()
    type: str = ""


class Hook(_Part, frozen=True):
    hook_name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None


class NetDevice(_Part, frozen=True):
    host_interface_name: str
    name: str


class IntelRdt(_Part, frozen=True):
    clos_id: str = field(name="closID", default="")
    l3_cache_schema: str = ""
    mem_bw_schema: str = ""
    enable_cmt: bool = field(name="enableCMT", default=False)
    enable_mbm: bool = field(name="enableMBM", default=False)
    schemata: tuple[str, ...] = ()
    enable_monitoring: bool = False


class ContainerEdits(_Part, frozen=True):
    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    net_devices: tuple[NetDevice, ...] = ()
    mounts: tuple[CdiMount, ...] = ()
    hooks: tuple[Hook, ...] = ()
    intel_rdt: IntelRdt | None = None
    additional_gids: tuple[int, ...] = field(name="additionalGids", default=())

    @property
    def is_empty(self) -> bool:
        return self == NOTHING


NOTHING = ContainerEdits()


class Device(_Part, frozen=True):
    name: str
    container_edits: ContainerEdits
    annotations: dict[str, str] = field(default_factory=dict)


class Spec(_Part, frozen=True):
    """A document: devices of one kind (`vendor/class`), and edits that go with any of them."""

    cdi_version: str
    kind: str
    devices: tuple[Device, ...]
    annotations: dict[str, str] = field(default_factory=dict)
    container_edits: ContainerEdits = NOTHING


@dataclass(frozen=True, slots=True)
class QualifiedName:
    """`vendor.com/class=device`: what a driver answers, and what a runtime is given."""

    vendor: str
    device_class: str
    device: str

    @property
    def kind(self) -> str:
        return f"{self.vendor}/{self.device_class}"

    def __str__(self) -> str:
        return f"{self.kind}={self.device}"


def qualified_name(text: str) -> QualifiedName:
    """Raises InvalidCdi."""
    kind, equals, device = text.partition("=")
    if not equals:
        raise InvalidCdi(f"CDI device {text!r}: must be vendor/class=device")
    vendor, device_class = _kind(kind)
    if not _DEVICE.fullmatch(device):
        raise InvalidCdi(f"CDI device {text!r}: {device!r} must be letters, digits, '_', '-', '.' or ':'")
    return QualifiedName(vendor, device_class, device)


def spec(devices: Iterable[Device], kind: str, edits: ContainerEdits = NOTHING) -> Spec:
    """A document with the lowest cdiVersion that holds it. Raises InvalidCdi."""
    draft = Spec(VERSIONS[0], kind, tuple(devices), container_edits=edits)
    made = msgspec.structs.replace(draft, cdi_version=minimum_version(draft))
    check(made)
    return made


def read(document: bytes) -> Spec:
    """Decode and validate JSON. Raises InvalidCdi."""
    try:
        found = msgspec.json.decode(document, type=Spec)
    except msgspec.DecodeError as error:
        raise InvalidCdi(str(error)) from None
    check(found)
    return found


def check(document: Spec) -> None:
    """Raises InvalidCdi where the document breaks the specification."""
    if document.cdi_version not in VERSIONS:
        raise InvalidCdi(f"cdiVersion {document.cdi_version!r}: must be one of {', '.join(VERSIONS)}")
    lowest = minimum_version(document)
    if VERSIONS.index(document.cdi_version) < VERSIONS.index(lowest):
        raise InvalidCdi(f"cdiVersion {document.cdi_version!r}: must be at least {lowest} for what the document uses")
    _kind(document.kind)
    if not document.devices:
        raise InvalidCdi("devices: must name at least one device")
    _edits("containerEdits", document.container_edits)
    names: set[str] = set()
    for number, device in enumerate(document.devices):
        where = f"devices[{number}]"
        if not _DEVICE.fullmatch(device.name):
            raise InvalidCdi(f"{where}.name {device.name!r}: must be letters, digits, '_', '-', '.' or ':'")
        if device.name in names:
            raise InvalidCdi(f"{where}.name {device.name!r}: must be unique in the document")
        names.add(device.name)
        if device.container_edits.is_empty:
            raise InvalidCdi(f"{where}.containerEdits: must not be empty")
        _edits(f"{where}.containerEdits", device.container_edits)


def minimum_version(document: Spec) -> str:
    """The first version of the specification that has every field in use."""
    edits = (document.container_edits, *(device.container_edits for device in document.devices))
    if any(each.net_devices or (each.intel_rdt and _is_late_rdt(each.intel_rdt)) for each in edits):
        return "1.1.0"
    if any(each.intel_rdt or each.additional_gids for each in edits):
        return "0.7.0"
    annotated = document.annotations or any(device.annotations for device in document.devices)
    if annotated or "." in document.kind.partition("/")[2]:
        return "0.6.0"
    numbered = any(device.name[:1].isdigit() for device in document.devices)
    if numbered or any(node.host_path for each in edits for node in each.device_nodes):
        return "0.5.0"
    if any(mount.type for each in edits for mount in each.mounts):
        return "0.4.0"
    return "0.3.0"


def merge(documents: Sequence[Spec], names: Iterable[str]) -> ContainerEdits:
    """All edits of these devices in order, a document's common edits once and before its first device.

    Raises InvalidCdi naming every device that no document, or more than one, has.
    """
    owners: dict[str, list[tuple[Spec, Device]]] = {}
    for document in documents:
        for device in document.devices:
            owners.setdefault(f"{document.kind}={device.name}", []).append((document, device))
    wanted = list(dict.fromkeys(names))
    if missing := [name for name in wanted if name not in owners]:
        raise InvalidCdi(f"unresolvable CDI devices {', '.join(missing)}")
    if doubled := [name for name in wanted if len(owners[name]) > 1]:
        raise InvalidCdi(f"conflicting CDI devices {', '.join(doubled)}: each must be in one document only")
    parts: list[ContainerEdits] = []
    begun: list[Spec] = []
    for name in wanted:
        [(document, device)] = owners[name]
        if document not in begun:
            begun.append(document)
            parts.append(document.container_edits)
        parts.append(device.container_edits)
    return ContainerEdits(
        env=tuple(entry for part in parts for entry in part.env),
        device_nodes=tuple(node for part in parts for node in part.device_nodes),
        net_devices=tuple(device for part in parts for device in part.net_devices),
        mounts=tuple(mount for part in parts for mount in part.mounts),
        hooks=tuple(hook for part in parts for hook in part.hooks),
        intel_rdt=next((part.intel_rdt for part in reversed(parts) if part.intel_rdt), None),
        additional_gids=tuple(gid for part in parts for gid in part.additional_gids),
    )


def with_env(env: Mapping[str, str], edits: ContainerEdits) -> dict[str, str]:
    """A container's environment with a device's: the device's wins over the Pod's, and a later device's over both.

    CRI-O (since 1.34) and containerd do the same: a Pod must not hide which device it was given.
    """
    return dict(env) | dict(entry.split("=", 1) for entry in edits.env)


def _kind(text: str) -> tuple[str, str]:
    vendor, slash, device_class = text.partition("/")
    if not slash or not _VENDOR.fullmatch(vendor) or not _CLASS.fullmatch(device_class):
        raise InvalidCdi(f"kind {text!r}: must be vendor/class, each of letters, digits, '_', '-' or '.'")
    return vendor, device_class


def _is_late_rdt(rdt: IntelRdt) -> bool:
    return bool(rdt.schemata or rdt.enable_monitoring)


def _edits(where: str, edits: ContainerEdits) -> None:
    for number, entry in enumerate(edits.env):
        if not _ENV.fullmatch(entry):
            raise InvalidCdi(f"{where}.env[{number}] {entry!r}: must be NAME=VALUE")
    for number, node in enumerate(edits.device_nodes):
        _need(f"{where}.deviceNodes[{number}].path", node.path)
        if node.type not in ("", "b", "c", "u", "p"):
            raise InvalidCdi(f"{where}.deviceNodes[{number}].type {node.type!r}: must be b, c, u or p")
        if set(node.permissions) - set("rwm"):
            raise InvalidCdi(f"{where}.deviceNodes[{number}].permissions {node.permissions!r}: must be of r, w and m")
    for number, mount in enumerate(edits.mounts):
        _need(f"{where}.mounts[{number}].hostPath", mount.host_path)
        _need(f"{where}.mounts[{number}].containerPath", mount.container_path)
    for number, hook in enumerate(edits.hooks):
        if hook.hook_name not in HOOK_NAMES:
            raise InvalidCdi(
                f"{where}.hooks[{number}].hookName {hook.hook_name!r}: must be one of {', '.join(HOOK_NAMES)}"
            )
        _need(f"{where}.hooks[{number}].path", hook.path)


def _need(where: str, value: Any) -> None:
    if not value:
        raise InvalidCdi(f"{where}: must not be empty")
