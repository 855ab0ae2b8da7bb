"""Structural schemas: the checks that make pruning and defaulting possible (apiextensions' apiserver/schema)."""

from typing import Any

import re2

from headrace.objects.validation.errors import FieldErrors

INT_OR_STRING = "x-kubernetes-int-or-string"
PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
LIST_TYPE = "x-kubernetes-list-type"
LIST_KEYS = "x-kubernetes-list-map-keys"

Schema = dict[str, Any]

_LEVELS = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
RULES = "x-kubernetes-validations"
_NESTED_FORBIDDEN = ("type", "description", "default", "additionalProperties", "nullable", "title", RULES)
_UNSUPPORTED = ("$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id", "$schema")
_INT_OR_STRING_TYPES = [{"type": "integer"}, {"type": "string"}]


def check(schema: Schema, path: str, errors: FieldErrors, level: str = "root") -> None:
    """Find what keeps a schema from being structural."""
    kind = schema.get("type", "")
    items = schema.get("items")
    if kind == "array" and not (isinstance(items, dict) or (isinstance(items, list) and items)):
        errors.required(f"{path}.items", "must be specified")
    for name in schema.keys() & set(_UNSUPPORTED):
        errors.forbidden(f"{path}.{name}", f"{name} is not supported")
    if schema.get("uniqueItems"):
        errors.forbidden(
            f"{path}.uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        )
    if schema.get("additionalProperties") is False:
        errors.forbidden(f"{path}.additionalProperties", "additionalProperties cannot be set to false")
    if "properties" in schema and schema.get("additionalProperties"):
        errors.forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if level == "root" and schema.get("additionalProperties"):
        errors.forbidden(f"{path}.additionalProperties", "must not be used at the root")
    _type(schema, kind, path, errors, level)
    _extensions(schema, path, errors)
    _values(schema, path, errors)
    if schema.get(PRESERVE) is False:
        errors.invalid(f"{path}.{PRESERVE}", False, "must be true or undefined")
    for inner, where, of in _children(schema, path):
        check(inner, where, errors, of)
    if level == "root" or schema.get(EMBEDDED):
        _metadata(schema, path, errors)


def _children(schema: Schema, path: str) -> list[tuple[Schema, str, str]]:
    found = [(inner, f"{path}.properties[{name}]", "field") for name, inner in (schema.get("properties") or {}).items()]
    if isinstance(schema.get("items"), dict):
        found.append((schema["items"], f"{path}.items", "item"))
    if isinstance(schema.get("additionalProperties"), dict):
        found.append((schema["additionalProperties"], f"{path}.additionalProperties", "field"))
    return found


def _type(schema: Schema, kind: str, path: str, errors: FieldErrors, level: str) -> None:
    if schema.get(EMBEDDED) and kind != "object":
        words = "must be object if x-kubernetes-embedded-resource is true"
        if kind:
            errors.invalid(f"{path}.type", kind, words)
        else:
            errors.required(f"{path}.type", words)
    elif not kind and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        errors.required(f"{path}.type", _LEVELS[level])
    elif kind not in ("", "array", "boolean", "integer", "number", "object", "string"):
        errors.not_supported(f"{path}.type", kind, ("array", "boolean", "integer", "number", "object", "string"))
        if "default" in schema:
            errors.invalid(f"{path}.default", schema["default"], f"must be of type {kind}")
    if level == "root" and kind not in ("", "object"):
        errors.invalid(f"{path}.type", kind, "must be object at the root")


def _extensions(schema: Schema, path: str, errors: FieldErrors) -> None:
    if schema.get(INT_OR_STRING):
        for other in (PRESERVE, EMBEDDED):
            if schema.get(other):
                errors.invalid(f"{path}.{other}", True, "must be false if x-kubernetes-int-or-string is true")
    if schema.get(EMBEDDED) and not schema.get(PRESERVE) and not schema.get("properties"):
        errors.required(
            f"{path}.properties",
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        )
    list_type = schema.get(LIST_TYPE)
    if list_type is not None and list_type not in ("atomic", "set", "map"):
        errors.not_supported(f"{path}.{LIST_TYPE}", list_type, ("atomic", "map", "set"))
    if list_type is not None and schema.get("type") != "array":
        errors.invalid(f"{path}.type", schema.get("type", ""), "must be array if x-kubernetes-list-type is specified")
    if list_type == "map" and not schema.get(LIST_KEYS):
        errors.required(f"{path}.{LIST_KEYS}", "must not be empty if x-kubernetes-list-type is map")


def _values(schema: Schema, path: str, errors: FieldErrors) -> None:
    """Patterns compile; what stands under anyOf, allOf, oneOf and not only narrows values."""
    _pattern(schema, path, errors)
    for name in ("anyOf", "allOf", "oneOf"):
        for at, inner in enumerate(schema.get(name) or ()):
            if schema.get(INT_OR_STRING) and inner in _INT_OR_STRING_TYPES:
                continue
            if schema.get(INT_OR_STRING) and name == "allOf" and inner.get("anyOf") == _INT_OR_STRING_TYPES:
                continue
            _nested(inner, f"{path}.{name}[{at}]", errors)
    if isinstance(schema.get("not"), dict):
        _nested(schema["not"], f"{path}.not", errors)


def _nested(schema: Schema, path: str, errors: FieldErrors) -> None:
    for name in _NESTED_FORBIDDEN:
        if schema.get(name):
            errors.forbidden(f"{path}.{name}", "must be empty to be structural")
    _values(schema, path, errors)
    for name, inner in (schema.get("properties") or {}).items():
        _nested(inner, f"{path}.properties[{name}]", errors)
    if isinstance(schema.get("items"), dict):
        _nested(schema["items"], f"{path}.items", errors)


def _pattern(schema: Schema, path: str, errors: FieldErrors) -> None:
    if schema.get("pattern"):
        try:
            re2.compile(schema["pattern"])
        except re2.error as error:
            errors.invalid(
                f"{path}.pattern", schema["pattern"], f"must be a valid regular expression, but isn't: {error}"
            )


def _metadata(schema: Schema, path: str, errors: FieldErrors) -> None:
    properties = schema.get("properties") or {}
    for name in ("kind", "apiVersion"):
        if name in properties and properties[name].get("type") != "string":
            errors.invalid(f"{path}.properties[{name}].type", properties[name].get("type", ""), "must be string")
    meta = properties.get("metadata")
    if meta is None:
        return
    here = f"{path}.properties[metadata]"
    if meta.get("type") != "object":
        errors.invalid(f"{here}.type", meta.get("type", ""), "must be object")
    if (meta.get("properties") or {}).keys() - {"name", "generateName"}:
        errors.forbidden(
            here, "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )


def has_rules(schema: Schema) -> bool:
    """Whether there is a rule (`x-kubernetes-validations`) at any place where one may stand."""
    if schema.get(RULES):
        return True
    inner = (*(schema.get("properties") or {}).values(), schema.get("additionalProperties"), schema.get("items"))
    return any(has_rules(each) for each in inner if isinstance(each, dict))
