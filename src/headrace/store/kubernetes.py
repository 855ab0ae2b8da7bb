"""The Store over HTTP: our own API server and a real kube-apiserver alike."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import msgspec

from headrace.api.kinds import Kind
from headrace.api.objects import Fields, Object, version_of
from headrace.client.errors import ApiError, Unreachable, from_answer
from headrace.client.http import MERGE_PATCH, STRATEGIC_PATCH, Client
from headrace.client.paths import collection_path, object_path
from headrace.ledger.node import Shortfall
from headrace.store.protocol import (
    AlreadyExists,
    BadRequest,
    Cause,
    Conflict,
    Deletion,
    DiskFull,
    Forbidden,
    Gone,
    Invalid,
    Listing,
    NotFound,
    Refused,
    StoreError,
    TooBusy,
    Unauthorized,
    Unavailable,
    WatchEvent,
)

WATCH_SECONDS = 300  # the server ends a watch after this; it is resumed, so a silent one is never trusted for long
SILENCE_SECONDS = WATCH_SECONDS + 30.0
NO_DELETION = Deletion()
DRY_RUN = {"dryRun": "All"}
EVENTS = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")
SHOWN = 200
INSUFFICIENT = "InsufficientCapacity"


class KubernetesStore:
    """Implements `headrace.store.protocol.Store`. The client stays its owner's to close."""

    def __init__(self, client: Client, *, field_manager: str = "headrace") -> None:
        self._client = client
        self._writing = {"fieldManager": field_manager, "fieldValidation": "Strict"}

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        return await self._object("GET", _path(kind, namespace, name))

    async def list(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0, resume: str = ""
    ) -> Listing:
        query = _selection(labels, fields)
        if limit:
            query["limit"] = str(limit)
        if resume:
            query["continue"] = resume
        answer = await self._object("GET", collection_path(kind, namespace), query=query)
        metadata = answer.get("metadata") or {}
        items = [_answered(kind, item) for item in answer.get("items") or ()]
        return Listing(
            items,
            str(metadata.get("resourceVersion", "")),
            str(metadata.get("continue") or ""),
            metadata.get("remainingItemCount"),
        )

    async def watch(
        self, kind: Kind, namespace: str = "", *, since: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent]:
        """As the protocol says; a stream that ends plainly is taken up again where it ended."""
        if not since:
            listing = await self.list(kind, namespace, labels=labels, fields=fields)
            since = listing.revision
            for item in listing.items:
                yield WatchEvent("ADDED", item)
        while True:
            async with aclosing(self._stretch(kind, namespace, since, _selection(labels, fields))) as events:
                async for event in events:
                    since = version_of(event.object) or since
                    yield event

    async def _stretch(
        self, kind: Kind, namespace: str, since: str, query: dict[str, str]
    ) -> AsyncGenerator[WatchEvent, None]:
        """One stream, until its plain end."""
        query |= {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": since}
        query["timeoutSeconds"] = str(WATCH_SECONDS)
        path = collection_path(kind, namespace)
        try:
            async with aclosing(
                self._client.documents(path, query=query, silence_seconds=SILENCE_SECONDS)
            ) as documents:
                async for document in documents:
                    said: Any = document if isinstance(document, dict) else {}
                    type, obj = said.get("type"), said.get("object")
                    if type == "ERROR":
                        raise from_answer(500, obj, "watch error")
                    if type not in EVENTS:
                        raise Unavailable(f"watch of {kind.resource}: {str(document)[:SHOWN]!r} is no event")
                    yield WatchEvent(type, _answered(kind, obj))
        except (ApiError, Unreachable) as error:
            raise store_error(error) from None

    async def create(self, kind: Kind, obj: Fields, namespace: str = "", *, dry_run: bool = False) -> Object:
        path = collection_path(kind, namespace or str((obj.get("metadata") or {}).get("namespace", "")))
        return await self._object("POST", path, query=self._write_query(dry_run), body=_typed(kind, dict(obj)))

    async def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str = "",
        *,
        fields: Fields,
        version: str | None = None,
        subresource: str | None = None,
        strategic: bool = False,
        dry_run: bool = False,
    ) -> Object:
        document = dict(fields)
        if version is not None:
            document["metadata"] = {**(document.get("metadata") or {}), "resourceVersion": version}
        return await self._object(
            "PATCH",
            _path(kind, namespace, name, subresource),
            query=self._write_query(dry_run),
            body=document,
            content_type=STRATEGIC_PATCH if strategic else MERGE_PATCH,
        )

    async def create_subresource(self, kind: Kind, name: str, namespace: str, subresource: str, body: Fields) -> Object:
        method = "PUT" if subresource == "scale" else "POST"
        path = _path(kind, namespace, name, subresource)
        # Kubernetes wants the name in the body too, although the path has it.
        document = {**body, "metadata": {"name": name, "namespace": namespace, **(body.get("metadata") or {})}}
        return await self._object(method, path, query=self._write_query(False), body=document)

    async def delete(self, kind: Kind, name: str, namespace: str = "", deletion: Deletion = NO_DELETION) -> Object:
        """The object as it was last; a server that answers only `Success` leaves its name and uid."""
        answer = await self._object("DELETE", _path(kind, namespace, name), body=_delete_options(deletion), query={})
        if answer.get("kind") != "Status":
            return answer
        details = answer.get("details") or {}
        metadata = {"name": name, "uid": str(details.get("uid", ""))}
        if namespace:
            metadata["namespace"] = namespace
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}

    def _write_query(self, dry_run: bool) -> dict[str, str]:
        return {**self._writing, **DRY_RUN} if dry_run else dict(self._writing)

    async def _object(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Object:
        try:
            answer = await self._client.request(method, path, query=query, body=body, content_type=content_type)
        except (ApiError, Unreachable) as error:
            raise store_error(error) from None
        if not isinstance(answer, dict):
            raise Unavailable(f"{method} {path}: {str(answer)[:SHOWN]!r} is no object")
        return answer


def _path(kind: Kind, namespace: str, name: str, subresource: str | None = None) -> str:
    try:
        return object_path(kind, namespace, name, subresource)
    except ApiError as error:
        raise store_error(error) from None


def _selection(labels: str, fields: str) -> dict[str, str]:
    query = {}
    if labels:
        query["labelSelector"] = labels
    if fields:
        query["fieldSelector"] = fields
    return query


def _answered(kind: Kind, obj: Any) -> Object:
    """Raises Unavailable: what has no metadata was not said by a Kubernetes server, and may be said otherwise next."""
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        raise Unavailable(f"{kind.resource}: {str(obj)[:SHOWN]!r} is no {kind.kind}")
    return _typed(kind, obj)


def _typed(kind: Kind, obj: Object) -> Object:
    """Items of a Kubernetes list carry neither kind nor apiVersion; ours always do."""
    if "kind" in obj and "apiVersion" in obj:
        return obj
    return {"apiVersion": kind.api_version, "kind": kind.kind, **obj}


def _delete_options(deletion: Deletion) -> dict[str, Any]:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    conditions = {"uid": deletion.preconditions.uid, "resourceVersion": deletion.preconditions.version}
    if any(conditions.values()):
        options["preconditions"] = {key: value for key, value in conditions.items() if value}
    if deletion.propagation is not None:
        options["propagationPolicy"] = deletion.propagation
    if deletion.grace_seconds is not None:
        options["gracePeriodSeconds"] = deletion.grace_seconds
    if deletion.dry_run:
        options["dryRun"] = ["All"]
    return options


_BY_REASON: Mapping[str, type[StoreError]] = {
    "NotFound": NotFound,
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Expired": Gone,
    "Gone": Gone,
    "Forbidden": Forbidden,
    "Unauthorized": Unauthorized,
    "BadRequest": BadRequest,
    "TooManyRequests": TooBusy,
    "InsufficientStorage": DiskFull,
    "ServiceUnavailable": Unavailable,
    "Timeout": Unavailable,
    "ServerTimeout": Unavailable,
}
_BY_CODE: Mapping[int, type[StoreError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    415: BadRequest,
    429: TooBusy,
    507: DiskFull,
}


def store_error(error: ApiError | Unreachable) -> StoreError:
    """The protocol's error for what the client met; a refusal of capacity becomes Refused again."""
    if isinstance(error, Unreachable):
        return Unavailable(str(error))
    causes = [
        Cause(str(cause.get("reason", "")), str(cause.get("message", "")), str(cause.get("field", "")))
        for cause in error.details.get("causes") or ()
    ]
    if error.code == 403 and any(cause.reason == INSUFFICIENT for cause in causes):
        return Refused(_shortfall(error.details, causes), error.message)
    if error.reason == "Invalid" or error.code == 422:
        return Invalid(error.message, causes)
    kind = _BY_REASON.get(error.reason) or _BY_CODE.get(error.code)
    if kind is None:
        kind = Unavailable if error.code >= 500 else StoreError
    return kind(error.message)


def _shortfall(details: Mapping[str, Any], causes: list[Cause]) -> Shortfall:
    """Our server sends the amounts beside the causes; from causes alone only names and words are known."""
    told = [cause for cause in causes if cause.reason == INSUFFICIENT]
    amounts = details.get("shortfall")
    if not isinstance(amounts, Mapping):
        return Shortfall({cause.field: 0 for cause in told}, words=told[0].message)
    try:
        return msgspec.convert(amounts, Shortfall)
    except msgspec.ValidationError:
        return Shortfall({cause.field: 0 for cause in told}, words=told[0].message)
