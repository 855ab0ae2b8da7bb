"""What a schema declares to the expressions in it: CEL types, and how large each value may be.

Source: k8s.io/apiserver/pkg/cel/common (SchemaDeclType) and escaping.go. What has no schema (preserved unknown fields)
is not declared, so that no expression can name it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.api.limits import BODY_BYTES
from headrace.cel import types
from headrace.cel.declarations import Function
from headrace.cel.environment import TYPE_NAMES, Environment, Sizes
from headrace.cel.macros import MACROS
from headrace.cel.types import Type
from headrace.objects.crd.structural import EMBEDDED, INT_OR_STRING, Schema

SELF, OLD_SELF = "self", "oldSelf"
NAME_CHARACTERS = 253
_DURATION, _DATE, _DATE_TIME = "duration", "date", "date-time"
# Type, the longest text, and the shortest as JSON, of strings with a format.
_FORMATS: dict[str, tuple[Type, int, int]] = {
    _DURATION: (types.DURATION, 32, 3),
    _DATE: (types.TIMESTAMP, 12, 12),
    _DATE_TIME: (types.TIMESTAMP, 32, 21),
}
_SCALARS: dict[str, tuple[Type, int]] = {
    "boolean": (types.BOOL, 4),
    "number": (types.DOUBLE, 1),
    "integer": (types.INT, 1),
}
_RESERVED = frozenset(
    """true false null in as break const continue else for function if import let loop package namespace return var void
    while""".split()  # noqa: SIM905 - words are read more easily than a list of quoted ones
)
_MACROS = {key: macro for key, macro in MACROS.items() if key != ("bind", 3, True)}
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


@dataclass(frozen=True, slots=True)
class Declared:
    """`largest` counts characters or entries; `smallest` is the least number of bytes of JSON."""

    type: Type
    largest: int = 0
    smallest: int = 1
    fields: Mapping[str, "Declared"] = field(default_factory=dict)
    element: "Declared | None" = None


def declared(schema: Schema, name: str, *, root: bool = False) -> Declared | None:
    """What the schema declares, or None. `name` is what its object types are called by; `root` that of a resource."""
    if schema.get(INT_OR_STRING):
        return Declared(types.DYN, _characters(schema), 1)
    if root:
        schema = with_object_meta(schema)
    kind = schema.get("type")
    if kind == "array":
        return _list(schema, name)
    if kind == "object":
        return _map(schema, name) if isinstance(schema.get("additionalProperties"), dict) else _object(schema, name)
    if kind == "string":
        return _string(schema)
    if kind in _SCALARS:
        scalar, smallest = _SCALARS[kind]
        return Declared(scalar, 0, smallest)
    return None


def with_object_meta(schema: Schema) -> Schema:
    """apiVersion, kind and the names in metadata may always be named, and nothing else of metadata."""
    given = ((schema.get("properties") or {}).get("metadata") or {}).get("properties") or {}
    names = {
        "name": {"type": "string", "maxLength": _capped(given.get("name"), NAME_CHARACTERS)},
        "generateName": {"type": "string", "maxLength": _capped(given.get("generateName"), NAME_CHARACTERS - 1)},
    }
    properties = {
        **(schema.get("properties") or {}),
        "kind": {"type": "string"},
        "apiVersion": {"type": "string"},
        "metadata": {"type": "object", "properties": names},
    }
    return {**schema, "properties": properties}


def environment(root: Declared, functions: Mapping[str, Function], *, optional_old: bool) -> Environment:
    """The variables `self` and `oldSelf`, the latter an optional where a rule asks for that."""
    old = types.optional_of(root.type) if optional_old else root.type
    # The reference takes any global name, that of a type too, to be as large as `self`.
    sizes = dict.fromkeys((SELF, OLD_SELF, *TYPE_NAMES), _sizes(root))
    return Environment({SELF: root.type, OLD_SELF: old}, functions, dict(_objects(root)), sizes, macros=_MACROS)


def escaped(name: str) -> str | None:
    """The identifier by which an expression names a property, or None for one that it cannot name."""
    if not name or name[0].isdigit():
        return None
    if name in _RESERVED:
        return f"__{name}__"
    if not re.fullmatch(r"[A-Za-z0-9_./-]+", name):
        return None
    return re.sub(r"__|[-./]", lambda found: _ESCAPES[found[0]], name)


def _capped(schema: Any, limit: int) -> int:
    given = (schema or {}).get("maxLength")
    return limit if given is None else min(limit, given)


def _not_negative(number: int) -> int:
    return max(number, 0)


def _characters(schema: Schema) -> int:
    """The longest text; a character may take four bytes."""
    longest = schema.get("maxLength")
    return BODY_BYTES - 2 if longest is None else _not_negative(longest) * 4


def _string(schema: Schema) -> Declared:
    kind = schema.get("format", "")
    if kind in _FORMATS:
        return Declared(*_FORMATS[kind])
    longest = schema.get("maxLength")
    if kind == "byte":
        return Declared(types.BYTES, BODY_BYTES - 2 if longest is None else _not_negative(longest), 2)
    words = [each for each in schema.get("enum") or () if isinstance(each, str)]
    if longest is None and schema.get("enum"):
        return Declared(types.STRING, max((len(word.encode()) for word in words), default=0), 2)
    return Declared(types.STRING, _characters(schema), 2)


def _list(schema: Schema, name: str) -> Declared | None:
    items = schema.get("items")
    if not isinstance(items, dict):
        return None
    element = declared(items, f"{name}.@idx", root=bool(items.get(EMBEDDED)))
    if element is None:
        return None
    most = schema.get("maxItems")
    largest = (BODY_BYTES - 2) // (element.smallest + 1) if most is None else _not_negative(most)
    return Declared(types.list_of(element.type), largest, 2, element=element)


def _map(schema: Schema, name: str) -> Declared | None:
    values = schema["additionalProperties"]
    element = declared(values, f"{name}.@elem", root=bool(values.get(EMBEDDED)))
    if element is None:
        return None
    most = schema.get("maxProperties")
    largest = (BODY_BYTES - 2) // (element.smallest + 6) if most is None else _not_negative(most)
    return Declared(types.map_of(types.STRING, element.type), largest, 2, element=element)


def _object(schema: Schema, name: str) -> Declared:
    fields, smallest, required = {}, 2, set(schema.get("required") or ())
    for given, inner in (schema.get("properties") or {}).items():
        identifier = escaped(given)
        found = declared(inner, f"{name}.{identifier or given}", root=bool(inner.get(EMBEDDED)))
        if found is None:
            continue
        if identifier is not None:
            fields[identifier] = found
        if given in required and "default" not in inner:
            smallest += len(given.encode()) + found.smallest + 4
    return Declared(Type("struct", name), 0, smallest, fields)


def _objects(root: Declared) -> Iterator[tuple[str, Mapping[str, Type]]]:
    if root.type.kind == "struct":
        yield root.type.name, {name: each.type for name, each in root.fields.items()}
    for inner in (*root.fields.values(), *([root.element] if root.element else ())):
        yield from _objects(inner)


def _sizes(root: Declared) -> Sizes:
    inner = None if root.element is None else _sizes(root.element)
    keys = Sizes(0) if root.type.kind == "map" else None
    return Sizes(root.largest, {name: _sizes(each) for name, each in root.fields.items()}, keys, inner)
