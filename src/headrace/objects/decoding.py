"""Typed decoding as Go does it: what a built-in kind's schema does not know is found, dropped or refused.

An object that fits its schema passes untouched. Otherwise it is walked: nulls and empty optional lists and maps go,
quantities and times become canonical, wrong types are refused in the words of Go's JSON reader. Where these name
neither field nor value (a text that is no quantity, time or base64), both stand before them.
"""

from dataclasses import dataclass, field
from typing import Any

from headrace.objects import formats
from headrace.objects.schemas import (
    JSON_SCHEMA,
    JSON_SCHEMA_OR,
    META,
    POINTER,
    ZEROS,
    always_written,
    bare,
    fits,
    is_resource_list,
    keeps_default,
    reference,
    resolve,
)

UNKNOWN_FIELDS_SHOWN = 100
SHOWN_CHARACTERS = 100

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_TEXTS = {META + "Time": formats.time, META + "MicroTime": formats.micro_time}
_FREE = {META + "FieldsV1", "io.k8s.apimachinery.pkg.runtime.RawExtension"}


class UndecodableError(ValueError):
    """A field has the wrong type; the message is that of Go's JSON reader."""


@dataclass(slots=True)
class Decoded:
    """The object as typed, and the paths of fields that its kind does not have."""

    object: dict[str, Any]
    unknown: list[str] = field(default_factory=list)


def decode(name: str, obj: dict[str, Any], place: str = "") -> Decoded:
    """Read `obj`, which stands at `place` in its document, as the schema `name`. Raises UndecodableError.

    The object given is not changed.
    """
    if fits(name)(obj):
        return Decoded(obj)
    unknown: list[str] = []
    value = _Reader(unknown).named(name, obj, place, place, "")
    return Decoded(value, unknown)


def empty(part: str, name: str) -> Any:
    """A struct of a whole object (`spec`, `status`) as Go writes it when nothing was said."""
    return _Reader([]).value(bare()[name]["properties"][part], {}, part, part, "")


@dataclass(slots=True)
class _Reader:
    """`place` is the path with indices (for unknown fields), `fields` the path without (as Go reports types)."""

    unknown: list[str]

    def named(self, name: str, value: Any, place: str, fields: str, owner: str) -> Any:
        if name == _QUANTITY:
            return _quantity(value, place)
        if name == _INT_OR_STRING:
            if isinstance(value, str):
                return value
            return _integer({"format": "int32"}, value, owner, fields)
        if name in _TEXTS:
            if not isinstance(value, str):
                raise UndecodableError(f"{place}: json: cannot unmarshal {_kind(value)} into Go value of type string")
            return _text(_TEXTS[name], value, place)
        if name in _FREE:
            return value
        if name.startswith(JSON_SCHEMA_OR) and isinstance(value, dict):
            # Go reads these with a reader of its own, which tells nobody of what it does not know.
            return _Reader([]).named(JSON_SCHEMA, value, place, fields, owner)
        return self.value(bare()[name], value, place, fields, owner, name)

    def value(self, schema: Any, value: Any, place: str, fields: str, owner: str, name: str = "") -> Any:
        target = reference(schema)
        if target:
            return self.named(target, value, place, fields, owner)
        match schema.get("type"):
            case "object" if "properties" in schema or (name and "additionalProperties" not in schema):
                return self.struct(schema, value, place, fields, owner, name)
            case "object":
                return self.map(schema, value, place, fields, owner)
            case "array":
                if not isinstance(value, list):
                    raise _mismatch(value, owner, fields, f"[]{_go_type(schema['items'])}")
                return [
                    self.value(schema["items"], _given(item, schema["items"]), f"{place}[{at}]", fields, owner)
                    for at, item in enumerate(value)
                ]
        return _scalar(schema, value, place, owner, fields)

    def map(self, schema: Any, value: Any, place: str, fields: str, owner: str) -> Any:
        inner = schema.get("additionalProperties")
        if not isinstance(value, dict):
            raise _mismatch(value, owner, fields, f"map[string]{_go_type(inner)}")
        if not isinstance(inner, dict):
            return value
        # Null in a map is Go's zero value: the empty text, or a struct of which nothing was said.
        return {
            key: "" if given is None else self.value(inner, given, f"{place}.{key}", fields, owner)
            for key, item in value.items()
            if (given := _of_map(item, inner)) is not None or inner.get("type") == "string"
        }

    def struct(self, schema: Any, value: Any, place: str, fields: str, owner: str, name: str) -> Any:
        if not isinstance(value, dict):
            raise _mismatch(value, owner, fields, _go_name(name))
        required = schema.get("required", ())
        short = name.rpartition(".")[2]
        result = {}
        for key, item in value.items():
            at = f"{place}.{key}" if place else key
            known = schema.get("properties", {}).get(key)
            if known is None:
                if len(self.unknown) < UNKNOWN_FIELDS_SHOWN:
                    self.unknown.append(at)
                continue
            if item is None:
                continue
            read = self.value(known, item, at, f"{fields}.{key}" if fields else key, short)
            if is_resource_list(name, known):
                read = {resource: formats.milli_quantity(text) for resource, text in read.items()}
            if read or key in required or keeps_default(name, known) or _keeps_zero(known):
                result[key] = read
        for key in always_written(name):
            if key not in result:
                known = schema["properties"][key]
                result[key] = self.value(known, known.get("default", "0"), place, fields, short)
        return result


