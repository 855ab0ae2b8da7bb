"""Kubernetes' own OpenAPI schemas of the built-in kinds, read once from the package, compiled when first used."""

import gzip
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import jsonschema_rs
import orjson

from headrace.api.kinds import Kind
from headrace.objects.formats import FORMATS

REF = "#/components/schemas/"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
CORE = "io.k8s.api.core.v1."
POINTER = "x-go-pointer"
"""Marks fields that are pointers in Go: they keep a zero that was said, where others lose it."""
POD_STATUS = "io.k8s.api.core.v1.PodStatus"
ALWAYS = (META + "DeleteOptions", META + "Status", META + "ObjectMeta", META + "ListMeta")
SUBRESOURCE_BODIES = {
    "binding": "io.k8s.api.core.v1.Binding",
    "eviction": "io.k8s.api.policy.v1.Eviction",
    "scale": "io.k8s.api.autoscaling.v1.Scale",
}

_NAMELESS = ("io.k8s.api.core.v1.LocalObjectReference",)
"""Structs whose default is the empty text, which Go then leaves out again."""

QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
JSON_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
JSON_SCHEMA_OR = JSON_SCHEMA + "Or"

Schema = dict[str, Any]

ZEROS: dict[str, Any] = {"string": "", "integer": 0, "boolean": False, "number": 0}
"""What Go leaves out of optional fields that are no pointers."""

_MILLI: Schema = {"type": "string", "format": "milli-quantity"}
_LEAVES: dict[str, Schema] = {
    QUANTITY: {"type": "string", "format": "quantity"},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "type": ["integer", "string"],
        "minimum": -(2**31),
        "maximum": 2**31 - 1,
    },
    META + "Time": {"type": "string", "format": "time"},
    META + "MicroTime": {"type": "string", "format": "micro-time"},
    META + "FieldsV1": {"type": "object"},
    **{JSON_SCHEMA_OR + other: {"not": {"type": "object"}} for other in ("Array", "Bool")},
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object"},
}
"""Schemas that are stricter here than in the document: what does not match takes the slow way through `decoding`."""


@cache
def _read(file: str) -> dict[str, Any]:
    packed = files("headrace.objects").joinpath("openapi", f"{file}.json.gz").read_bytes()
    read: dict[str, Any] = orjson.loads(gzip.decompress(packed))
    return read


@cache
def bare() -> dict[str, Schema]:
    """All schemas by name, without descriptions."""
    return _read("schemas")


@cache
def parts_of(name: str) -> tuple[str, ...]:
    """The structs of a whole object (`spec`, `status`): Go writes them even when they are empty."""
    fields = bare()[name].get("properties", {})
    return tuple(
        field
        for field, value in fields.items()
        if field != "metadata" and value.get("default") == {} and "properties" in resolve(value)
    )


@cache
def always_written(name: str) -> tuple[str, ...]:
    """The fields of a struct that Go writes even when they were left out: those with a default, quantities, structs.

    Whole objects are left out, so that the test of `fits` stays quick for what clients send: see `parts_of`.
    """
    schema = bare().get(name, {})
    if "x-kubernetes-group-version-kind" in schema:
        return ()
    return tuple(
        field
        for field, value in schema.get("properties", {}).items()
        if (keeps_default(name, value) and (value["default"] != {} or "properties" in resolve(value)))
        or (reference(value) == QUANTITY and not value.get(POINTER))
    )


def keeps_default(name: str, field: Schema) -> bool:
    """Whether a field of the struct `name` is written with its default."""
    return "default" in field and name not in _NAMELESS


def is_resource_list(name: str, field: Schema) -> bool:
    """Whether a field of the struct `name` is a ResourceList, whose quantities are rounded up to thousandths.

    Source: SetDefaults_ResourceList of the core group; the maps of other groups keep what they are given.
    """
    inner = field.get("additionalProperties")
    return name.startswith(CORE) and isinstance(inner, dict) and reference(inner) == QUANTITY


@cache
def names_by_kind() -> dict[tuple[str, str, str], str]:
    found = {}
    for name, schema in bare().items():
        for gvk in schema.get("x-kubernetes-group-version-kind", ()):
            found[gvk["group"], gvk["version"], gvk["kind"]] = name
    return found


def name_of_kind(kind: Kind) -> str:
    """The schema's name (`io.k8s.api.core.v1.Pod`). Raises KeyError for what is not built in."""
    return names_by_kind()[kind.group, kind.version, kind.kind]


def names_of(kind: Kind, subresources: Iterable[str] = ()) -> set[str]:
    """The schemas of a built-in kind, of its list and of what its subresources take."""
    listing = names_by_kind().get((kind.group, kind.version, kind.kind + "List"))
    bodies = {SUBRESOURCE_BODIES[each] for each in subresources if each in SUBRESOURCE_BODIES}
    return {name_of_kind(kind), *bodies} | ({listing} if listing else set())


