"""Validation of custom objects by their schema, in the words of Kubernetes (kube-openapi's validation)."""

from collections.abc import Callable, Sequence
from typing import Any

import jsonschema_rs

from headrace.api.sameness import as_key
from headrace.objects.crd.structural import INT_OR_STRING, LIST_KEYS, LIST_TYPE, Schema
from headrace.objects.formats import is_quantity
from headrace.objects.validation.errors import FieldErrors, shown

FORMATS: dict[str, Callable[[str], bool]] = {"quantity": is_quantity}
CONTAINERS = (dict, list)
_UNIQUE = ("set", "map")
Validate = Callable[[Any, FieldErrors], None]


def compiled(schema: Schema, root: str = "") -> Validate:
    """A function that adds all errors of a value, which stands at `root`."""
    validator = jsonschema_rs.Draft7Validator(
        standard(schema), formats=FORMATS, validate_formats=True, pattern_options=jsonschema_rs.RegexOptions()
    )
    lists = _has_lists(schema)

    def validate(value: Any, errors: FieldErrors) -> None:
        if not validator.is_valid(value):
            for error in validator.iter_errors(value):
                if errors.full:
                    break
                _tell(error, root, errors)
        if lists:
            _check_lists(value, schema, root, errors)

    return validate


def standard(schema: Any) -> Any:
    """The schema in plain JSON Schema: int-or-string, nullable and the boolean exclusive bounds spelled out."""
    if not isinstance(schema, dict):
        return schema
    plain: Schema = {}
    for name, value in schema.items():
        if name == "properties":
            plain[name] = {key: standard(each) for key, each in value.items()}
        elif name in ("items", "additionalProperties", "not"):
            plain[name] = standard(value)
        elif name in ("allOf", "anyOf", "oneOf"):
            plain[name] = [standard(each) for each in value]
        elif not name.startswith("x-") and name not in _DROPPED:
            plain[name] = value
    return _spelled_out(plain, schema)


def _spelled_out(plain: Schema, schema: Schema) -> Schema:
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if plain.pop(exclusive, False) and bound in plain:
            plain[exclusive] = plain.pop(bound)
    if schema.get(INT_OR_STRING):
        plain["type"] = ["integer", "string"]
        plain.pop("format", None)
    if schema.get("nullable"):
        kinds = plain.get("type")
        if kinds is not None:
            plain["type"] = [*([kinds] if isinstance(kinds, str) else kinds), "null"]
        if "enum" in plain:
            plain["enum"] = [*plain["enum"], None]
    return plain


_DROPPED = ("default", "nullable", "description", "title", "example", "externalDocs")


def _tell(error: Any, root: str, errors: FieldErrors) -> None:
    kind, bound, value = error.kind.name, error.kind.value, error.instance
    path = place(error.instance_path, root)
    said = f"{path or '<nil>'} in body"
    if kind == "required":
        errors.required(f"{path}.{bound}" if path else str(bound))
    elif kind == "type":
        wanted = bound if isinstance(bound, str) else ",".join(each for each in bound if each != "null")
        given = type_name(value)
        errors.type_invalid(path, given, f'{said} must be of type {wanted}: "{given}"')
    elif kind == "enum":
        errors.not_supported(path, value, [each if isinstance(each, str) else shown(each) for each in bound if each])
    elif kind == "maxLength":
        errors.too_long(path, bound)
    elif kind in ("maxItems", "maxProperties"):
        errors.too_many(path, len(value), bound)
    else:
        words = _WORDS.get(kind, "{said} does not satisfy " + kind)
        errors.invalid(path, value, words.format(said=said, bound=bound))


_WORDS = {
    "minimum": "{said} should be greater than or equal to {bound}",
    "maximum": "{said} should be less than or equal to {bound}",
    "exclusiveMinimum": "{said} should be greater than {bound}",
    "exclusiveMaximum": "{said} should be less than {bound}",
    "multipleOf": "{said} should be a multiple of {bound}",
    "minLength": "{said} should be at least {bound} chars long",
    "minItems": "{said} should have at least {bound} items",
    "minProperties": "{said} should have at least {bound} properties",
    "pattern": "{said} should match '{bound}'",
    "format": "{said} must be of type {bound}",
    "oneOf": "{said} must validate one and only one schema (oneOf)",
    "anyOf": "{said} must validate at least one schema (anyOf)",
    "not": "{said} must not validate the schema (not)",
}


def place(path: Sequence[str | int], root: str = "") -> str:
    text = root
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _has_lists(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    if schema.get(LIST_TYPE) in _UNIQUE:
        return True
    inner = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return any(_has_lists(each) for each in inner)


def _check_lists(value: Any, schema: Any, path: str, errors: FieldErrors) -> None:
    """Items of a set, and the keys of a map's items, are unique."""
    if not isinstance(schema, dict):
        return
    if isinstance(value, list):
        keys, unique, inner = schema.get(LIST_KEYS) or (), schema.get(LIST_TYPE) in _UNIQUE, schema.get("items")
        seen = set()
        for at, item in enumerate(value):
            if unique:
                key = {name: item.get(name) for name in keys} if keys and isinstance(item, dict) else item
                hashed = as_key(key)
                if hashed in seen:
                    errors.duplicate(f"{path}[{at}]", key)
                seen.add(hashed)
            if isinstance(item, CONTAINERS):
                _check_lists(item, inner, f"{path}[{at}]", errors)
    elif isinstance(value, dict):
        properties = schema.get("properties") or {}
        for name, item in value.items():
            if isinstance(item, CONTAINERS):
                inner = properties.get(name, schema.get("additionalProperties"))
                _check_lists(item, inner, f"{path}.{name}" if path else name, errors)
