"""From a container of a Pod to what a runtime starts: arguments, environment, mounts, limits, and its log's place."""

import os
from collections.abc import Sequence
from pathlib import Path

from headrace.api.objects import metadata
from headrace.node import cdi, volumes
from headrace.node.environment import BASE, Surroundings, Unresolved, argv, environment
from headrace.node.pod import Container, Pod
from headrace.node.runtimes.podman_adopted import ADOPTED, ON_DELETE
from headrace.node.runtimes.protocol import ContainerSpec, Limits, PullSecret


def pod_directory(root: Path, pod_uid: str) -> Path:
    """Everything a Pod has on this machine: `logs/CONTAINER_ATTEMPT.log` and `volumes/NAME`."""
    return root / pod_uid


def log_path(root: Path, id: str) -> Path:
    pod_uid, container, attempt = id.rsplit("_", 2)
    return pod_directory(root, pod_uid) / "logs" / f"{container}_{attempt}.log"


def prune_logs(root: Path, id: str) -> None:
    """Remove logs of runs older than the one before this: nobody can ask for them any more."""
    _, container, attempt = id.rsplit("_", 2)
    for path in log_path(root, id).parent.glob(f"{container}_*.log*"):
        number = path.name.removeprefix(f"{container}_").partition(".")[0]
        if number.isdigit() and int(number) < int(attempt) - 1:
            path.unlink(missing_ok=True)


def container_spec(
    pod: Pod,
    container: Container,
    id: str,
    around: Surroundings,
    *,
    limits: Limits,
    root: Path,
    cdi_directory: Path,
    cdi_names: Sequence[str],
    images: bool = False,
    pull_secrets: Sequence[PullSecret] = (),
) -> ContainerSpec:
    """Raises Unresolved, InvalidCdi. The devices' environment wins over the Pod's. `images`: the runtime has them."""
    env = environment(pod, container, around, {} if images else BASE)
    mounts = volumes.mounts(pod, container, pod_directory(root, pod.uid) / "volumes", env)
    annotations = metadata(pod.object).get("annotations") or {}
    edits = cdi.edits(cdi_directory, cdi_names)
    given, all_mounts = cdi.apply(edits, env, mounts)
    security = pod.security_of(container)
    non_root, user = bool(security.get("runAsNonRoot")), security.get("runAsUser")
    if non_root and (user == 0 or (user is None and not images and os.geteuid() == 0)):
        raise Unresolved("container has runAsNonRoot and would run as root: set securityContext.runAsUser")
    return ContainerSpec(
        id=id,
        pod_uid=pod.uid,
        pod=pod.key,
        container=container.name,
        argv=argv(container, env),
        env=given,
        working_dir=container.working_dir or ("" if images else "/"),
        log_path=str(log_path(root, id)),
        limits=limits,
        mounts=all_mounts,
        uid=user,
        gid=security.get("runAsGroup"),
        labels={"io.kubernetes.pod.name": pod.name, "io.kubernetes.pod.namespace": pod.namespace},
        image=container.image,
        pull_policy=container.image_pull_policy,
        pull_secrets=pull_secrets,
        image_entrypoint=not container.command,
        non_root=non_root,
        devices=cdi.devices(edits),
        adopted=annotations.get(ADOPTED, ""),
        on_delete=annotations.get(ON_DELETE, ""),
    )
