"""Functions on lists: Kubernetes' own (sum, min, max, isSorted, indexOf, includes) and cel-go's extension."""

from collections.abc import Callable, Hashable
from functools import cmp_to_key

from headrace.cel.declarations import Function, Overload, function, method, overload
from headrace.cel.errors import EvaluationError
from headrace.cel.libraries import operators
from headrace.cel.sameness import keys_of
from headrace.cel.values import Duration, Uint, Value, compare, equal, is_list, no_overload, type_name

_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_ORDERED = frozenset(
    {"int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp", "string", "bytes"}
)
_ZEROES: dict[str, Value] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
RANGE_LIMIT = 1_000_000


def _is_sorted(elements: list[Value]) -> Value:
    for index, element in enumerate(elements):
        if type_name(element) not in _ORDERED:
            return no_overload()
        if index and compare(elements[index - 1], element) == 1:
            return False
    return True


def _sum(zero: Value) -> Callable[[list[Value]], Value]:
    def total(elements: list[Value]) -> Value:
        found = zero
        for element in elements:
            found = operators.add(found, element)
            if isinstance(found, EvaluationError):
                return found
        return found

    return total


def _best(name: str, worse: int) -> Callable[[list[Value]], Value]:
    def best(elements: list[Value]) -> Value:
        found: Value = None
        for index, element in enumerate(elements):
            if type_name(element) not in _ORDERED:
                return no_overload()
            if not index or compare(found, element) == worse:
                found = element
        return found if elements else EvaluationError(f"{name} called on empty list")

    return best


def _index_of(elements: list[Value], item: Value) -> int:
    return next((index for index, element in enumerate(elements) if _same(element, item)), -1)


def _last_index_of(elements: list[Value], item: Value) -> int:
    return next((index for index in range(len(elements) - 1, -1, -1) if _same(elements[index], item)), -1)


def _includes(target: Value, item: Value) -> bool:
    return any(_same(element, item) for element in target) if is_list(target) else _same(target, item)


def _same(one: Value, other: Value) -> bool:
    return equal(one, other) is True


def _slice(elements: list[Value], start: int, end: int) -> Value:
    if start < 0 or end < 0:
        return EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        return EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(elements) < end:
        return EvaluationError(f"cannot slice({start}, {end}), list is length {len(elements)}")
    return list(elements[start:end])


def _flatten(elements: Value, depth: Value = 1) -> Value:
    if not is_list(elements) or type(depth) is not int:
        return EvaluationError(f"no such overload: {type_name(elements)}.flatten()")
    if depth < 0:
        return EvaluationError("level must be non-negative")
    return _flat(elements, depth)


def _flat(elements: list[Value], depth: int) -> list[Value]:
    found: list[Value] = []
    for element in elements:
        if is_list(element) and depth > 0:
            found.extend(_flat(element, depth - 1))
        else:
            found.append(element)
    return found


def _sort(elements: Value) -> Value:
    return _sort_by(elements, elements) if is_list(elements) else EvaluationError("no such overload: sort")


def _sort_by(elements: Value, keys: Value) -> Value:
    if not is_list(elements):
        return EvaluationError("no such overload: @sortByAssociatedKeys")
    if not elements:
        return elements
    wanted = type_name(keys[0])
    if wanted not in _ORDERED:
        return EvaluationError("list elements must be comparable")
    if len(keys) > 1 and any(type_name(key) != wanted for key in keys):
        return EvaluationError("list elements must have the same type")

    def order(one: int, other: int) -> int:
        found = compare(keys[one], keys[other])
        return 0 if isinstance(found, EvaluationError) else found

    return [elements[index] for index in sorted(range(len(elements)), key=cmp_to_key(order))]


def _range(count: int) -> Value:
    if count < 0:
        return EvaluationError(f"lists.range: size must be non-negative, got {count}")
    if count > RANGE_LIMIT:
        return EvaluationError(f"lists.range: size {count} exceeds maximum allowed ({RANGE_LIMIT})")
    return list(range(count))


def _distinct(elements: list[Value]) -> list[Value]:
    keys = keys_of(elements)
    if keys is not None:
        first: dict[Hashable, Value] = {}
        for key, element in zip(keys[0], elements, strict=True):
            first.setdefault(key, element)
        return list(first.values())
    found: list[Value] = []
    for element in elements:
        if not any(_same(element, other) for other in found):
            found.append(element)
    return found


def _typed(template: Callable[[str], Overload], kinds: tuple[str, ...] = _COMPARABLE) -> list[Overload]:
    return [template(kind) for kind in kinds]


def _long(kind: str) -> str:
    return {"duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}.get(kind, kind)


INCLUDES = function("includes", method("list_includes_dyn_dyn", "dyn, dyn -> bool", _includes))

# Kubernetes' list functions; admission of version 1.36 does not know `includes` among them.
KUBERNETES: tuple[Function, ...] = (
    function(
        "isSorted", *_typed(lambda kind: method(f"list_{kind}_is_sorted_bool", f"list({kind}) -> bool", _is_sorted))
    ),
    function(
        "sum",
        *_typed(
            lambda kind: method(f"list_{kind}_sum_{kind}", f"list({kind}) -> {kind}", _sum(_ZEROES[kind])),
            ("int", "uint", "double", "duration"),
        ),
    ),
    function(
        "max", *_typed(lambda kind: method(f"list_{kind}_max_{kind}", f"list({kind}) -> {kind}", _best("max", -1)))
    ),
    function(
        "min", *_typed(lambda kind: method(f"list_{kind}_min_{kind}", f"list({kind}) -> {kind}", _best("min", 1)))
    ),
    function("indexOf", method("list_a_index_of_int", "list(A), A -> int", _index_of)),
    function("lastIndexOf", method("list_a_last_index_of_int", "list(A), A -> int", _last_index_of)),
)

EXTENSION: tuple[Function, ...] = (
    function("slice", method("list_slice", "list(T), int, int -> list(T)", _slice)),
    function(
        "flatten",
        method("list_flatten", "list(list(T)) -> list(T)", _flatten),
        method("list_flatten_int", "list(dyn), int -> list(dyn)", _flatten),
        unguarded=True,
    ),
    function(
        "sort",
        *_typed(lambda kind: method(f"list_{_long(kind)}_sort", f"list({kind}) -> list({kind})")),
        operation=_sort,
    ),
    function(
        "@sortByAssociatedKeys",
        *_typed(lambda kind: method(f"list_{_long(kind)}_sortByAssociatedKeys", f"list(T), list({kind}) -> list(T)")),
        operation=_sort_by,
    ),
    function("lists.range", overload("lists_range", "int -> list(int)", _range)),
    function("reverse", method("list_reverse", "list(T) -> list(T)", lambda elements: list(reversed(elements)))),
    function("distinct", method("list_distinct", "list(T) -> list(T)", _distinct)),
)
