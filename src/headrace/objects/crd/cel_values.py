"""The values that the expressions of a schema see: an object read by its schema (apiserver's UnstructuredToVal)."""

import base64
import binascii
import json
import re
from typing import Any

from headrace.cel.errors import EvaluationError
from headrace.cel.libraries.times import read_duration, read_timestamp
from headrace.cel.values import MapList, SetList, StringMap, Timestamp, Value
from headrace.objects.crd.declared import escaped, with_object_meta
from headrace.objects.crd.structural import EMBEDDED, INT_OR_STRING, LIST_KEYS, LIST_TYPE, PRESERVE, Schema

# Before a field that no expression can name: it counts where whole objects are compared.
_UNKNOWN = "\0"


def value_of(data: Any, schema: Schema, *, root: bool = False) -> Value:
    """The value, or as a value the error that an expression meets which asks for it."""
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
        case "object":
            return _object(data, with_object_meta(schema) if root or schema.get(EMBEDDED) else schema)
        case "array":
            return _list(data, schema)
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
    return _UNKNOWN + json.dumps(data, sort_keys=True)


def _object(data: Any, schema: Schema) -> Value:
    if not isinstance(data, dict):
        return _wrong("a map for the provided schema with type=object")
    others = schema.get("additionalProperties")
    if isinstance(others, dict) and not schema.get("properties"):
        return StringMap({key: value_of(each, others) for key, each in data.items()})
    properties = schema.get("properties") or {}
    found = StringMap()
    for name, each in data.items():
        if name not in properties:
            found[_UNKNOWN + name] = _unknown(each)
        elif each is not None:  # null in a field is the same as no field
            found[escaped(name) or _UNKNOWN + name] = value_of(each, properties[name])
    return found


def _list(data: Any, schema: Schema) -> Value:
    if not isinstance(data, list):
        return _wrong("an array for the provided schema with type=array")
    items = schema.get("items")
    if not isinstance(items, dict):
        return EvaluationError("invalid array type, expected Items with a non-empty Schema")
    elements = [value_of(each, items) for each in data]
    if schema.get(LIST_TYPE) == "set":
        return SetList(elements)
    if schema.get(LIST_TYPE) == "map":
        return MapList(elements, tuple(escaped(name) or _UNKNOWN + name for name in schema.get(LIST_KEYS) or ()))
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
