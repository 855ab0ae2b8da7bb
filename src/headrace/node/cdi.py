"""The CDI documents of this machine, and what the process runtime can do of them: environment, and as root bind mounts
and device nodes. What cannot be done (hooks, network devices, resource groups) is refused with the reason, never left
out; an ordinary user gets the environment, and nodes that lie there already and that it may open.
"""

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from headrace.api.cdi import CdiMount, ContainerEdits, DeviceNode, InvalidCdi, Spec, merge, read, with_env
from headrace.node.runtimes.protocol import Device, Mount

FILE_BYTES = 3 * 1024 * 1024
ENFORCED_OPTIONS = ("nosuid", "nodev", "noexec")
MOUNT_OPTIONS = ("ro", "rw", "bind", "rbind", "private", "rprivate", *ENFORCED_OPTIONS)


def documents(directory: Path) -> tuple[list[Spec], list[str]]:
    """Every document in the directory that can be read, by file name; and what is wrong with each of the others."""
    found: list[Spec] = []
    wrong: list[str] = []
    for path in sorted(directory.glob("*.json")):
        try:
            if path.stat().st_size > FILE_BYTES:
                raise InvalidCdi(f"larger than {FILE_BYTES} bytes")
            found.append(read(path.read_bytes()))
        except FileNotFoundError:  # unprepared between the two looks
            continue
        except (InvalidCdi, OSError) as error:
            wrong.append(f"{path}: {error}")
    return found, wrong


def edits(directory: Path, names: Iterable[str]) -> ContainerEdits:
    """What these devices add. Raises InvalidCdi, also for what this runtime cannot do.

    A document that is wrong is nobody's trouble but of those whose devices it may have: containerd does the same.
    """
    wanted = list(names)
    if not wanted:
        return ContainerEdits()
    readable, wrong = documents(directory)
    try:
        found = merge(readable, wanted)
    except InvalidCdi as error:
        raise InvalidCdi("; ".join([str(error), *wrong])) from None
    for what, value in (
        ("hooks", found.hooks),
        ("netDevices", found.net_devices),
        ("intelRdt", found.intel_rdt),
        ("additionalGids", found.additional_gids),
    ):
        if value:
            raise InvalidCdi(f"{', '.join(wanted)}: the process runtime does not support {what} of CDI devices")
    return found


def apply(
    found: ContainerEdits, env: Mapping[str, str], mounts: Sequence[Mount], *, is_root: bool | None = None
) -> tuple[dict[str, str], tuple[Mount, ...]]:
    """Environment and mounts of a container that is given these devices. Raises InvalidCdi.

    A process sees the machine's own /dev: a device node that lies there under its own name needs nothing more. Mounts
    and other nodes are made in the Pod's own mount namespace. `is_root` None: as this process is.
    """
    root = os.geteuid() == 0 if is_root is None else is_root
    added = [_bound(mount, root) for mount in found.mounts]
    for node in found.device_nodes:
        source = node.host_path or node.path
        _check_node(node, Path(source))
        if source != node.path:
            _need_root(root, f"device node {node.path}")
            added.append(Mount(source, node.path))
        elif not root and not os.access(source, os.R_OK | os.W_OK):
            raise InvalidCdi(f"device node {source}: the agent's user may not open it, and only root could change that")
    return with_env(env, found), (*mounts, *added)


def _bound(mount: CdiMount, root: bool) -> Mount:
    where = f"mount {mount.container_path}"
    _need_root(root, where)
    if mount.type not in ("", "bind"):
        raise InvalidCdi(f"{where}: type {mount.type!r}: the process runtime supports bind mounts only")
    if unknown := [option for option in mount.options if option not in MOUNT_OPTIONS]:
        raise InvalidCdi(
            f"{where}: options {', '.join(unknown)}: the process runtime supports {', '.join(MOUNT_OPTIONS)}"
        )
    if not Path(mount.host_path).exists():
        raise InvalidCdi(f"{where}: {mount.host_path} does not exist")
    flags = tuple(option for option in ENFORCED_OPTIONS if option in mount.options)
    return Mount(mount.host_path, mount.container_path, "ro" in mount.options, flags)


def _need_root(root: bool, what: str) -> None:
    if not root:
        raise InvalidCdi(f"{what}: only an agent that runs as root can put it into a container's mount namespace")


def devices(found: ContainerEdits) -> tuple[Device, ...]:
    """The device nodes, for runtimes that make them inside of containers."""
    return tuple(
        Device(node.host_path or node.path, node.path, node.permissions or "rwm") for node in found.device_nodes
    )


def _check_node(node: DeviceNode, source: Path) -> None:
    """The node is what the document says; what would make another one of it is refused."""
    try:
        found = source.stat()
    except OSError as error:
        raise InvalidCdi(f"device node {source}: {error.strerror}") from None
    mode = found.st_mode
    kinds = {"b": stat.S_ISBLK, "c": stat.S_ISCHR, "u": stat.S_ISCHR, "p": stat.S_ISFIFO}
    fits = kinds[node.type](mode) if node.type else stat.S_ISBLK(mode) or stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)
    if not fits:
        raise InvalidCdi(f"device node {source}: is no device of type {node.type or 'b, c or p'}")
    numbers = os.major(found.st_rdev), os.minor(found.st_rdev)
    if (node.major or node.minor) and (node.major, node.minor) != numbers:
        said = f"{node.major}:{node.minor}"
        raise InvalidCdi(f"device node {source}: major and minor {said}: it is {numbers[0]}:{numbers[1]} here")
    for name, wanted, actual in (
        ("fileMode", node.file_mode, stat.S_IMODE(mode)),
        ("uid", node.uid, found.st_uid),
        ("gid", node.gid, found.st_gid),
    ):
        if wanted is not None and (stat.S_IMODE(wanted) if name == "fileMode" else wanted) != actual:
            raise InvalidCdi(
                f"device node {source}: {name}: the process runtime gives nodes as they are on the machine"
            )
