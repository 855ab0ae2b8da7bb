"""Pruning and defaulting by a structural schema (apiextensions' schema/pruning and schema/defaulting)."""

import copy
from typing import Any

from headrace.objects.crd.structural import EMBEDDED, PRESERVE, Schema

META = ("apiVersion", "kind", "metadata")
CONTAINERS = (dict, list)


def prune(obj: dict[str, Any], schema: Schema) -> list[str]:
    """Remove the fields that the schema does not know; their paths, sorted. `obj` is a whole object."""
    unknown: list[str] = []
    _prune(obj, {**schema, EMBEDDED: True}, "", unknown)
    return sorted(unknown)


def unknown_fields(value: Any, schema: Schema) -> list[str]:
    """The same for a value inside an object: what pruning would take from it."""
    unknown: list[str] = []
    _prune(value, schema, "", unknown)
    return unknown


def _prune(value: Any, schema: Schema, path: str, unknown: list[str]) -> None:
    if isinstance(value, list):
        inner = schema.get("items")
        for at, item in enumerate(value):
            if isinstance(item, CONTAINERS):
                _prune(item, inner if isinstance(inner, dict) else {}, f"{path}[{at}]", unknown)
        return
    if not isinstance(value, dict):
        return
    properties = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    for name, item in list(value.items()):
        if schema.get(EMBEDDED) and name in META:
            continue
        known = properties.get(name, others if isinstance(others, dict) else None)
        if known is not None:
            if isinstance(item, CONTAINERS):
                _prune(item, known, f"{path}.{name}" if path else name, unknown)
        elif not schema.get(PRESERVE) and others is not True:
            unknown.append(f"{path}.{name}" if path else name)
            del value[name]


def default(value: Any, schema: Schema) -> None:
    """Fill in defaults; a null where none may be counts as left out."""
    if isinstance(value, list):
        inner = schema.get("items")
        if isinstance(inner, dict):
            for item in value:
                if isinstance(item, CONTAINERS):
                    default(item, inner)
        return
    if not isinstance(value, dict):
        return
    properties = schema.get("properties") or {}
    _fill_in(value, properties)
    others = schema.get("additionalProperties")
    for name, item in value.items():
        if isinstance(item, CONTAINERS):
            inner = properties.get(name, others if isinstance(others, dict) else None)
            if inner is not None:
                default(item, inner)


def _fill_in(value: dict[str, Any], properties: dict[str, Schema]) -> None:
    for name, field in properties.items():
        missing = name not in value or (value[name] is None and not field.get("nullable"))
        if missing and "default" in field:
            value[name] = copy.deepcopy(field["default"])
        elif missing:
            value.pop(name, None)
