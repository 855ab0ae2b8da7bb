"""A Pod for a container that already runs on this machine, with the limits that its cgroup has now."""

import re
from pathlib import Path
from typing import Any

from headrace.api.amounts import CPU, MEMORY, written
from headrace.node.cgroups import hierarchy
from headrace.node.runtimes.podman_adopted import ADOPTED, ON_DELETE
from headrace.node.runtimes.podman_bodies import INSTANCE
from headrace.node.runtimes.podman_limits import NoCgroup, group_of
from headrace.node.runtimes.podman_socket import (
    WITHOUT_SOCKET,
    Podman,
    PodmanRefused,
    UnsafeSocket,
    default_socket,
)
from headrace.node.runtimes.protocol import RuntimeUnavailable

ADOPTED_LABEL = "headrace.dev/adopted"


class CannotAdopt(Exception):
    """The message says why not."""


async def pod_for(name: str, node: str, socket: Path | None, on_delete: str) -> dict[str, Any]:
    """Raises CannotAdopt."""
    place = socket or default_socket()
    podman = Podman(place)
    try:
        found = await podman.call("GET", f"/containers/{name}/json")
    except (PodmanRefused, RuntimeUnavailable, UnsafeSocket) as error:
        raise CannotAdopt(f"{error}{'' if place.exists() else f'; {WITHOUT_SOCKET}'}") from None
    finally:
        await podman.close()
    if (found["Config"].get("Labels") or {}).get(INSTANCE):
        raise CannotAdopt(f"container {name} was started by headrace: it has a Pod")
    if not found["State"]["Running"]:
        raise CannotAdopt(f"container {name} is {found['State']['Status']}: only a running one is adopted")
    try:
        limits = group_of(hierarchy.find(), int(found["State"]["Pid"])).read()
    except (ProcessLookupError, FileNotFoundError, KeyError):
        raise CannotAdopt(f"container {name} does not run on this machine") from None
    except NoCgroup as error:
        raise CannotAdopt(f"container {name} cannot be limited or measured: {error}") from None
    amounts = {}
    if limits.cpu_milli is not None:
        amounts["cpu"] = written(CPU, limits.cpu_milli)
    if limits.memory_bytes is not None:
        amounts["memory"] = written(MEMORY, limits.memory_bytes)
    container: dict[str, Any] = {"name": "main", "image": found["ImageName"], "imagePullPolicy": "Never"}
    if amounts:
        container["resources"] = {"requests": amounts, "limits": amounts}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(str(found["Name"])),
            "labels": {"headrace.dev/managed": "true", ADOPTED_LABEL: "true"},
            "annotations": {ADOPTED: found["Id"], ON_DELETE: on_delete},
        },
        "spec": {"nodeName": node, "restartPolicy": "Never", "containers": [container]},
    }


def pod_name(container: str) -> str:
    """The container's name as far as it can be a Pod's: a label of DNS (RFC 1123)."""
    return re.sub(r"[^a-z0-9-]+", "-", container.lower()).strip("-")[:63].rstrip("-") or "adopted"


def is_same(pod: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether both stand for one container."""
    mine, its = ((each["metadata"].get("annotations") or {}).get(ADOPTED) for each in (pod, other))
    return bool(mine) and mine == its