def reference(schema: Mapping[str, Any]) -> str:
    """The name that a field's schema refers to, or ""."""
    target = schema.get("$ref")
    if target is None and len(schema.get("allOf", ())) == 1:
        target = schema["allOf"][0].get("$ref")
    return target.removeprefix(REF) if isinstance(target, str) else ""


def resolve(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    name = reference(schema)
    return bare()[name] if name else schema


def resolve_for_patch(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """As `resolve`, for strategic merge: here container statuses are merged by name.

    Kubernetes replaces the list, because a kubelet is its only writer. Here it has two: the agent tells what is, the
    resize controller what is admitted, each of its own fields alone.
    """
    name = reference(schema)
    return _merged_statuses() if name == POD_STATUS else resolve(schema)


@cache
def _merged_statuses() -> Schema:
    status = bare()[POD_STATUS]
    by_name = {"x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge"}
    merged = {
        name: {**status["properties"][name], **by_name} for name in ("containerStatuses", "initContainerStatuses")
    }
    return {**status, "properties": {**status["properties"], **merged}}


def references(node: Any) -> set[str]:
    """The names of all schemas that a schema refers to."""
    if isinstance(node, dict):
        found = {node["$ref"].removeprefix(REF)} if isinstance(node.get("$ref"), str) else set()
        return found.union(*(references(value) for value in node.values()))
    if isinstance(node, list):
        return set().union(*(references(value) for value in node))
    return set()


def closure(names: Iterable[str]) -> set[str]:
    """These schemas and all that they refer to."""
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(references(bare()[name]))
    return seen


def described(names: Iterable[str]) -> dict[str, Schema]:
    """The closure of some schemas with their descriptions, as the OpenAPI document shows them."""
    texts = _read("descriptions")
    result = {}
    for name in sorted(closure(names)):
        own = texts.get(name, {})
        schema = dict(bare()[name])
        if "" in own:
            schema["description"] = own[""]
        if "properties" in schema:
            schema["properties"] = {
                field: _shown(value, own.get(field)) for field, value in schema["properties"].items()
            }
        result[name] = schema
    return result


def _shown(field: Schema, description: str | None) -> Schema:
    shown = {name: value for name, value in field.items() if name != POINTER}
    return shown if description is None else {"description": description, **shown}


@cache
def fits(name: str) -> Callable[[Any], bool]:
    """A test that is true only for objects that typed decoding would leave exactly as they are.

    It is about 100 times faster than `decoding.decode`, and nearly all objects pass it.
    """
    definitions = {each: _strict(bare()[each], each) for each in closure([name])}
    validator = jsonschema_rs.Draft202012Validator(
        {"$ref": REF + name, "components": {"schemas": definitions}}, formats=FORMATS, validate_formats=True
    )
    return validator.is_valid


def _strict(schema: Schema, name: str = "") -> Any:
    """Go's typed decoding as JSON Schema: no unknown fields, no nulls, no empty optional lists and maps, int ranges."""
    if name in _LEAVES:
        return _LEAVES[name]
    target = reference(schema)
    if target:
        return {"$ref": REF + target}
    match schema.get("type"):
        case "object" if "properties" in schema:
            required = schema.get("required", ())
            fields = {
                field: _field(value, field in required or keeps_default(name, value), is_resource_list(name, value))
                for field, value in schema["properties"].items()
            }
            always = list(always_written(name))
            return {"type": "object", "properties": fields, "required": always, "additionalProperties": False}
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return {"type": "object", "additionalProperties": _strict(schema["additionalProperties"])}
        case "object":
            return {"type": "object"} if not name else {"type": "object", "additionalProperties": False}
        case "array":
            return {"type": "array", "items": _strict(schema["items"])}
        case "integer":
            bits = 31 if schema.get("format") == "int32" else 63
            return {"type": "integer", "minimum": -(2**bits), "maximum": 2**bits - 1}
        case "string" if schema.get("format") == "byte":
            return {"type": "string", "format": "go-base64"}
        case "string" | "boolean" | "number" as plain:
            return {"type": plain}
    return True


def _field(schema: Schema, kept_when_empty: bool, is_resource_list: bool) -> Any:
    strict = {"type": "object", "additionalProperties": _MILLI} if is_resource_list else _strict(schema)
    if kept_when_empty or not isinstance(strict, dict):
        return strict
    if strict.get("type") == "array":
        return {**strict, "minItems": 1}
    if strict.get("type") == "object" and "additionalProperties" in schema:
        return {**strict, "minProperties": 1}
    if schema.get("type") in ZEROS and not schema.get(POINTER):
        return {**strict, "not": {"const": ZEROS[schema["type"]]}}
    return strict
