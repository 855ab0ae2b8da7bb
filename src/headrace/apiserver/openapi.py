"""OpenAPI v3: an index with a hash a document, and one document per group and version.

kubectl needs from a document the schemas (`explain`, `apply`) and, per kind, a PATCH operation that names its kind and
has the parameter `fieldValidation`: without one it asks for the older document, which is served empty.
"""

import hashlib
from typing import Any

import orjson

from headrace.apiserver.answers import Answer, json_answer
from headrace.apiserver.discovery import subresource_verbs
from headrace.apiserver.requests import Request
from headrace.apiserver.statuses import method_not_allowed, not_found_path
from headrace.objects.registry import Registry, Served

PREFIX = "/openapi/v3"
OLDER = b"\x0a\x032.0"  # a protobuf message: its first field, `swagger`, is 2.0
OLDER_TYPE = b"application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_PATCHES = ("application/json-patch+json", "application/merge-patch+json")
_STRATEGIC = "application/strategic-merge-patch+json"
_PARAMETERS = {
    name: {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}
    for name, kind in {
        "dryRun": "string",
        "fieldManager": "string",
        "fieldValidation": "string",
        "force": "boolean",
        "labelSelector": "string",
        "fieldSelector": "string",
        "limit": "integer",
        "continue": "string",
        "watch": "boolean",
        "resourceVersion": "string",
        "gracePeriodSeconds": "integer",
        "propagationPolicy": "string",
    }.items()
}
_OF_WRITES = ("dryRun", "fieldManager", "fieldValidation")
_OF_LISTS = ("labelSelector", "fieldSelector", "limit", "continue", "watch", "resourceVersion")
_OF_DELETES = ("dryRun", "gracePeriodSeconds", "propagationPolicy")


def older(request: Request) -> Answer:
    """The older document, with nothing in it: kubectl asks it of a kind that the newer ones have not, as of a mistyped
    one, and only if it is there goes on and says that there is no such kind. Raises a 405 Failure.
    """
    if request.method not in ("GET", "HEAD"):
        raise method_not_allowed()
    if "protobuf" in request.accept:
        return Answer(200, OLDER, OLDER_TYPE)
    info = {"title": "headrace", "version": "v1"}
    return json_answer({"swagger": "2.0", "info": info, "paths": {}, "definitions": {}})


class OpenApi:
    """A document is made when first asked for and kept until the kinds change."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._generation = -1
        self._documents: dict[str, bytes] = {}

    def answer(self, request: Request) -> Answer:
        """Raises a 404 Failure for a group and version that is not served."""
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        if self._generation != self._registry.generation:
            self._documents.clear()
            self._generation = self._registry.generation
        path = request.path.rstrip("/")
        if path == PREFIX:
            return Answer(200, self._index())
        document = self._document(path.removeprefix(PREFIX + "/"))
        return Answer(200, document, headers=((b"cache-control", b"public, immutable"),) if request.query else ())

    def _paths(self) -> dict[str, tuple[str, str]]:
        found = {}
        for served in self._registry.all():
            group, version = served.kind.group, served.kind.version
            found[f"apis/{group}/{version}" if group else f"api/{version}"] = (group, version)
        return found

    def _index(self) -> bytes:
        paths = {}
        for path, (group, version) in self._paths().items():
            # The hash of what the document is made from: making every document to hash it would cost a second.
            text = repr([served for served in self._registry.all() if served.kind.group == group])
            digest = hashlib.sha256(f"{self._seed(group)}{version}{text}".encode()).hexdigest().upper()
            paths[path] = {"serverRelativeURL": f"{PREFIX}/{path}?hash={digest}"}
        return orjson.dumps({"paths": paths})

    def _seed(self, group: str) -> str:
        """Custom kinds may change their schemas at any generation; built-in ones only with a release."""
        custom = any(served.custom for served in self._registry.all() if served.kind.group == group)
        return str(self._registry.generation) if custom else ""

    def _document(self, path: str) -> bytes:
        document = self._documents.get(path)
        if document is None:
            found = self._paths().get(path)
            if found is None:
                raise not_found_path()
            document = self._documents[path] = orjson.dumps(self._make(*found))
        return document

    def _make(self, group: str, version: str) -> dict[str, Any]:
        schemas = self._registry.openapi_schemas(group, version)
        names = _names_by_kind(schemas)
        paths: dict[str, Any] = {}
        for served in self._registry.all():
            if (served.kind.group, served.kind.version) == (group, version):
                paths |= _paths_of(served, names.get(served.kind.kind, ""))
        return {
            "openapi": "3.0.0",
            "info": {"title": "headrace", "version": "v1"},
            "paths": paths,
            "components": {"schemas": schemas},
        }


def _names_by_kind(schemas: dict[str, Any]) -> dict[str, str]:
    return {
        str(kind["kind"]): name
        for name, schema in schemas.items()
        for kind in schema.get("x-kubernetes-group-version-kind", ())[:1]
    }


def _paths_of(served: Served, schema: str) -> dict[str, Any]:
    kind = served.kind
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    parts = [f"{root}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"]
    collection = {}
    if "list" in served.verbs:
        collection["get"] = _operation(served, schema, "get", "list", _OF_LISTS)
        if kind.namespaced:
            parts.append(f"{root}/{kind.plural}")
    if "create" in served.verbs:
        collection["post"] = _operation(served, schema, "post", "post", _OF_WRITES)
    item: dict[str, Any] = {"get": _operation(served, schema, "get", "get", ())} if "get" in served.verbs else {}
    if "update" in served.verbs:
        item["put"] = _operation(served, schema, "put", "put", _OF_WRITES)
    # Every kind gets a PATCH operation, also one that can only be created: it is where kubectl looks for
    # `fieldValidation`, and it falls back to the older document where it finds none.
    item["patch"] = _operation(served, schema, "patch", "patch", (*_OF_WRITES, "force"))
    if "delete" in served.verbs:
        item["delete"] = _operation(served, schema, "delete", "delete", _OF_DELETES)
    found: dict[str, Any] = {parts[0]: collection, f"{parts[0]}/{{name}}": item}
    if len(parts) > 1:
        found[parts[1]] = {"get": collection["get"]}
    for subresource in served.subresources:
        found[f"{parts[0]}/{{name}}/{subresource}"] = _subresource(served, schema, subresource)
    return found


def _subresource(served: Served, schema: str, subresource: str) -> dict[str, Any]:
    methods = {"get": "get", "update": "put", "patch": "patch", "create": "post", "delete": "delete"}
    own = schema if subresource in ("status", "resize", "ephemeralcontainers") else ""
    return {
        methods[verb]: _operation(served, own, methods[verb], methods[verb], () if verb == "get" else _OF_WRITES)
        for verb in subresource_verbs(subresource)
    }


def _operation(served: Served, schema: str, method: str, action: str, parameters: tuple[str, ...]) -> dict[str, Any]:
    kind = served.kind
    content: dict[str, Any] = {"schema": {"$ref": f"#/components/schemas/{schema}"}} if schema else {}
    operation: dict[str, Any] = {
        "parameters": [_PARAMETERS[name] for name in parameters],
        "responses": {"200": {"description": "OK", "content": {"application/json": content}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
    }
    if method == "patch":
        types = _PATCHES if served.custom else (*_PATCHES, _STRATEGIC)
        operation["requestBody"] = {"content": {name: {"schema": {"type": "object"}} for name in types}}
    elif method in ("post", "put"):
        operation["requestBody"] = {"content": {"application/json": content}}
    return operation
