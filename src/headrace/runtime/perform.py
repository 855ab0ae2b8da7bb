"""The one place that carries actions out. It decides nothing: it writes, and says what was written."""

from dataclasses import dataclass

from headrace.api.kinds import RESOURCE_CLAIM, Kind
from headrace.api.objects import Fields, Object, metadata
from headrace.ledger.node import Shortfall
from headrace.runtime.actions import RESIZE, Create, Delete, Patch, Subresource
from headrace.store.protocol import (
    AlreadyExists,
    BadRequest,
    Deletion,
    Forbidden,
    Invalid,
    NotFound,
    Refused,
    Store,
    Unauthorized,
)

Writing = Create | Delete | Patch | Subresource


@dataclass(frozen=True, slots=True)
class Written:
    """An answer of the store that the writer's cache has not told yet."""

    kind: Kind
    object: Object
    deleted: bool = False


async def perform(store: Store, action: Writing) -> Written | None:
    """None when nothing was written. Every StoreError but the two that mean "done already" is the caller's to judge."""
    match action:
        case Create(kind, namespace, obj):
            return await _create(store, kind, namespace, obj)
        case Delete(kind, namespace, name, deletion):
            return await _delete(store, kind, namespace, name, deletion)
        case Patch():
            return Written(action.kind, await _patch(store, action))
        case Subresource(kind, namespace, name, subresource, body):
            await store.create_subresource(kind, name, namespace, subresource, body)
            # The answer is a Status, not the object: read what to wait for.
            try:
                return Written(kind, await store.get(kind, name, namespace))
            except NotFound:
                return None


async def _patch(store: Store, patch: Patch) -> Object:
    """A resize that the API server refuses (a quota, a LimitRange, a rule of Pods) is as final as a ledger's answer.

    So it is raised as one, in the server's own words.
    """
    try:
        return await store.patch(
            patch.kind,
            patch.name,
            patch.namespace,
            fields=patch.fields,
            version=patch.version,
            subresource=patch.subresource,
            strategic=patch.strategic,
        )
    except Unauthorized:
        raise
    except (Forbidden, Invalid, BadRequest) as no:
        if patch.subresource != RESIZE:
            raise
        raise Refused(Shortfall({}, words=str(no))) from no


async def _create(store: Store, kind: Kind, namespace: str, obj: Fields) -> Written:
    """A second create of our own is done already: a lost reply, or a cache that is behind.

    A claim that the API server refuses (a quota, a template that asks for what cannot be) is refused as a resize is.
    """
    try:
        return Written(kind, await store.create(kind, obj, namespace))
    except AlreadyExists:
        name = str(metadata(obj).get("name", ""))
        if not name:
            raise
        try:
            there = await store.get(kind, name, namespace)
        except NotFound:
            raise AlreadyExists(f'{kind.resource} "{name}" was there and is gone: look again') from None
        if not _is_ours(obj, there):
            raise
        return Written(kind, there)
    except Unauthorized:
        raise
    except (Forbidden, Invalid, BadRequest) as no:
        if kind != RESOURCE_CLAIM:
            raise
        raise Refused(Shortfall({}, words=str(no))) from no


def _is_ours(wanted: Fields, there: Fields) -> bool:
    """The controlling owner decides; without one, the labels that we would have written."""
    if metadata(there).get("deletionTimestamp"):
        return False
    wanted_owner, owner = _controller_uid(wanted), _controller_uid(there)
    if wanted_owner or owner:
        return wanted_owner == owner
    labels = metadata(there).get("labels") or {}
    return all(labels.get(name) == value for name, value in (metadata(wanted).get("labels") or {}).items())


def _controller_uid(obj: Fields) -> str:
    for reference in metadata(obj).get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference.get("uid", ""))
    return ""


async def _delete(store: Store, kind: Kind, namespace: str, name: str, deletion: Deletion) -> Written | None:
    try:
        return Written(kind, await store.delete(kind, name, namespace, deletion), deleted=True)
    except NotFound:
        return None
