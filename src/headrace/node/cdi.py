"""The CDI documents of this machine, and what the process runtime can do of them: environment, mounts, device nodes.

What cannot be done (hooks, network devices, resource groups) is refused with the reason, never left out.
"""

import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from headrace.api.cdi import ContainerEdits, DeviceNode, InvalidCdi, Spec, merge, read, with_env
from headrace.node.runtimes.protocol import Mount

FILE_BYTES = 3 * 1024 * 1024


def documents(directory: Path) -> list[Spec]:
    """Every document in the directory, by file name. Raises InvalidCdi naming the file that is wrong."""
    found: list[Spec] = []
    for path in sorted(directory.glob("*.json")):
        try:
            if path.stat().st_size > FILE_BYTES:
                raise InvalidCdi(f"larger than {FILE_BYTES} bytes")
            found.append(read(path.read_bytes()))
        except InvalidCdi as error:
            raise InvalidCdi(f"{path}: {error}") from None
        except FileNotFoundError:  # unprepared between the two looks
            continue
    return found


def edits(directory: Path, names: Iterable[str]) -> ContainerEdits:
    """What these devices add. Raises InvalidCdi, also for what this runtime cannot do."""
    wanted = list(names)
    if not wanted:
        return ContainerEdits()
    found = merge(documents(directory), wanted)
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
    found: ContainerEdits, env: Mapping[str, str], mounts: Sequence[Mount]
) -> tuple[dict[str, str], tuple[Mount, ...]]:
    """Environment and mounts of a container that is given these devices. Raises InvalidCdi.

    A process sees the machine's own /dev: a device node that lies there under its own name needs nothing more.
    """
    added = [Mount(mount.host_path, mount.container_path, "ro" in mount.options) for mount in found.mounts]
    for node in found.device_nodes:
        source = node.host_path or node.path
        _check_node(node, Path(source))
        if source != node.path:
            added.append(Mount(source, node.path))
    return with_env(env, found), (*mounts, *added)


def _check_node(node: DeviceNode, source: Path) -> None:
    try:
        mode = source.stat().st_mode
    except OSError as error:
        raise InvalidCdi(f"device node {source}: {error.strerror}") from None
    kinds = {"b": stat.S_ISBLK, "c": stat.S_ISCHR, "u": stat.S_ISCHR, "p": stat.S_ISFIFO}
    fits = kinds[node.type](mode) if node.type else stat.S_ISBLK(mode) or stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)
    if not fits:
        raise InvalidCdi(f"device node {source}: is no device of type {node.type or 'b, c or p'}")
