"""What a node's agent may do: read and report what belongs to its own node, and nothing else.

Source: Kubernetes' Node authorizer and NodeRestriction admission. What a Pod bound to the node references is looked
up when asked for: agents ask once a Pod, so no second picture of the cluster is kept for it.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from headrace.api.kinds import POD, RESOURCE_CLAIM, RESOURCE_SLICE
from headrace.api.objects import Fields
from headrace.apiserver.requests import Request, pinned
from headrace.objects.local import LocalStore
from headrace.objects.node_rights import ADMITTED, CONTAINER_STATUSES, NOT_A_NODES, PROTECTED_LABELS
from headrace.store.protocol import Forbidden, NotFound, StoreError

LEASE_NAMESPACE = "kube-node-lease"
READS = frozenset({"get", "list", "watch"})
COLLECTION_READS = frozenset({"list", "watch"})
CHANGES = frozenset({"update", "patch"})


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    volumes: list[dict[str, Any]] = []
    containers: list[dict[str, Any]] = []
    init_containers: list[dict[str, Any]] = []
    image_pull_secrets: list[dict[str, Any]] = []


class _Status(msgspec.Struct, rename="camel"):
    resource_claim_statuses: list[dict[str, Any]] = []


class _Pod(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Slice(msgspec.Struct):
    spec: _Spec


class NodeAuthorizer:
    def __init__(self, store: LocalStore) -> None:
        self._store = store

    async def allows(self, request: Request) -> bool:
        """By what the request names; what its body holds is judged by `admit_write`."""
        match request.group, request.plural:
            case "", "nodes":
                return _own_node(request)
            case "coordination.k8s.io", "leases":
                return _own_lease(request)
            case "", "pods":
                return await self._own_pods(request)
            case "", "configmaps" | "secrets":
                return await self._referenced(request)
            case "", "events":
                return request.verb in ("create", "patch", "update") and not request.subresource
            case "events.k8s.io", "events":
                return request.verb in ("create", "patch", "update") and not request.subresource
            case "resource.k8s.io", "resourceslices":
                return await self._own_slices(request)
            case "resource.k8s.io", "resourceclaims":
                return await self._own_claims(request)
        return False

    async def _own_pods(self, request: Request) -> bool:
        if request.verb in COLLECTION_READS:
            return selects(request, "spec.nodeName")
        if not request.name:
            return False
        allowed = (
            (request.verb == "get" and request.subresource in ("", "status"))
            or (request.verb in CHANGES and request.subresource == "status")
            or (request.verb == "delete" and not request.subresource)
            or (request.verb == "create" and request.subresource == "eviction")
        )
        return allowed and await self._is_bound(request)

    async def _is_bound(self, request: Request) -> bool:
        try:
            body = await self._store.get_body(POD, request.name, request.namespace)
        except NotFound:
            return request.verb == "delete"  # as NodeRestriction: an agent that repeats its final delete learns 404
        return msgspec.json.decode(body, type=_Pod).spec.node_name == request.identity.node

    async def _referenced(self, request: Request) -> bool:
        if request.verb not in READS or not request.name or not request.namespace or request.subresource:
            return False  # without a namespace it would be all of that name, of other namespaces too
        wanted = (request.plural, request.name)
        return any([wanted in set(_references(pod)) for pod in await self._bound_pods(request)])

    async def _own_claims(self, request: Request) -> bool:
        reads = request.verb in READS and not request.subresource
        reports = request.verb == "patch" and request.subresource == "status"
        if not request.name or not request.namespace or not (reads or reports):
            return False
        for pod in await self._bound_pods(request):
            if any(entry.get("resourceClaimName") == request.name for entry in pod.status.resource_claim_statuses):
                return True
        try:
            claim = await self._store.get(RESOURCE_CLAIM, request.name, request.namespace)
        except NotFound:
            return False
        names = {str(entry.get("name")) for entry in (claim.get("status") or {}).get("reservedFor") or ()}
        return bool(names) and await self._any_bound(request, names)

    async def _any_bound(self, request: Request, names: set[str]) -> bool:
        for name in names:
            try:
                body = await self._store.get_body(POD, name, request.namespace)
            except NotFound:
                continue
            if msgspec.json.decode(body, type=_Pod).spec.node_name == request.identity.node:
                return True
        return False

    async def _own_slices(self, request: Request) -> bool:
        if request.subresource:
            return False
        if request.verb in (*COLLECTION_READS, "deletecollection"):
            return selects(request, "spec.nodeName")
        if request.verb == "create":
            return True
        try:
            body = await self._store.get_body(RESOURCE_SLICE, request.name)
        except NotFound:
            return request.verb == "delete"
        return msgspec.json.decode(body, type=_Slice).spec.node_name == request.identity.node

    async def _bound_pods(self, request: Request) -> list[_Pod]:
        node = request.identity.node
        bodies, *_ = await self._store.list_bodies(POD, request.namespace, fields=f"spec.nodeName={node}")
        return [msgspec.json.decode(body, type=_Pod) for body in bodies]


def _own_node(request: Request) -> bool:
    if request.verb == "create":
        return not request.subresource
    own = request.name == request.identity.node
    if request.subresource == "status":
        return own and request.verb in ("get", *CHANGES)
    return own and not request.subresource and request.verb in ("get", "list", "watch", *CHANGES)


def _own_lease(request: Request) -> bool:
    if request.namespace != LEASE_NAMESPACE or request.subresource:
        return False
    return request.verb == "create" or (request.name == request.identity.node and request.verb in ("get", *CHANGES))


def selects(request: Request, field: str) -> bool:
    """Whether the request's field selector keeps it to this node."""
    return pinned(request.query.get("fieldSelector", ""), field) == request.identity.node


