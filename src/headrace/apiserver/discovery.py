"""Which groups, versions and kinds are served: the legacy documents and the aggregated one (v2).

Built from the registry once per generation: kubectl asks for it before nearly everything it does.
"""

from collections.abc import Iterable
from typing import Any

import orjson

from headrace.apiserver.answers import JSON, Answer
from headrace.apiserver.negotiation import DISCOVERY, accepted
from headrace.apiserver.requests import Request
from headrace.apiserver.statuses import method_not_allowed, not_found_path
from headrace.objects.registry import Registry, Served

AGGREGATED = b"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_SUBRESOURCE_VERBS = {
    "status": ("get", "patch", "update"),
    "scale": ("get", "patch", "update"),
    "resize": ("get", "patch", "update"),
    "ephemeralcontainers": ("get", "patch", "update"),
    "log": ("get",),
    "binding": ("create",),
    "eviction": ("create",),
    "token": ("create",),
    "exec": ("create", "get"),
    "attach": ("create", "get"),
    "portforward": ("create", "get"),
    "proxy": ("create", "delete", "get", "patch", "update"),
    "finalize": ("update",),
}
_SUBRESOURCE_KINDS = {
    "scale": ("autoscaling", "v1", "Scale"),
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
    "exec": ("", "v1", "PodExecOptions"),
    "attach": ("", "v1", "PodAttachOptions"),
    "portforward": ("", "v1", "PodPortForwardOptions"),
    "proxy": ("", "v1", "PodProxyOptions"),
}
_FIRST_GROUPS = ("", "apps", "autoscaling", "policy", "scheduling.k8s.io", "resource.k8s.io")  # kubectl's preference


def subresource_verbs(subresource: str) -> tuple[str, ...]:
    return _SUBRESOURCE_VERBS.get(subresource, ("get",))


class Discovery:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._generation = -1
        self._documents: dict[str, bytes] = {}

    def answer(self, request: Request) -> Answer:
        """/api, /api/v1, /apis, /apis/GROUP and /apis/GROUP/VERSION. Raises a 404 Failure."""
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        if self._generation != self._registry.generation:
            self._documents = _documents(list(self._registry.all()))
            self._generation = self._registry.generation
        path = request.path.rstrip("/")
        if path in ("/api", "/apis") and accepted(request.accept).among(DISCOVERY) == "discovery":
            return Answer(200, self._documents["aggregated " + path], AGGREGATED)
        document = self._documents.get(path)
        if document is None:
            raise not_found_path()
        return Answer(200, document, JSON)


def _documents(served: list[Served]) -> dict[str, bytes]:
    groups: dict[str, dict[str, list[Served]]] = {}
    for entry in served:
        groups.setdefault(entry.kind.group, {}).setdefault(entry.kind.version, []).append(entry)
    ordered = sorted(groups, key=_group_order)
    core = groups.get("", {})
    documents: dict[str, Any] = {
        "/api": {"kind": "APIVersions", "versions": sorted(core), "serverAddressByClientCIDRs": []},
        "/apis": {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(name, groups[name]) for name in ordered if name],
        },
        "aggregated /api": _aggregated({"": core} if core else {}),
        "aggregated /apis": _aggregated({name: groups[name] for name in ordered if name}),
    }
    for name in ordered:
        if name:
            documents[f"/apis/{name}"] = {"kind": "APIGroup", "apiVersion": "v1", **_group(name, groups[name])}
        for version, entries in groups[name].items():
            api_version = f"{name}/{version}" if name else version
            documents[f"/apis/{api_version}" if name else f"/api/{version}"] = {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": api_version,
                "resources": [resource for entry in entries for resource in _legacy(entry)],
            }
    return {path: orjson.dumps(document) for path, document in documents.items()}


def _group_order(name: str) -> tuple[int, str]:
    return (_FIRST_GROUPS.index(name) if name in _FIRST_GROUPS else len(_FIRST_GROUPS), name)


def version_order(version: str) -> tuple[int, int, int, str]:
    """Kubernetes' priority of versions: v2, v1, v1beta2, v1beta1, v1alpha1, and then the rest by name."""
    stage, rank = version, 0
    for name, order in (("alpha", 2), ("beta", 1)):
        head, found, tail = version.partition(name)
        if found and tail.isdigit():
            stage, rank = head, order
            return (rank, -_number(stage), -int(tail), version)
    return (0, -_number(stage), 0, version) if _number(stage) else (3, 0, 0, version)


def _number(stage: str) -> int:
    return int(stage[1:]) if stage.startswith("v") and stage[1:].isdigit() else 0


def _group(name: str, versions: dict[str, list[Served]]) -> dict[str, Any]:
    named = [
        {"groupVersion": f"{name}/{version}", "version": version} for version in sorted(versions, key=version_order)
    ]
    return {"name": name, "versions": named, "preferredVersion": named[0]}


def _legacy(entry: Served) -> Iterable[dict[str, Any]]:
    kind = entry.kind
    found: dict[str, Any] = {
        "name": kind.plural,
        "singularName": entry.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(entry.verbs),
    }
    if entry.short_names:
        found["shortNames"] = list(entry.short_names)
    if entry.categories:
        found["categories"] = list(entry.categories)
    yield found
    for subresource in entry.subresources:
        group, version, name = _subresource_kind(entry, subresource)
        found = {
            "name": f"{kind.plural}/{subresource}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": name,
            "verbs": list(subresource_verbs(subresource)),
        }
        if (group, version) != (kind.group, kind.version):
            found |= {"group": group, "version": version}
        yield found


def _subresource_kind(entry: Served, subresource: str) -> tuple[str, str, str]:
    kind = entry.kind
    return _SUBRESOURCE_KINDS.get(subresource, (kind.group, kind.version, kind.kind))


def _aggregated(groups: dict[str, dict[str, list[Served]]]) -> dict[str, Any]:
    items = []
    for name, versions in groups.items():
        listed = [
            {
                "version": version,
                "resources": [_aggregated_resource(entry) for entry in versions[version]],
                "freshness": "Current",
            }
            for version in sorted(versions, key=version_order)
        ]
        items.append({"metadata": {"name": name} if name else {}, "versions": listed})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated_resource(entry: Served) -> dict[str, Any]:
    kind = entry.kind
    found: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": entry.singular,
        "verbs": list(entry.verbs),
    }
    if entry.short_names:
        found["shortNames"] = list(entry.short_names)
    if entry.categories:
        found["categories"] = list(entry.categories)
    if entry.subresources:
        found["subresources"] = [_aggregated_subresource(entry, name) for name in entry.subresources]
    return found


def _aggregated_subresource(entry: Served, subresource: str) -> dict[str, Any]:
    group, version, name = _subresource_kind(entry, subresource)
    return {
        "subresource": subresource,
        "responseKind": {"group": group, "version": version, "kind": name},
        "verbs": list(subresource_verbs(subresource)),
    }
