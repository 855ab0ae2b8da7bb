"""Sets of field paths as FieldsV1 writes them, and what changed between two objects, field by field.

A set is nested dicts: `f:name`, `k:{"name":"x"}` and `v:"x"` lead down, an empty dict is a member, `.` marks a member
that has members below it. Source: sigs.k8s.io/structured-merge-diff (fieldpath, typed).
"""

from collections.abc import Callable, Mapping
from typing import Any

import orjson

FieldSet = dict[str, Any]
Schema = Mapping[str, Any]
Resolve = Callable[[Schema], Schema]

CONTAINERS = (dict, list)


class FieldType:
    """What a field's schema says of who owns its parts, made for each field when a value of it is first looked at.

    `resolve` follows a reference to another schema.
    """

    __slots__ = ("_additional", "_fields", "_items", "_list_type", "_map_keys", "_map_type", "_properties", "_resolve")

    def __init__(self, schema: Schema, resolve: Resolve) -> None:
        inner = resolve(schema)
        # What stands beside a reference goes before what it refers to.
        self._list_type = schema.get("x-kubernetes-list-type") or inner.get("x-kubernetes-list-type")
        self._map_type = schema.get("x-kubernetes-map-type") or inner.get("x-kubernetes-map-type")
        self._map_keys = schema.get("x-kubernetes-list-map-keys") or inner.get("x-kubernetes-list-map-keys") or ()
        self._properties: Schema = inner.get("properties") or {}
        self._additional = inner.get("additionalProperties")
        self._items: FieldType | Schema = inner.get("items") or {}
        self._resolve = resolve
        self._fields: dict[str, FieldType] = {}

    def field(self, name: str) -> "FieldType":
        """Of a member of an object; untyped where the schema knows none of this name."""
        key = name if name in self._properties else ""
        known = self._fields.get(key)
        if known is None:
            found = self._properties.get(name, self._additional)
            known = self._fields[key] = FieldType(found if isinstance(found, Mapping) else {}, self._resolve)
        return known

    @property
    def items(self) -> "FieldType":
        """Of the items of a list."""
        if not isinstance(self._items, FieldType):
            self._items = FieldType(self._items, self._resolve)
        return self._items

    def is_atomic(self, value: Any) -> bool:
        """Whether a value has one owner as a whole. Lists are, unless the schema says otherwise; maps are not."""
        if isinstance(value, list):
            return self._list_type not in ("map", "set")
        return self._map_type == "atomic" if isinstance(value, dict) else True

    def keyed(self, values: list[Any]) -> dict[str, Any]:
        """Items of a list by their path element."""
        if self._list_type == "set":
            return {f"v:{orjson.dumps(value).decode()}": value for value in values}
        found = {}
        for value in values:
            identity = {key: value[key] for key in self._map_keys if isinstance(value, dict) and key in value}
            found[f"k:{orjson.dumps(identity, option=orjson.OPT_SORT_KEYS).decode()}"] = value
        return found

    def whole(self, value: Any) -> FieldSet:
        """A value and all that is in it."""
        if not value or self.is_atomic(value):
            return {}
        found: FieldSet = {".": {}}
        if isinstance(value, dict):
            for name, item in value.items():
                # Most are scalars, for which nobody needs to know the schema.
                found[f"f:{name}"] = self.field(name).whole(item) if isinstance(item, CONTAINERS) else {}
        else:
            items = self.items
            for key, item in self.keyed(value).items():
                found[key] = items.whole(item)
        return found


def compare(old: Mapping[str, Any], new: Mapping[str, Any], type_: FieldType) -> tuple[FieldSet, FieldSet]:
    """Paths added or modified, and paths gone, on the way from one object to another."""
    changed: FieldSet = {}
    removed: FieldSet = {}
    _objects(old, new, type_, changed, removed)
    return changed, removed


def _value(key: str, old: Any, new: Any, type_: FieldType, changed: FieldSet, removed: FieldSet) -> None:
    """Compare two present values under one path."""
    below: tuple[FieldSet, FieldSet] = ({}, {})
    if type_.is_atomic(old) or type_.is_atomic(new):
        changed[key] = {}
        return
    if isinstance(old, dict) and isinstance(new, dict):
        _objects(old, new, type_, *below)
    elif isinstance(old, list) and isinstance(new, list):
        _lists(old, new, type_, *below)
    else:
        changed[key] = {}
        return
    for found, into in zip(below, (changed, removed), strict=True):
        if found:
            into[key] = found


def _objects(
    old: Mapping[str, Any], new: Mapping[str, Any], type_: FieldType, changed: FieldSet, removed: FieldSet
) -> None:
    for name, value in new.items():
        if name not in old:
            changed[f"f:{name}"] = type_.field(name).whole(value) if isinstance(value, CONTAINERS) else {}
        elif _differ(old[name], value):
            _value(f"f:{name}", old[name], value, type_.field(name), changed, removed)
    for name, value in old.items():
        if name not in new:
            removed[f"f:{name}"] = type_.field(name).whole(value)


def _lists(old: list[Any], new: list[Any], type_: FieldType, changed: FieldSet, removed: FieldSet) -> None:
    items = type_.items
    before, after = type_.keyed(old), type_.keyed(new)
    for key, value in after.items():
        if key not in before:
            changed[key] = items.whole(value)
        elif _differ(before[key], value):
            _value(key, before[key], value, items, changed, removed)
    for key, value in before.items():
        if key not in after:
            removed[key] = items.whole(value)


def _differ(one: Any, other: Any) -> bool:
    return type(one) is not type(other) or bool(one != other)


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    if not one or not other:
        # An empty dict is a member itself: beside members below it becomes a dot.
        return {**one, **other, ".": {}} if one or other else {}
    merged = dict(one)
    for key, below in other.items():
        merged[key] = union(merged[key], below) if key in merged else below
    return merged


def union_of_roots(one: FieldSet, other: FieldSet) -> FieldSet:
    """As `union`, for whole sets: an empty one has no members."""
    if not one or not other:
        return one or other
    return union(one, other)


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """The members of `one` that are not in `other`."""
    left: FieldSet = {}
    for key, below in one.items():
        if key not in other:
            left[key] = below
            continue
        rest = _below(below, other[key])
        if rest is not None:
            left[key] = rest
    return left


def _below(one: FieldSet, other: FieldSet) -> FieldSet | None:
    """The difference below one path; None if nothing is left there."""
    if not one:
        return None if not other or "." in other else {}
    rest = difference(one, other or {".": {}})
    if not rest:
        return None
    return {} if rest.keys() == {"."} else rest
