"""Creating and changing objects: decode, default, admit, validate, commit. Every write of a main resource passes here.

A change is a function of the object as it is; where the caller named no version it is repeated while others write in
between, a bounded number of times.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from headrace.api import kinds
from headrace.api.limits import OBJECT_BYTES
from headrace.api.objects import Fields, Object
from headrace.api.sameness import as_key
from headrace.objects import admission, decoding, generated_names, managed_fields, node_rights, refusals
from headrace.objects.bodies import clone, decode, encode
from headrace.objects.crd import establish
from headrace.objects.formats import format_time
from headrace.objects.home import Caller, Home, key_of
from headrace.objects.reading import shown_object
from headrace.objects.registry import Served
from headrace.objects.schemas import META, name_of_kind, parts_of
from headrace.objects.validation import metadata
from headrace.objects.validation.errors import FieldErrors
from headrace.store.protocol import AlreadyExists, BadRequest, Conflict, Refused
from headrace.store.rows import Body, Key, Write

OBJECT_META = META + "ObjectMeta"
ATTEMPTS = 50
LONG_ATTEMPTS = 5  # where each takes more than one turn on the event loop
NAME_ATTEMPTS = 8
SPEC_WRITERS = ("", "resize")
"""Ways to change what is wanted. Binding also writes into the spec, but a new node is no new wish."""

Change = Callable[[Object], Object]
"""The object after a change, made of the object before it, which it may change and return. It shares parts with nothing
else: what it returns is changed and kept."""


def typed(served: Served, obj: Object, caller: Caller) -> Object:
    """`obj` as its kind knows it: unknown fields dropped, or refused where the caller asks for strictness.

    It may be the one given, changed.
    """
    kind = served.kind
    for part, value in (("apiVersion", kind.api_version), ("kind", kind.kind)):
        if obj.get(part) in (None, ""):
            obj[part] = value
    given = (obj["apiVersion"], obj["kind"])
    if given != (kind.api_version, kind.kind):
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {kind.kind}): it is a {given[1]} of {given[0]}, "
            f"not a {kind.kind} of {kind.api_version}"
        )
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    if not isinstance(obj["metadata"], dict):
        raise BadRequest(f"{_as_kind(served)}: metadata must be an object")
    try:
        if served.custom:
            return _custom(served, obj, caller)
        name = name_of_kind(kind)
        read = decoding.decode(name, obj)
    except decoding.UndecodableError as error:
        raise BadRequest(f"{_as_kind(served)}: {error}") from error
    report_unknown(served, read.unknown, caller)
    for part in parts_of(name):
        if part not in read.object:
            read.object[part] = decoding.empty(part, name)
    return read.object


def _custom(served: Served, obj: Object, caller: Caller) -> Object:
    """Custom objects: metadata is typed as everywhere, the rest is pruned by the definition's schema."""
    read = decoding.decode(OBJECT_META, obj["metadata"], "metadata")
    obj = {**obj, "metadata": read.object}
    report_unknown(served, [*read.unknown, *served.strategy.prune(obj)], caller)
    return obj


def schema_name(served: Served) -> str:
    return name_of_kind(served.kind)


def report_unknown(served: Served, unknown: list[str], caller: Caller) -> None:
    if not unknown or caller.validation == "Ignore":
        return
    said = [f'unknown field "{path}"' for path in unknown[: decoding.UNKNOWN_FIELDS_SHOWN]]
    if caller.validation == "Strict":
        raise BadRequest(f"{_as_kind(served)}: strict decoding error: {', '.join(said)}")
    for each in said:
        caller.warn(each)


def _as_kind(served: Served) -> str:
    kind = served.kind
    return f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'


async def create(home: Home, served: Served, given: Object, namespace: str, caller: Caller) -> Object:
    """`given` belongs to this write from here on."""
    obj = typed(served, given, caller)
    meta = obj["metadata"]
    _place(served, meta, namespace)
    if meta.pop("resourceVersion", ""):
        raise BadRequest("resourceVersion should not be set on objects to be created")
    generate = bool(meta.get("generateName")) and not meta.get("name")
    if served.write is not None:
        obj = served.write(obj)
    if (ahead := served.strategy.ahead(obj)) is not None:
        await home.turns.finish(ahead)
    for attempt in range(NAME_ATTEMPTS):
        if generate:
            meta["name"] = generated_names.name(meta["generateName"], home.new_uid())
        prepared = await _prepared(home, served, clone(obj) if generate else obj, caller)
        try:
            revision = await _commit_new(home, served, prepared, caller)
        except Conflict:
            if generate and attempt < NAME_ATTEMPTS - 1:
                continue
            raise _exists(served, meta["name"], generate) from None
        return _answer(served, prepared, revision)
    raise AssertionError("the last attempt returns or raises")