def _keeps_zero(schema: Any) -> bool:
    """Whether Go writes the zero of an optional field: it does for structs and pointers."""
    return not (schema.get("type") in ("array", *ZEROS) or "additionalProperties" in schema) or bool(
        schema.get(POINTER)
    )


def _of_map(item: Any, schema: Any) -> Any:
    if item is None and reference(schema) == _QUANTITY:
        return "0"
    return {} if item is None and "properties" in resolve(schema) else item


def _given(item: Any, schema: Any) -> Any:
    """A null in a list is Go's zero of its items."""
    return ZEROS.get(resolve(schema).get("type", ""), {}) if item is None else item


def _scalar(schema: Any, value: Any, place: str, owner: str, fields: str) -> Any:
    match schema.get("type"):
        case "integer":
            return _integer(schema, value, owner, fields)
        case "boolean" if not isinstance(value, bool):
            raise _mismatch(value, owner, fields, "bool")
        case "number" if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _mismatch(value, owner, fields, "float64")
        case "string" if not isinstance(value, str):
            raise _mismatch(value, owner, fields, "string")
        case "string" if schema.get("format") == "byte":
            return _bytes(value, place)
    return value


def _integer(schema: Any, value: Any, owner: str, fields: str) -> int:
    go_type = schema.get("format", "int64")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _mismatch(value, owner, fields, go_type)
    limit = 2 ** (31 if go_type == "int32" else 63)
    if value != int(value) or not -limit <= value < limit:
        raise UndecodableError(
            f"json: cannot unmarshal number {value} into Go struct field {owner}.{fields} of type {go_type}"
        )
    return int(value)


def _quantity(value: Any, place: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        kind = _kind(value)
        raise UndecodableError(f"{place}: json: cannot unmarshal {kind} into Go value of type resource.Quantity")
    text = value if isinstance(value, str) else repr(value)
    return _text(formats.quantity, text, place, "must be such as 500m or 1Gi: ")


def _text(reader: Any, value: str, place: str, right: str = "") -> str:
    try:
        read: str = reader(value)
    except ValueError as error:
        shown = value if len(value) <= SHOWN_CHARACTERS else f"{value[:SHOWN_CHARACTERS]}…"
        raise UndecodableError(f'{place}: "{shown}": {right}{error}') from None
    return read


def _bytes(value: str, place: str) -> str:
    """Without the value, which may be a secret."""
    try:
        return formats.go_base64(value)
    except ValueError as error:
        raise UndecodableError(f"{place}: {error}") from None


def _mismatch(value: Any, owner: str, fields: str, go_type: str) -> UndecodableError:
    target = f"struct field {owner}.{fields}" if owner else "value"
    return UndecodableError(f"json: cannot unmarshal {_kind(value)} into Go {target} of type {go_type}")


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _go_type(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "interface {}"
    name = reference(schema)
    if name:
        return _go_name(name)
    match schema.get("type"):
        case "array":
            return f"[]{_go_type(schema['items'])}"
        case "object":
            return f"map[string]{_go_type(schema.get('additionalProperties'))}"
        case "integer":
            return str(schema.get("format", "int64"))
        case "boolean":
            return "bool"
        case "number":
            return "float64"
    return "string"


def _go_name(name: str) -> str:
    """`io.k8s.api.core.v1.Container` is v1.Container in Go."""
    package, _, short = name.rpartition(".")
    return f"{package.rpartition('.')[2]}.{short}"
