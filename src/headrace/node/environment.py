"""A container's environment, command and arguments from its spec, as a kubelet composes them. Pure.

Later wins: the base, envFrom in order, env in order; a device's CDI environment wins over all of it (as in CRI-O and
containerd), and is applied afterwards.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.api.objects import Object, metadata
from headrace.api.quantity import NANO, parse
from headrace.node.containers import Problem
from headrace.node.pod import Container, Pod

BASE = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

_REFERENCE = re.compile(r"\$(?:\$|\(([^()]*)\))")
_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")

Source = tuple[str, str]
"""(ConfigMap or Secret, name) in the Pod's namespace."""


class Unresolved(Exception):
    """A reference leads nowhere; the message is the container's waiting message (CreateContainerConfigError)."""

    def problem(self, at: float) -> Problem:
        return Problem("CreateContainerConfigError", str(self), at)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What references resolve to: the data of sources (None: no such object), the node's address and allocatable."""

    sources: Mapping[Source, Mapping[str, bytes] | None] = field(default_factory=dict)
    address: str = "127.0.0.1"
    allocatable: Mapping[str, str] = field(default_factory=dict)


def references(container: Container) -> set[Source]:
    """The objects whose data must be known first."""
    found: set[Source] = set()
    for entry in container.env_from:
        for key, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if key in entry:
                found.add((kind, entry[key]["name"]))
    for entry in container.env:
        value_from = entry.get("valueFrom") or {}
        for key, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
            if key in value_from:
                found.add((kind, value_from[key]["name"]))
    return found


def environment(pod: Pod, container: Container, around: Surroundings, base: Mapping[str, str] = BASE) -> dict[str, str]:
    """Raises Unresolved. `base` is what there is without the Pod; an image brings its own."""
    env = {**base, "HOSTNAME": pod.name}
    for entry in container.env_from:
        env |= _all_of(entry, around)
    for entry in container.env:
        if value_from := entry.get("valueFrom"):
            value = _one(value_from, pod, container, around)
            if value is not None:
                env[entry["name"]] = value
        else:
            env[entry["name"]] = expand(str(entry.get("value") or ""), env)
    return env


def argv(container: Container, env: Mapping[str, str]) -> list[str]:
    return [expand(word, env) for word in (*container.command, *container.args)]


def expand(text: str, env: Mapping[str, str]) -> str:
    """`$(NAME)` becomes its value; an unknown name stays as written, and `$$` is a plain `$`."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        return "$" if name is None else env.get(name, match.group(0))

    return _REFERENCE.sub(value, text)


def field_value(path: str, pod: Pod, around: Surroundings) -> str:
    """What fieldRef (and the downward API) reads. Raises Unresolved."""
    meta = metadata(pod.object)
    if keyed := _KEYED.fullmatch(path):
        return str((meta.get(keyed.group(1)) or {}).get(keyed.group(2), ""))
    values = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.namespace,
        "metadata.uid": pod.uid,
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name or "default",
        "status.hostIP": around.address,
        "status.hostIPs": around.address,
        "status.podIP": around.address,
        "status.podIPs": around.address,
    }
    if path not in values:
        raise Unresolved(
            f"fieldRef.fieldPath {path!r}: must be one of {', '.join(sorted(values))} or metadata.labels['…']"
        )
    return values[path]


def resource_value(ref: Mapping[str, Any], pod: Pod, container: Container, around: Surroundings) -> str:
    """What resourceFieldRef reads: in units of its divisor, rounded up; an absent limit is the node's allocatable."""
    name = str(ref["resource"])
    part, _, resource = name.partition(".")
    if part not in ("limits", "requests") or not resource:
        raise Unresolved(f"resourceFieldRef.resource {name!r}: must be limits.NAME or requests.NAME")
    chosen = pod.container(ref["containerName"]) if ref.get("containerName") else container
    amounts = chosen.resources.get(part) or {}
    limits = chosen.resources.get("limits") or {}
    text = amounts.get(resource)
    if text is None:
        text = limits.get(resource, "0") if part == "requests" else around.allocatable.get(resource, "0")
    divisor = parse(str(ref.get("divisor") or "1")).nano or NANO
    return str(-(-parse(str(text)).nano // divisor))


def _all_of(entry: Mapping[str, Any], around: Surroundings) -> dict[str, str]:
    key, kind = ("configMapRef", "ConfigMap") if "configMapRef" in entry else ("secretRef", "Secret")
    data = _source(kind, entry[key], around)
    prefix = entry.get("prefix") or ""
    return {f"{prefix}{name}": _text(value, kind, name) for name, value in sorted((data or {}).items())}


def _one(value_from: Mapping[str, Any], pod: Pod, container: Container, around: Surroundings) -> str | None:
    for key, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if key in value_from:
            ref = value_from[key]
            data = _source(kind, ref, around)
            if data is None:
                return None
            if ref["key"] not in data:
                if ref.get("optional"):
                    return None
                raise Unresolved(f"couldn't find key {ref['key']} in {kind} {ref['name']}")
            return _text(data[ref["key"]], kind, ref["key"])
    if "fieldRef" in value_from:
        return field_value(value_from["fieldRef"]["fieldPath"], pod, around)
    if "resourceFieldRef" in value_from:
        return resource_value(value_from["resourceFieldRef"], pod, container, around)
    raise Unresolved(
        f"valueFrom {', '.join(value_from)}: must be configMapKeyRef, secretKeyRef, fieldRef or resourceFieldRef"
    )


def _source(kind: str, ref: Mapping[str, Any], around: Surroundings) -> Mapping[str, bytes] | None:
    data = around.sources.get((kind, ref["name"]))
    if data is None and not ref.get("optional"):
        raise Unresolved(f'{kind.lower()} "{ref["name"]}" not found')
    return data


def _text(value: bytes, kind: str, key: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Unresolved(f"key {key} of {kind}: not UTF-8 text, so it cannot be an environment variable") from None


def data_of(obj: Object) -> dict[str, bytes]:
    """Keys and contents of a ConfigMap or a Secret."""
    encoded = obj.get("binaryData") if obj.get("kind") == "ConfigMap" else obj.get("data")
    plain = obj.get("data") if obj.get("kind") == "ConfigMap" else obj.get("stringData")
    found = {key: base64.b64decode(value) for key, value in (encoded or {}).items()}
    return found | {key: str(value).encode() for key, value in (plain or {}).items()}