def _place(served: Served, meta: dict[str, Any], namespace: str) -> None:
    """The namespace of the request and that of the object must be the same; either may be left out."""
    own = meta.get("namespace", "")
    if not served.kind.namespaced:
        if own:
            raise BadRequest("namespace may not be set on a cluster-scoped object" if namespace else _NAMESPACE_DIFFERS)
        meta.pop("namespace", None)
        return
    if own and namespace and own != namespace:
        raise BadRequest(_NAMESPACE_DIFFERS)
    if not own and not namespace:
        raise BadRequest("an empty namespace may not be set during creation")
    meta["namespace"] = own or namespace


_NAMESPACE_DIFFERS = "the namespace of the provided object does not match the namespace sent on the request"


def _exists(served: Served, name: str, generated: bool) -> AlreadyExists:
    if generated:
        return AlreadyExists(
            f'{served.kind.resource} "{name}" already exists, the server was not able to generate a unique name for '
            "the object"
        )
    return refusals.already_exists(served.kind, name)


async def _prepared(home: Home, served: Served, obj: Object, caller: Caller) -> Object:
    """A new object with all that makes it one, valid and admitted. It is the one given."""
    meta, strategy = obj["metadata"], served.strategy
    for part in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation", "managedFields"):
        meta.pop(part, None)
    _drop_repeated_owners(meta)
    meta["uid"] = home.new_uid()
    meta["creationTimestamp"] = format_time(home.wall())
    if strategy.counts_generations:
        meta["generation"] = 1
    strategy.default(obj)
    # What the caller asked for is the caller's; what is set after this line is nobody's.
    managed_fields.record(served, None, obj, caller.field_manager, meta["creationTimestamp"], "")
    strategy.prepare_create(obj)
    admission.admit_new(home, served, obj)
    errors = FieldErrors()
    if strategy.judges_metadata:
        metadata.validate(meta, served.kind.namespaced, strategy.name_errors, errors)
        if not served.custom:
            metadata.validate_finalizers_of_built_in(meta.get("finalizers") or [], errors)
    strategy.judge_surroundings(home.rows, "", obj, None, errors)
    strategy.validate(obj, errors)
    if not strategy.judges_metadata and not errors:
        metadata.validate(meta, served.kind.namespaced, strategy.name_errors, errors)
    judging = strategy.judging("", obj, None, errors)
    rested = judging is not None and await home.turns.finish(judging)
    if errors:
        raise refusals.invalid(served.kind, meta.get("name", ""), errors)
    if rested:  # its namespace or its definition may have begun to end meanwhile
        admission.admit_new(home, home.served(served.kind), obj)
    return obj


def _drop_repeated_owners(meta: dict[str, Any]) -> None:
    owners = meta.get("ownerReferences")
    if owners:
        kept: dict[Hashable, Fields] = {}
        for owner in owners:
            kept.setdefault(as_key(owner), owner)
        meta["ownerReferences"] = list(kept.values())


