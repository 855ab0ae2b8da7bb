"""The one place that carries actions out. It decides nothing: it writes, and says what was written."""

from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def _refused_for_good(applies: bool) -> Iterator[None]:
    """What the API server refuses of such a write (a quota, a LimitRange, a rule) is as final as a ledger's answer.

    So it is raised as one, in the server's own words.
    """
    try:
        yield
    except Unauthorized:
        raise
    except (Forbidden, Invalid, BadRequest) as no:
        if not applies:
            raise
        raise Refused(Shortfall({}, words=str(no))) from no


async def _patch(store: Store, patch: Patch) -> Object:
    with _refused_for_good(patch.subresource == RESIZE):
        return await store.patch(
            patch.kind,
            patch.name,
            patch.namespace,
            fields=patch.fields,
            version=patch.version,
            subresource=patch.subresource,
            strategic=patch.strategic,
        )


async def _create(store: Store, kind: Kind, namespace: str, obj: Fields) -> Written:
    """A second create of our own is done already: a lost reply, or a cache that is behind."""
    try:
        with _refused_for_good(kind == RESOURCE_CLAIM):
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
