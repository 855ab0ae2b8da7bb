"""metadata.managedFields: which manager's write last set each field.

Each write is an Update: what it adds or modifies becomes its manager's, what it removes is nobody's. Server-side apply
needs these entries to be right from the first write on. Source: apimachinery's util/managedfields.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from headrace.api.objects import Object
from headrace.objects import schemas
from headrace.objects.field_sets import FieldSet, FieldType, compare, difference, union_of_roots
from headrace.objects.registry import Served

MOST_UPDATERS = 10
ANCIENT = "ancient-changes"
_NOT_MANAGED = (
    *("name", "namespace", "creationTimestamp", "selfLink"),
    *("uid", "generation", "managedFields", "resourceVersion"),
)

Entry = dict[str, Any]


def record(served: Served, old: Object | None, obj: Object, manager: str, now: str, subresource: str) -> None:
    """Write the entries of `obj`, which `manager` has made of `old`, into it."""
    meta = obj["metadata"]
    entries = _entries(meta, old["metadata"] if old else {})
    changed, removed = _compared(served, old, obj)
    kept = []
    if entries:
        touched = union_of_roots(changed, removed)
        for entry in entries:
            left = difference(entry.get("fieldsV1") or {}, touched)
            if left:
                kept.append({**entry, "fieldsV1": left})
    if changed:
        kept = _with_own(kept, served, manager, subresource, now, changed)
    if kept:
        meta["managedFields"] = sorted(_capped(kept), key=_order) if len(kept) > 1 else kept
    else:
        meta.pop("managedFields", None)


def _entries(meta: Mapping[str, Any], was: Mapping[str, Any]) -> list[Entry]:
    """What a client sends counts, as long as it says something; `[{}]` starts afresh."""
    given: list[Entry] = meta.get("managedFields") or was.get("managedFields") or []
    return given and [entry for entry in given if entry.get("manager") and entry.get("operation")]


def _with_own(
    entries: list[Entry], served: Served, manager: str, subresource: str, now: str, changed: FieldSet
) -> list[Entry]:
    own: Entry = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": served.kind.api_version,
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": changed,
    }
    if subresource:
        own["subresource"] = subresource
    if not entries:
        return [own]
    rest = []
    identity = _identity(own)
    for entry in entries:
        if _identity(entry) == identity:
            own["fieldsV1"] = union_of_roots(entry["fieldsV1"], changed)
        else:
            rest.append(entry)
    return [*rest, own]


def _identity(entry: Entry) -> tuple[str, ...]:
    part = entry.get
    return part("manager", ""), part("operation", ""), part("apiVersion", ""), part("subresource", "")


def _order(entry: Entry) -> tuple[str, ...]:
    part = entry.get
    when = part("operation", ""), part("time", "")
    return *when, part("manager", ""), part("apiVersion", ""), part("subresource", "")


def _capped(entries: list[Entry]) -> list[Entry]:
    """Of too many updaters the oldest are counted as one."""
    if len(entries) <= MOST_UPDATERS:
        return entries
    updaters = sorted((entry for entry in entries if entry["operation"] == "Update"), key=_order)
    surplus = len(updaters) - MOST_UPDATERS
    if surplus <= 0:
        return entries
    oldest = updaters[: surplus + 1]
    bucket = {**oldest[-1], "manager": ANCIENT, "fieldsV1": {}}
    bucket.pop("subresource", None)
    for entry in oldest:
        bucket["fieldsV1"] = union_of_roots(bucket["fieldsV1"], entry["fieldsV1"])
    return [bucket, *(entry for entry in entries if entry not in oldest)]


def _compared(served: Served, old: Object | None, obj: Object) -> tuple[FieldSet, FieldSet]:
    if served.custom:
        type_ = _custom_type(served)
        before: Mapping[str, Any] = old or {"metadata": {}}
    else:
        name = schemas.name_of_kind(served.stored)
        type_ = _built_in_type(name)
        before = old or _empty(name)
    after = _managed(obj)
    if old is None and served.strategy.has_status:
        after.pop("status", None)
    return compare(_managed(before) if old else before, after, type_)


@cache
def _built_in_type(name: str) -> FieldType:
    return FieldType(schemas.bare()[name], schemas.resolve)


def _custom_type(served: Served) -> FieldType:
    own = served.schema or {}
    meta = {"$ref": f"{schemas.REF}{schemas.META}ObjectMeta"}
    return FieldType({**own, "properties": {**(own.get("properties") or {}), "metadata": meta}}, schemas.resolve)


def _managed(obj: Mapping[str, Any]) -> dict[str, Any]:
    """An object without what nobody manages."""
    left = {**obj}
    left.pop("apiVersion", None)
    left.pop("kind", None)
    left["metadata"] = meta = {**(left.get("metadata") or {})}
    for name in _NOT_MANAGED:
        meta.pop(name, None)
    return left


@cache
def _empty(name: str) -> dict[str, Any]:
    """A new object of a kind as Go has it before anything is set: its structs are there, so nobody adds them."""
    empty: dict[str, Any] = {}
    schema = schemas.bare()[name]
    for field, value in (schema.get("properties") or {}).items():
        target = schemas.reference(value)
        if value.get("default") == {} and target and "properties" in schemas.bare()[target]:
            empty[field] = _empty(target)
        elif value.get("type") == "array" and field in schema.get("required", ()):
            empty[field] = []
    return empty