async def _commit_new(home: Home, served: Served, obj: Object, caller: Caller) -> int:
    key = key_of(served, obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
    try:
        return await commit(home, Write(key, 0, body_of(served, obj), obj), caller)
    except Refused as refused:
        if not served.strategy.stored_when_refused(obj, refused.shortfall):
            raise
        # As a kubelet does: a Pod that was put on a node without room is there, and failed.
        return await commit(home, Write(key, 0, body_of(served, obj), obj), caller)


def body_of(served: Served, obj: Object) -> Body:
    body = encode(obj)
    if len(body.head) + len(body.tail) > OBJECT_BYTES:
        errors = FieldErrors()
        errors.too_long("", OBJECT_BYTES)
        raise refusals.invalid(served.kind, obj["metadata"]["name"], errors)
    return body


async def commit(home: Home, write: Write, caller: Caller) -> int:
    """The revision of a write; 0 for one that was only tried."""
    if caller.dry_run:
        return await home.rows.check(write)
    revision = await home.rows.commit(write, caller.connection)
    if write.key.resource == kinds.CUSTOM_RESOURCE_DEFINITION.resource:
        establish.follow(home.registry, write)
    return revision


def _answer(served: Served, obj: Object, revision: int) -> Object:
    if revision:
        obj["metadata"]["resourceVersion"] = str(revision)
    return shown_object(served, obj)


@dataclass(frozen=True, slots=True)
class Update:
    """A change of one object through its main resource or a subresource."""

    name: str
    namespace: str
    change: Change
    version: str | None = None
    subresource: str = ""
    whole: bool = False
    """The change is a whole new object (PUT), not a patch."""


async def update(home: Home, served: Served, wanted: Update, caller: Caller) -> Object:
    """Apply a change. Raises Conflict at once if a version was asked for that the object no longer has."""
    key = key_of(served, wanted.name, wanted.namespace)
    for attempt in range(ATTEMPTS):
        row = home.rows.get(key)
        if row is None:
            raise refusals.not_found(served.kind, wanted.name)
        old = decode(row.body)
        if wanted.version is not None and wanted.version != str(row.revision):
            raise refusals.conflict(served.kind, wanted.name)
        errors = FieldErrors()
        changed = _changed(home, served, old, wanted, caller, errors)
        if changed is None:
            return shown_object(served, old)
        judging = served.strategy.judging(wanted.subresource, changed, old, errors)
        rested = judging is not None and await home.turns.finish(judging)
        if errors:
            raise refusals.invalid(served.kind, wanted.name, errors)
        now = format_time(home.wall())
        managed_fields.record(served, old, changed, caller.field_manager, now, wanted.subresource)
        try:
            return await _commit_change(home, served, key, row.revision, changed, caller)
        except Conflict:
            if wanted.version is not None or (rested and attempt + 1 >= LONG_ATTEMPTS):
                raise refusals.conflict(served.kind, wanted.name) from None
    raise refusals.conflict(served.kind, wanted.name)


async def _commit_change(home: Home, served: Served, key: Key, revision: int, obj: Object, caller: Caller) -> Object:
    meta = obj["metadata"]
    if "deletionTimestamp" in meta and not meta.get("finalizers") and not served.strategy.waits_to_go(obj):
        # The last finalizer went with this change: so does the object.
        gone = Write(key, revision, None, obj, served.strategy.gone_is_confirmed(obj, caller.user))
        return _answer(served, obj, await commit(home, gone, caller))
    return _answer(served, obj, await commit(home, Write(key, revision, body_of(served, obj), obj), caller))


def _changed(
    home: Home, served: Served, old: Object, wanted: Update, caller: Caller, errors: FieldErrors
) -> Object | None:
    """The object after the change, judged but for what takes long; None if it changes nothing.

    Raises Conflict on a stale version in it.
    """
    obj = _given(served, old, wanted, caller)
    strategy, was = served.strategy, old["metadata"]
    if wanted.subresource in SPEC_WRITERS:
        strategy.default(obj)
    if wanted.subresource:
        strategy.prepare_subresource(wanted.subresource, obj, old)
    else:
        strategy.prepare_update(obj, old)
    meta = obj["metadata"]
    if strategy.counts_generations and wanted.subresource in SPEC_WRITERS and strategy.generation_changed(obj, old):
        meta["generation"] = was.get("generation", 0) + 1
    if obj == old:
        return None
    if not wanted.subresource:
        strategy.admit_change(home.rows, obj, old, format_time(home.wall()))
    metadata.validate_update(meta, was, strategy.name_errors, errors)
    if not served.custom and strategy.judges_metadata:
        metadata.validate_finalizers_of_built_in(meta.get("finalizers") or [], errors)
    strategy.judge_surroundings(home.rows, wanted.subresource, obj, old, errors)
    strategy.validate_change(wanted.subresource, obj, old, errors)
    strategy.judge_caller(wanted.subresource, "update" if wanted.whole else "patch", obj, old, caller, errors)
    if caller.node:
        node_rights.judge_change(served.stored, obj, old, caller.node)
    return obj


def _given(served: Served, old: Object, wanted: Update, caller: Caller) -> Object:
    """What the caller wants the object to be, typed and of the same identity. Raises Conflict on a stale version."""
    changed = wanted.change(shown_object(served, clone(old)))
    try:
        obj = typed(served, changed, caller)
    except BadRequest as error:
        raise error if wanted.whole else refusals.bad_patch(changed, str(error)) from error
    if served.write is not None:
        obj = served.write(obj)
    if served.at_rest is not None or served.custom:
        obj["apiVersion"] = old["apiVersion"]
    version = obj["metadata"].get("resourceVersion")
    if version and version != old["metadata"]["resourceVersion"]:
        raise refusals.conflict(served.kind, wanted.name)
    if not version and wanted.whole and not served.strategy.may_be_replaced_unseen:
        raise refusals.version_required(served.kind, wanted.name)
    _keep_identity(obj["metadata"], old["metadata"])
    _drop_repeated_owners(obj["metadata"])
    return obj


def _keep_identity(meta: dict[str, Any], was: Fields) -> None:
    """What no update decides. Another uid or name in the object is an error."""
    meta.pop("selfLink", None)
    meta["uid"] = meta.get("uid") or was["uid"]
    if "managedFields" in was and not meta.get("managedFields"):
        meta["managedFields"] = was["managedFields"]
    for part in ("resourceVersion", "creationTimestamp", "generation", "deletionTimestamp"):
        if part in was:
            meta[part] = was[part]
        else:
            meta.pop(part, None)
    if "deletionGracePeriodSeconds" in was:
        meta.setdefault("deletionGracePeriodSeconds", was["deletionGracePeriodSeconds"])
    else:
        meta.pop("deletionGracePeriodSeconds", None)


def as_dry_run(caller: Caller, dry_run: bool) -> Caller:
    return caller._replace(dry_run=True) if dry_run else caller
