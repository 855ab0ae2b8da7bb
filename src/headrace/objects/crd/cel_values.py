"""The values that the expressions of a schema see: an object read by its schema (apiserver's UnstructuredToVal).

Whoever has read a whole has read its parts: `field_of` and `element_of` find them.
"""

import base64
import binascii
import re
from functools import lru_cache
from typing import Any

import orjson

from headrace.api.resting import Resting, Turn
from headrace.cel.errors import EvaluationError
from headrace.cel.libraries.times import read_duration, read_timestamp
from headrace.cel.values import MapList, SetList, StringMap, Timestamp, Value
from headrace.objects.crd.declared import escaped, with_object_meta
from headrace.objects.crd.structural import EMBEDDED, INT_OR_STRING, LIST_KEYS, LIST_TYPE, PRESERVE, Schema

# Before a field that no expression can name: it counts where whole objects are compared.
_UNKNOWN = "\0"


UNREAD = object()
"""Stands for a value that nobody has read yet."""


def value_of(data: Any, schema: Schema, turn: Turn, *, root: bool = False) -> Resting[Value]:
    """The value, or as a value the error that an expression meets which asks for it."""
    if data is None or _is_scalar(schema):
        return _scalar(data, schema)
    if schema["type"] == "array":
        return (yield from _list(data, schema, turn))
    return (yield from _object(data, with_object_meta(schema) if root or schema.get(EMBEDDED) else schema, turn))


def field_of(whole: Value, name: str, schema: Schema, *, root: bool) -> Value:
    """The value of a field or entry of an object that was read by this schema, or UNREAD."""
    if type(whole) is not StringMap:
        return UNREAD
    properties = schema.get("properties")
    if not properties:
        return whole.get(name, UNREAD)
    of_every_object = name in _OF_EVERY_OBJECT and (root or schema.get(EMBEDDED))
    return UNREAD if of_every_object or name not in properties else whole.get(_identifier(name), UNREAD)


def element_of(whole: Value, at: int) -> Value:
    """The same for an element of a list."""
    return whole[at] if isinstance(whole, list) else UNREAD


_OF_EVERY_OBJECT = ("apiVersion", "kind", "metadata")  # read by a schema of their own


@lru_cache(maxsize=4096)
def _identifier(name: str) -> str:
    return escaped(name) or _UNKNOWN + name


def _is_scalar(schema: Schema) -> bool:
    return schema.get("type") not in ("object", "array") or bool(schema.get(INT_OR_STRING))


def _scalar(data: Any, schema: Schema) -> Value:
    if data is None:
        return (
            None if schema.get("nullable") else EvaluationError("invalid data, got null for schema with nullable=false")
        )
    if schema.get(INT_OR_STRING):
        return (
            data
            if _is_int(data) or isinstance(data, str)
            else _wrong("XIntOrString value to be either a string or integer")
        )
    match schema.get("type"):
        case "string":
            return _text(data, schema.get("format", "")) if isinstance(data, str) else _wrong("string")
        case "number":
            return float(data) if _is_int(data) or isinstance(data, float) else _wrong("float")
        case "integer":
            return data if _is_int(data) else _wrong("int")
        case "boolean":
            return data if isinstance(data, bool) else _wrong("bool")
    return _unknown(data) if schema.get(PRESERVE) else EvaluationError(f"invalid type, got {schema.get('type', '')}")


def _is_int(data: Any) -> bool:
    return isinstance(data, int) and not isinstance(data, bool)


def _wrong(wanted: str) -> EvaluationError:
    return EvaluationError(f"invalid data, expected {wanted}")


def _unknown(data: Any) -> str:
    """What has no schema can only be compared."""
    return _UNKNOWN + orjson.dumps(data, option=orjson.OPT_SORT_KEYS).decode()


def _object(data: Any, schema: Schema, turn: Turn) -> Resting[Value]:
    if not isinstance(data, dict):
        return _wrong("a map for the provided schema with type=object")
    others = schema.get("additionalProperties")
    properties = schema.get("properties") or {}
    entries = isinstance(others, dict) and not properties
    found = StringMap()
    for name, each in data.items():
        if turn.is_over():
            yield
        inner = others if entries else properties.get(name)
        if inner is None:
            found[_UNKNOWN + name] = _unknown(each)
        elif entries or each is not None:  # null in a field is the same as no field
            key = name if entries else _identifier(name)
            found[key] = _scalar(each, inner) if _is_scalar(inner) else (yield from value_of(each, inner, turn))
    return found


def _list(data: Any, schema: Schema, turn: Turn) -> Resting[Value]:
    if not isinstance(data, list):
        return _wrong("an array for the provided schema with type=array")
    items = schema.get("items")
    if not isinstance(items, dict):
        return EvaluationError("invalid array type, expected Items with a non-empty Schema")
    elements: list[Value] = []
    scalars = _is_scalar(items)
    for each in data:
        if turn.is_over():
            yield
        elements.append(_scalar(each, items) if scalars else (yield from value_of(each, items, turn)))
    if schema.get(LIST_TYPE) == "set":
        return SetList(elements)
    if schema.get(LIST_TYPE) == "map":
        return MapList(elements, tuple(map(_identifier, schema.get(LIST_KEYS) or ())))
    return elements


def _text(data: str, kind: str) -> Value:
    if kind == "duration":
        found = read_duration(data)
        return EvaluationError(f"Invalid duration {data}") if found is None else found
    if kind == "date":
        day = read_timestamp(f"{data}T00:00:00Z") if re.fullmatch(r"\d{4}-\d\d-\d\d", data) else None
        return day if isinstance(day, Timestamp) else EvaluationError(f"Invalid date formatted string {data}")
    if kind == "date-time":
        time = read_timestamp(data)
        return time if isinstance(time, Timestamp) else EvaluationError(f"Invalid date-time formatted string {data}")
    if kind == "byte":
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error:
            return EvaluationError(f"Invalid byte formatted string {data}")
    return data