def _references(pod: _Pod) -> Iterator[tuple[str, str]]:
    """(plural, name) of every ConfigMap and Secret that the Pod's agent needs."""
    for volume in pod.spec.volumes:
        yield from _volume_references(volume)
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield from _volume_references(source)
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        for entry in container.get("envFrom") or ():
            yield from _named(entry, "configMapRef", "secretRef")
        for entry in container.get("env") or ():
            yield from _named(entry.get("valueFrom") or {}, "configMapKeyRef", "secretKeyRef")
    for entry in pod.spec.image_pull_secrets:
        yield "secrets", str(entry.get("name"))


def _volume_references(volume: Fields) -> Iterator[tuple[str, str]]:
    yield from _named(volume, "configMap", "secret")
    if volume.get("secret"):
        yield "secrets", str(volume["secret"].get("secretName"))


def _named(source: Fields, config_map: str, secret: str) -> Iterator[tuple[str, str]]:
    if source.get(config_map):
        yield "configmaps", str(source[config_map].get("name"))
    if source.get(secret):
        yield "secrets", str(source[secret].get("name"))


def admit_write(request: Request, document: Any, *, strategic: bool) -> None:
    """NodeRestriction: what a node may not write even to objects of its own. Raises Forbidden.

    What a document takes away without naming it is judged where the object is known, in `objects/node_rights.py`.
    """
    node = request.identity.node
    if not isinstance(document, dict):
        raise _no(request, "a node changes objects by a document with fields, not by operations")
    match request.plural:
        case "nodes":
            _admit_node(request, document, node)
        case "leases":
            if request.verb == "create" and _part(document, "metadata").get("name") != node:
                raise _no(request, f"node {node!r} may only create its own Lease, named {node!r}")
        case "resourceslices":
            spec = _part(document, "spec")
            if spec.get("nodeName") != node and (request.verb != "patch" or "nodeName" in spec):
                raise _no(request, f"spec.nodeName: must be {node!r}, a node publishes its own devices only")
        case "pods" if request.subresource == "status":
            _admit_pod_status(request, document, strategic)
        case "resourceclaims":
            _admit_only(request, "status", _part(document, "status"), ("devices",))


def _admit_node(request: Request, document: Fields, node: str) -> None:
    fields = _part(document, "metadata")
    if request.verb == "create" and fields.get("name") != node:
        raise _no(request, f"node {node!r} may only create its own Node, named {node!r}")
    if fields.get("ownerReferences"):
        raise _no(request, "metadata.ownerReferences: a node may not set owners, they could delete it")
    for label in _part(fields, "labels") if request.verb == "create" else ():
        if PROTECTED_LABELS in label:
            raise _no(request, f"metadata.labels[{label}]: this label is for administrators only")


def _admit_pod_status(request: Request, document: Fields, strategic: bool) -> None:
    status = _part(document, "status")
    _admit_only(request, "metadata", _part(document, "metadata"), ("name", "namespace", "uid", "resourceVersion"))
    for field in NOT_A_NODES:
        if field in status:
            raise _no(request, f"status.{field}: is not a node's to write")
    lists = [status.get(key) for key in CONTAINER_STATUSES]
    if any(entries is not None for entries in lists) and not strategic:
        raise _no(request, "status.containerStatuses: a node writes it by strategic merge patch, by container name")
    for entries in lists:
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and ADMITTED in entry:
                raise _no(request, f"status.containerStatuses[].{ADMITTED}: what is admitted is not a node's to write")


def _admit_only(request: Request, path: str, fields: Fields, allowed: tuple[str, ...]) -> None:
    for field in fields:
        if field not in allowed:
            raise _no(request, f"{path}.{field}: a node writes only {', '.join(allowed)} here")


def _part(document: Fields, field: str) -> Fields:
    """An object inside a document; what is none is refused later, where its kind is known."""
    found = document.get(field)
    return found if isinstance(found, dict) else {}


def _no(request: Request, why: str) -> StoreError:
    what = f'{request.resource} "{request.name}"' if request.name else request.resource
    return Forbidden(f"{what} is forbidden: {why}")
