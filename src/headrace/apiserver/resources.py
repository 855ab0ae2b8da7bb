"""The verbs on stored objects: from a parsed request to one call of LocalStore, and its bytes back.

Bodies stay bytes wherever nobody has to look inside: a get answers what is stored, a list is spliced.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import orjson

from headrace.api.kinds import Kind
from headrace.api.objects import Object
from headrace.apiserver import bodies, deleting
from headrace.apiserver.answers import Answer, Stream, json_answer, warning_headers
from headrace.apiserver.authorization import may_write_part
from headrace.apiserver.discovery import subresource_verbs
from headrace.apiserver.forms import Forms
from headrace.apiserver.logs import PodLogs
from headrace.apiserver.negotiation import OBJECTS, accepted
from headrace.apiserver.node_authorization import admit_write
from headrace.apiserver.printing import Printing
from headrace.apiserver.requests import CONNECTS, Request
from headrace.apiserver.statuses import Failure, method_not_allowed, not_found_path
from headrace.apiserver.watching import Watching
from headrace.objects.local import Caller, LocalStore, PatchType, Validation
from headrace.objects.registry import Registry, Served
from headrace.store.protocol import BadRequest

PATCH_TYPES: Mapping[str, PatchType] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
}
_APPLY = ("application/apply-patch+yaml", "application/apply-patch+cbor")
_VALIDATIONS: Mapping[str, Validation] = {"Strict": "Strict", "Warn": "Warn", "Ignore": "Ignore", "": "Warn"}
_POSTED = frozenset({"binding", "eviction", "token"})

Handler = Callable[[Request, Served], Awaitable[Answer | Stream]]


class Resources:
    def __init__(self, store: LocalStore, registry: Registry, printing: Printing, logs: PodLogs) -> None:
        self._store = store
        self._registry = registry
        self._forms = Forms(printing)
        self._logs = logs
        self._watching = Watching(store, printing)
        self._handlers: dict[str, Handler] = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    async def answer(self, request: Request) -> Answer | Stream:
        """Raises StoreError; what no kind or verb answers to is a 404 or 405 Failure."""
        served = self._registry.lookup(request.group, request.version, request.plural)
        if served is None or (request.namespace and not served.kind.namespaced):
            raise not_found_path()
        if served.kind.namespaced and not request.namespace and request.verb not in ("list", "watch"):
            raise method_not_allowed()
        if request.subresource != "log":
            request.form = accepted(request.accept).among(OBJECTS)
        if request.subresource:
            return await self._subresource(request, served)
        if request.verb not in served.verbs:
            raise method_not_allowed()
        return await self._handlers[request.verb](request, served)

    async def _get(self, request: Request, served: Served) -> Answer:
        body = await self._store.get_body(served.kind, request.name, request.namespace)
        if request.form == "yaml" and len(body) > bodies.LONG_YAML_BYTES:  # takes a second for a megabyte
            return await asyncio.to_thread(self._forms.stored, request, served, body)
        return self._forms.stored(request, served, body)

    async def _list(self, request: Request, served: Served) -> Answer:
        listed = await self._watching.listed(request, served)
        return await self._store.turns.result(self._forms.many(request, served, *listed))

    async def _watch(self, request: Request, served: Served) -> Stream:
        return await self._watching.stream(request, served)

    async def _create(self, request: Request, served: Served) -> Answer:
        if request.name:
            raise method_not_allowed()
        obj = _object(request, served.kind, await bodies.decoded(request.body, request.content_type))
        if request.identity.role == "node":
            admit_write(request, obj, strategic=False)
        store, warnings = self._acting(request)
        created = await store.post(served.kind, obj, request.namespace)
        return self._forms.one(request, served, created, 201, warning_headers(warnings))

    async def _update(self, request: Request, served: Served) -> Answer:
        obj = _object(request, served.kind, await bodies.decoded(request.body, request.content_type))
        if request.identity.role == "node":
            admit_write(request, obj, strategic=False)
        store, warnings = self._acting(request)
        if request.about[1] != request.name:
            raise BadRequest(
                f"the name of the object ({request.about[1]}) does not match the name on the URL ({request.name})"
            )
        subresource = request.subresource or None
        written = await store.replace(served.kind, request.name, request.namespace, obj, subresource=subresource)
        return self._forms.one(request, served, written, 200, warning_headers(warnings))

    async def _patch(self, request: Request, served: Served) -> Answer:
        media = request.content_type.partition(";")[0].strip().lower()
        if media in _APPLY:
            raise Failure(
                415,
                "UnsupportedMediaType",
                "server-side apply is not served yet: use `kubectl apply` without --server-side, or another patch type",
            )
        patch_type = PATCH_TYPES.get(media)
        if patch_type is None:
            raise bodies.unsupported(media or "none", PATCH_TYPES)
        document = bodies.decode(request.body, media, PATCH_TYPES)
        if request.identity.role == "node":
            admit_write(request, document, strategic=patch_type == "strategic")
        request.about = (served.kind.kind, request.name)
        store, warnings = self._acting(request)
        written = await store.patch_document(
            served.kind,
            request.name,
            request.namespace,
            patch_type,
            document,
            subresource=request.subresource or None,
        )
        return self._forms.one(request, served, written, 200, warning_headers(warnings))

    async def _delete(self, request: Request, served: Served) -> Answer:
        deletion = deleting.options(request, await _optional(request))
        store, warnings = self._acting(request, deletion.dry_run)
        deleted = await store.delete(served.kind, request.name, request.namespace, deletion)
        return self._forms.one(request, served, deleted, 200, warning_headers(warnings))

    async def _delete_collection(self, request: Request, served: Served) -> Answer:
        deletion = deleting.options(request, await _optional(request))
        store, warnings = self._acting(request, deletion.dry_run)
        query = request.query
        listing = await store.delete_collection(
            served.kind,
            request.namespace,
            labels=query.get("labelSelector", ""),
            fields=query.get("fieldSelector", ""),
            deletion=deletion,
        )
        found = [orjson.dumps(item) for item in listing.items]
        answer = self._forms.many(request, served, found, listing.revision, headers=warning_headers(warnings))
        return await store.turns.result(answer)

    async def _subresource(self, request: Request, served: Served) -> Answer | Stream:
        name = request.subresource
        if name in CONNECTS and request.resource == "pods":
            raise Failure(501, "NotImplemented", f"{name} of pods is not served yet")
        if name not in served.subresources:
            raise not_found_path()
        if request.verb not in subresource_verbs(name):
            raise method_not_allowed()
        if name == "log":
            return await self._logs.stream(request)
        if name in _POSTED:
            return await self._posted(request, served)
        if name == "scale":
            return await self._scale(request, served)
        return await self._handlers[request.verb](request, served)

    async def _posted(self, request: Request, served: Served) -> Answer:
        body = await bodies.decoded(request.body, request.content_type)
        if not isinstance(body, dict):
            raise BadRequest("the body must be an object")
        store, warnings = self._acting(request)
        made = await store.create_subresource(served.kind, request.name, request.namespace, request.subresource, body)
        return json_answer(made, 201, warning_headers(warnings))

    async def _scale(self, request: Request, served: Served) -> Answer:
        if request.verb == "get":
            return json_answer(await self._store.get_subresource(served.kind, request.name, request.namespace, "scale"))
        if request.verb == "patch":
            return await self._patch(request, served)
        return await self._update(request, served)

    def _acting(self, request: Request, dry_run: bool = False) -> tuple[LocalStore, list[str]]:
        query = request.query
        validation = _VALIDATIONS.get(query.get("fieldValidation", ""))
        if validation is None:
            raise BadRequest(f"fieldValidation: {query['fieldValidation']!r} must be Strict, Warn or Ignore")
        warnings: list[str] = []
        caller = Caller(
            user=request.identity.user,
            field_manager=query.get("fieldManager") or request.user_agent.partition("/")[0][:128] or "unknown",
            validation=validation,
            dry_run=dry_run or is_dry_run(query.get("dryRun", "")),
            warn=warnings.append,
            may=partial(may_write_part, request.identity),
            node=request.identity.node,
            connection=request.connection,
        )
        return self._store.acting_as(caller), warnings


def is_dry_run(value: str) -> bool:
    if value in ("", "All"):
        return value == "All"
    raise BadRequest(f"dryRun: {value!r} must be All")


def _object(request: Request, kind: Kind, obj: Any) -> Object:
    if not isinstance(obj, dict):
        raise BadRequest("the body of the request must be an object")
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    request.about = (kind.kind, str(name or request.name))
    return obj


async def _optional(request: Request) -> Mapping[str, Any]:
    """The body of a DELETE, which may have none."""
    decoded = await bodies.decoded(request.body, request.content_type) if request.body else {}
    return decoded if isinstance(decoded, dict) else {}
