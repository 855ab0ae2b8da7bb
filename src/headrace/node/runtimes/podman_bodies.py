"""What Podman is asked for and what it answers, as plain functions: bodies of create and update, rows of lists."""

from collections.abc import Mapping
from typing import Any

from headrace.node.cgroups import amounts
from headrace.node.keeper.log import FILE_BYTES
from headrace.node.runtimes.protocol import ContainerSpec, Limits

INSTANCE = "headrace.dev/instance"
ID = "headrace.dev/id"
POD_UID = "headrace.dev/pod-uid"
POD = "headrace.dev/pod"
CONTAINER = "headrace.dev/container"
LIVE = frozenset({"running", "paused", "stopping", "restarting"})
ENDED = frozenset({"exited", "stopped", "removing", "dead"})


def container_name(instance: str, id: str) -> str:
    """Podman keeps names unique, so two starts of one id can never both succeed."""
    return f"headrace-{instance}-{id}"


def resources(limits: Limits) -> dict[str, Any]:
    """Always every amount: what is left out keeps its old value. Swap goes with memory, else v1 refuses to grow it."""
    quota, period = (
        amounts.quota(limits.cpu_milli) if limits.cpu_milli is not None else (-1, amounts.PERIOD_MICROSECONDS)
    )
    memory = -1 if limits.memory_bytes is None else amounts.pages(limits.memory_bytes)
    return {
        "cpu": {"quota": quota, "period": period, "shares": amounts.shares(limits.cpu_shares_milli)},
        "memory": {"limit": memory, "swap": memory},
    }


def create(spec: ContainerSpec, image_id: str, instance: str, rlimits: Mapping[str, int]) -> dict[str, Any]:
    """Podman's SpecGenerator. The network is the machine's, as for every Pod of this node."""
    given = {device.path for device in spec.devices}
    body: dict[str, Any] = {
        "name": container_name(instance, spec.id),
        "image": image_id,
        "env": dict(spec.env),
        "labels": {
            **spec.labels,
            INSTANCE: instance,
            ID: spec.id,
            POD_UID: spec.pod_uid,
            POD: spec.pod,
            CONTAINER: spec.container,
        },
        "netns": {"nsmode": "host"},
        "log_configuration": {"driver": "k8s-file", "path": spec.log_path, "size": FILE_BYTES},
        "resource_limits": _first(resources(spec.limits)),
        "r_limits": [{"type": name, "soft": value, "hard": value} for name, value in rlimits.items()],
        "mounts": [
            {
                "type": "bind",
                "source": mount.source,
                "destination": mount.target,
                "options": ["rbind", "ro" if mount.read_only else "rw"],
            }
            for mount in spec.mounts
            if mount.target not in given
        ],
        "devices": [{"path": f"{each.source}:{each.path}:{each.permissions}"} for each in spec.devices],
        "restart_policy": "no",
    }
    if spec.argv:
        body["command" if spec.image_entrypoint else "entrypoint"] = [*spec.argv]
    if spec.working_dir:
        body["work_dir"] = spec.working_dir
    if spec.uid is not None or spec.gid is not None:
        body["user"] = str(spec.uid or 0) if spec.gid is None else f"{spec.uid or 0}:{spec.gid}"
    return body


def _first(wanted: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """A new container has no limits: -1, which takes one away, is refused there."""
    found = {
        name: {
            key: value for key, value in part.items() if value != -1 and not (key == "period" and part["quota"] == -1)
        }
        for name, part in wanted.items()
    }
    return {name: part for name, part in found.items() if part}


def is_root(user: str) -> bool:
    """Whether an image's USER may be root: `0`, `root`, none at all, or a name that only the image knows."""
    name = user.partition(":")[0]
    return not name.isdigit() or int(name) == 0
