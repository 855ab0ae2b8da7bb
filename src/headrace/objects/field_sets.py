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

UNTYPED: Schema = {}
CONTAINERS = (dict, list)


class Comparison:
    """`changed`: paths added or modified, `removed`: paths gone, on the way from one object to another."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    def of(self, old: Any, new: Any, schema: Schema) -> tuple[FieldSet, FieldSet]:
        changed: FieldSet = {}
        removed: FieldSet = {}
        self._objects(old, new, self._resolve(schema), changed, removed)
        return changed, removed

    def _value(self, key: str, old: Any, new: Any, schema: Schema, changed: FieldSet, removed: FieldSet) -> None:
        """Compare two present values under one path."""
        if old == new and type(old) is type(new):
            return
        if not isinstance(old, CONTAINERS) and not isinstance(new, CONTAINERS):
            changed[key] = {}
            return
        inner = self._resolve(schema)
        below: tuple[FieldSet, FieldSet] = ({}, {})
        if is_atomic(schema, inner, old) or is_atomic(schema, inner, new):
            changed[key] = {}
            return
        if isinstance(old, dict) and isinstance(new, dict):
            self._objects(old, new, inner, *below)
        elif isinstance(old, list) and isinstance(new, list):
            self._lists(old, new, schema, inner, *below)
        else:
            changed[key] = {}
            return
        for found, into in zip(below, (changed, removed), strict=True):
            if found:
                into[key] = found

    def _objects(
        self, old: Mapping[str, Any], new: Mapping[str, Any], schema: Schema, changed: FieldSet, removed: FieldSet
    ) -> None:
        for name, value in new.items():
            if name in old:
                self._value(f"f:{name}", old[name], value, field_schema(schema, name), changed, removed)
            else:
                changed[f"f:{name}"] = self._field(value, schema, name)
        for name, value in old.items():
            if name not in new:
                removed[f"f:{name}"] = self._field(value, schema, name)

    def _lists(
        self, old: list[Any], new: list[Any], field: Schema, schema: Schema, changed: FieldSet, removed: FieldSet
    ) -> None:
        items = schema.get("items", UNTYPED)
        before, after = (keyed(values, field, schema) for values in (old, new))
        for key, value in after.items():
            if key in before:
                self._value(key, before[key], value, items, changed, removed)
            else:
                changed[key] = self.whole(value, items)
        for key, value in before.items():
            if key not in after:
                removed[key] = self.whole(value, items)

    def whole(self, value: Any, schema: Schema) -> FieldSet:
        """A value and all that is in it."""
        inner = self._resolve(schema)
        if not value or is_atomic(schema, inner, value):
            return {}
        if isinstance(value, dict):
            below = {f"f:{name}": self._field(item, inner, name) for name, item in value.items()}
        else:
            items = inner.get("items", UNTYPED)
            below = {key: self.whole(item, items) for key, item in keyed(value, schema, inner).items()}
        return {".": {}, **below}

    def _field(self, value: Any, schema: Schema, name: str) -> FieldSet:
        """A field and all that is in it. Most are scalars, for which nobody needs to know the schema."""
        return self.whole(value, field_schema(schema, name)) if isinstance(value, CONTAINERS) else {}


def field_schema(schema: Schema, name: str) -> Schema:
    found = (schema.get("properties") or UNTYPED).get(name)
    if found is None:
        found = schema.get("additionalProperties")
    return found if isinstance(found, Mapping) else UNTYPED


def is_atomic(field: Schema, schema: Schema, value: Any) -> bool:
    """Whether a value has one owner as a whole. Lists are, unless the schema says otherwise; maps are not."""
    if isinstance(value, list):
        kind = field.get("x-kubernetes-list-type") or schema.get("x-kubernetes-list-type")
        return kind not in ("map", "set")
    if isinstance(value, dict):
        kind = field.get("x-kubernetes-map-type") or schema.get("x-kubernetes-map-type")
        return kind == "atomic"
    return True


def keyed(values: list[Any], field: Schema, schema: Schema) -> dict[str, Any]:
    """Items of a list by their path element."""
    kind = field.get("x-kubernetes-list-type") or schema.get("x-kubernetes-list-type")
    if kind == "set":
        return {f"v:{orjson.dumps(value).decode()}": value for value in values}
    keys = field.get("x-kubernetes-list-map-keys") or schema.get("x-kubernetes-list-map-keys") or ()
    found = {}
    for value in values:
        identity = {key: value[key] for key in keys if isinstance(value, dict) and key in value}
        found[f"k:{orjson.dumps(identity, option=orjson.OPT_SORT_KEYS).decode()}"] = value
    return found


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
