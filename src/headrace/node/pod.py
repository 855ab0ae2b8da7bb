"""The fields of a Pod that the agent decides by, as frozen views. What it writes back are patches, never these."""

from typing import Any

import msgspec
from msgspec import field

from headrace.api.objects import Object, key_of, metadata, uid_of, version_of

DEFAULT_GRACE_SECONDS = 30


class _View(msgspec.Struct, frozen=True, rename="camel"):
    pass


class Probe(_View, frozen=True):
    """Kubernetes' defaults. Exactly one of exec, httpGet, tcpSocket and grpc is set."""

    exec: dict[str, Any] | None = None
    http_get: dict[str, Any] | None = None
    tcp_socket: dict[str, Any] | None = None
    grpc: dict[str, Any] | None = None
    initial_delay_seconds: int = 0
    period_seconds: int = 10
    timeout_seconds: int = 1
    success_threshold: int = 1
    failure_threshold: int = 3


class Container(_View, frozen=True):
    name: str
    image: str = ""
    image_pull_policy: str = ""
    command: list[str] = field(default_factory=list)
    args: list[str] = field(default_factory=list)
    working_dir: str = ""
    env: list[dict[str, Any]] = field(default_factory=list)
    env_from: list[dict[str, Any]] = field(default_factory=list)
    ports: list[dict[str, Any]] = field(default_factory=list)
    resources: dict[str, Any] = field(default_factory=dict)
    volume_mounts: list[dict[str, Any]] = field(default_factory=list)
    resize_policy: list[dict[str, Any]] = field(default_factory=list)
    restart_policy: str | None = None
    lifecycle: dict[str, Any] | None = None
    security_context: dict[str, Any] = field(default_factory=dict)
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    startup_probe: Probe | None = None


class PodSpec(_View, frozen=True):
    containers: list[Container]
    init_containers: list[Container] = field(default_factory=list)
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    node_name: str = ""
    service_account_name: str = ""
    volumes: list[dict[str, Any]] = field(default_factory=list)
    resource_claims: list[dict[str, Any]] = field(default_factory=list)
    security_context: dict[str, Any] = field(default_factory=dict)
    image_pull_secrets: list[dict[str, Any]] = field(default_factory=list)


class Pod(msgspec.Struct, frozen=True):
    """`status` and `object` are the stored JSON; `spec` is decoded."""

    uid: str
    namespace: str
    name: str
    version: int
    generation: int
    deleted: bool
    deletion_grace_seconds: int | None
    spec: PodSpec
    status: dict[str, Any]
    object: Object

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def phase(self) -> str:
        return str(self.status.get("phase") or "Pending")

    @property
    def is_terminal(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def grace_seconds(self) -> int:
        """Between SIGTERM and SIGKILL: the deletion's, else the spec's."""
        for seconds in (self.deletion_grace_seconds, self.spec.termination_grace_period_seconds):
            if seconds is not None:
                return seconds
        return DEFAULT_GRACE_SECONDS

    def statuses(self, of: str = "containerStatuses") -> dict[str, dict[str, Any]]:
        return {status["name"]: status for status in self.status.get(of) or ()}

    def container_status(self, name: str) -> dict[str, Any]:
        return self.statuses().get(name) or self.statuses("initContainerStatuses").get(name) or {}

    def security_of(self, container: Container) -> dict[str, Any]:
        """The Pod's securityContext, in which the container's own fields win."""
        return {**self.spec.security_context, **container.security_context}

    def container(self, name: str) -> Container:
        return next(each for each in (*self.spec.init_containers, *self.spec.containers) if each.name == name)


def view(obj: Object) -> Pod:
    """Raises msgspec.ValidationError where the object is no Pod."""
    meta = metadata(obj)
    namespace, _, name = key_of(obj).rpartition("/")
    return Pod(
        uid=uid_of(obj),
        namespace=namespace,
        name=name,
        version=int(version_of(obj) or 0),
        generation=int(meta.get("generation") or 0),
        deleted=bool(meta.get("deletionTimestamp")),
        deletion_grace_seconds=meta.get("deletionGracePeriodSeconds"),
        spec=msgspec.convert(obj.get("spec") or {}, PodSpec),
        status=obj.get("status") or {},
        object=obj,
    )


def is_sidecar(container: Container, pod: Pod) -> bool:
    """An init container that keeps running: restartPolicy Always of its own."""
    return container.restart_policy == "Always" and container in pod.spec.init_containers
