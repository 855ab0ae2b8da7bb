"""Optional values (`a.?b`, `optional.of`) and inserting into the map that a two-variable comprehension builds.

`or` and `orValue` only evaluate their argument when they need it, so the evaluators do them.
"""

from headrace.cel.declarations import Function, function, method, overload
from headrace.cel.errors import EvaluationError
from headrace.cel.values import (
    MISSING,
    NONE,
    Duration,
    Optional,
    Timestamp,
    Uint,
    Value,
    find,
    is_list,
    is_map,
    map_key,
)

_ZERO_YEAR = -62_135_596_800 * 1_000_000_000


def _is_zero(value: Value) -> bool:
    """Whether the value is its type's zero or empty value."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str, bytes) or is_list(value) or is_map(value):
        return not value
    if kind is Uint:
        return not value.value
    if kind is Duration:
        return not value.nanoseconds
    return kind is Timestamp and bool(value.nanoseconds == _ZERO_YEAR)


def _of_non_zero(value: Value) -> Optional:
    return NONE if _is_zero(value) else Optional(value)


def value_of(optional: Optional) -> Value:
    return optional.value if optional.has_value() else EvaluationError("optional.none() dereference")


def _unwrap(elements: list[Value]) -> Value:
    for element in elements:
        if type(element) is not Optional:
            return EvaluationError(f"value {element} is not optional")
    return [element.value for element in elements if element.has_value()]


def _first(elements: list[Value]) -> Optional:
    return Optional(elements[0]) if elements else NONE


def _last(elements: list[Value]) -> Optional:
    return Optional(elements[-1]) if elements else NONE


def insert(mapping: dict[object, Value], key: Value, value: Value) -> Value:
    if find(mapping, key) is not MISSING:
        return EvaluationError(f"insert failed: key {key} already exists")
    return {**mapping, map_key(key): value}


def _insert_all(mapping: dict[object, Value], more: dict[object, Value]) -> Value:
    found: dict[object, Value] = dict(mapping)
    for key, value in more.items():
        if find(found, key) is not MISSING:
            return EvaluationError(f"insert failed: key {key} already exists")
        found[key] = value
    return found


FUNCTIONS: tuple[Function, ...] = (
    function("optional.of", overload("optional_of", "V -> optional(V)", Optional)),
    function("optional.ofNonZeroValue", overload("optional_ofNonZeroValue", "V -> optional(V)", _of_non_zero)),
    function("optional.none", overload("optional_none", " -> optional(V)", lambda: NONE)),
    function("value", method("optional_value", "optional(V) -> V", value_of)),
    function("hasValue", method("optional_hasValue", "optional(V) -> bool", Optional.has_value)),
    function("or", method("optional_or_optional", "optional(V), optional(V) -> optional(V)")),
    function("orValue", method("optional_orValue_value", "optional(V), V -> V")),
    function("_?._", overload("select_optional_field", "dyn, string -> optional(V)")),
    function(
        "_[?_]",
        overload("list_optindex_optional_int", "list(V), int -> optional(V)"),
        overload("optional_list_optindex_optional_int", "optional(list(V)), int -> optional(V)"),
        overload("map_optindex_optional_value", "map(K, V), K -> optional(V)"),
        overload("optional_map_optindex_optional_value", "optional(map(K, V)), K -> optional(V)"),
    ),
    function(
        "_[_]",
        overload("optional_list_index_int", "optional(list(V)), int -> optional(V)"),
        overload("optional_map_index_value", "optional(map(K, V)), K -> optional(V)"),
    ),
    function("last", method("list_last", "list(V) -> optional(V)", _last)),
    function("first", method("list_first", "list(V) -> optional(V)", _first)),
    function("optional.unwrap", overload("optional_unwrap", "list(optional(V)) -> list(V)", _unwrap)),
    function("unwrapOpt", method("optional_unwrapOpt", "list(optional(V)) -> list(V)", _unwrap)),
    function(
        "cel.@mapInsert",
        overload("@mapInsert_map_key_value", "map(K, V), K, V -> map(K, V)", insert),
        overload("@mapInsert_map_map", "map(K, V), map(K, V) -> map(K, V)", _insert_all),
    ),
)
