"""Defaults of Pods and of the Pod templates in other kinds (pkg/apis/core/v1/defaults.go, admission plug-ins)."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from headrace.api.objects import Object
from headrace.api.quantity import NANO, Quantity, parse

MILLI = NANO // 1000
_NAME = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
LONGEST_IMAGE_NAME = 255 - len("docker.io/library/")
_IDENTIFIER = re.compile("[a-f0-9]{64}", re.ASCII)  # an image's own id, which no reference may look like
_IMAGE = re.compile(
    rf"(?:[a-zA-Z0-9][-a-zA-Z0-9.]*(?::[0-9]+)?/)?(?P<name>{_NAME}(?:/{_NAME})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
_UNREACHABLE_SECONDS = 300
_MODE = 0o644


def default_pod(pod: Object) -> None:
    """A Pod, but for what admission adds to new ones."""
    spec = pod.setdefault("spec", {})
    default_spec(spec)
    for container in containers_of(spec):
        resources = container["resources"]
        if "limits" in resources:
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in containers_of(spec):
            for port in container.get("ports") or ():
                port.setdefault("hostPort", port.get("containerPort", 0))


def default_spec(spec: dict[str, Any]) -> None:
    """A Pod's spec, also in a template."""
    for name, value in (
        ("dnsPolicy", "ClusterFirst"),
        ("restartPolicy", "Always"),
        ("schedulerName", "default-scheduler"),
    ):
        if not spec.get(name):
            spec[name] = value
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in spec.get("volumes") or ():
        _volume(volume)
    _whole(spec.get("resources") or {})
    for container in containers_of(spec):
        _container(container)


def containers_of(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _container(container: dict[str, Any]) -> None:
    for name, value in (
        ("imagePullPolicy", pull_policy(container.get("image", ""))),
        ("terminationMessagePath", "/dev/termination-log"),
        ("terminationMessagePolicy", "File"),
    ):
        container[name] = container.get(name) or value
    _whole(container.setdefault("resources", {}))
    for port in container.get("ports") or ():
        port["protocol"] = port.get("protocol") or "TCP"
    for variable in container.get("env") or ():
        _field_reference((variable.get("valueFrom") or {}).get("fieldRef"))
    for probe in container.keys() & {"livenessProbe", "readinessProbe", "startupProbe"}:
        _probe(container[probe])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _http_get(hook.get("httpGet"))


def _whole(resources: dict[str, Any]) -> None:
    for part in ("limits", "requests"):
        if part in resources:
            resources[part] = {name: whole_milli(text) for name, text in resources[part].items()}


def pull_policy(image: str) -> str:
    """Always for `:latest`, said or not; a digest or another tag is pulled if it is not there."""
    match = _IMAGE.fullmatch(image)
    if match is None or len(match["name"]) > LONGEST_IMAGE_NAME or match["digest"] or _IDENTIFIER.fullmatch(image):
        return "IfNotPresent"
    return "Always" if match["tag"] in (None, "latest") else "IfNotPresent"


@lru_cache(maxsize=4096)
def whole_milli(text: str) -> str:
    """A quantity of a resource list, rounded up to thousandths."""
    quantity = parse(text)
    rest = quantity.nano % MILLI
    return text if not rest else str(Quantity(quantity.nano + MILLI - rest, quantity.format))


def _probe(probe: dict[str, Any]) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        if not probe.get(name):
            probe[name] = value
    _http_get(probe.get("httpGet"))
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _http_get(action: dict[str, Any] | None) -> None:
    if action is not None:
        action["path"] = action.get("path") or "/"
        action["scheme"] = action.get("scheme") or "HTTP"


def _field_reference(reference: dict[str, Any] | None) -> None:
    if reference is not None:
        reference["apiVersion"] = reference.get("apiVersion") or "v1"


def _volume(volume: dict[str, Any]) -> None:
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if source in volume:
            volume[source].setdefault("defaultMode", _MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    items = (volume.get("downwardAPI") or {}).get("items") or ()
    for item in items:
        _field_reference(item.get("fieldRef"))
    for source in (volume.get("projected") or {}).get("sources") or ():
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            _field_reference(item.get("fieldRef"))


def add_default_tolerations(spec: dict[str, Any]) -> None:
    """DefaultTolerationSeconds: five minutes on a node that is not ready or not reachable."""
    tolerations = spec.get("tolerations") or []
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _UNREACHABLE_SECONDS}
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        if not any(_tolerates(each, key) for each in tolerations)
    ]
    if tolerations or added:
        spec["tolerations"] = [*tolerations, *added]


def _tolerates(toleration: dict[str, Any], key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")
