"""Defaults in a definition's schema: each must itself be valid, and name no field that the schema does not know."""

import copy
from typing import Any

from headrace.objects.crd import pruning, values
from headrace.objects.crd.structural import Schema
from headrace.objects.validation.errors import FieldErrors


def check(schema: Schema, path: str, errors: FieldErrors) -> None:
    for name, inner in (schema.get("properties") or {}).items():
        here = f"{path}.properties[{name}]"
        if "default" in inner:
            _default(inner, f"{here}.default", errors)
        check(inner, here, errors)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            check(schema[name], f"{path}.{name}", errors)


def _default(schema: Schema, path: str, errors: FieldErrors) -> None:
    value: Any = copy.deepcopy(schema["default"])
    if pruning.unknown_fields(value, schema):
        errors.invalid(path, schema["default"], "must not have unknown fields")
        return
    values.compiled(schema, path)(value, errors)
