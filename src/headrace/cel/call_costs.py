"""What a call really cost, from its arguments and result. An argument that failed is an EvaluationError here.

Sources: k8s.io/apiserver/pkg/cel/library/cost.go, cel-go ext/lists.go, ext/sets.go, interpreter/runtimecost.go.
"""

import math
from collections.abc import Callable

from headrace.cel.amounts import LIMIT, LIST_BASE, PATTERN, TRAVERSAL, plus, times
from headrace.cel.values import (
    Address,
    Fatal,
    Format,
    Network,
    Optional,
    QuantityValue,
    Semver,
    Url,
    Value,
    go_name,
    is_list,
    is_map,
    key_value,
    size,
)


def _size(value: Value) -> int:
    return found if (found := size(value)) is not None else 1


def _standard_size(value: Value) -> int:
    if type(value) is Optional and value.has_value():
        return _standard_size(value.value)
    return _size(value)


def _up(number: float) -> int:
    return math.ceil(number)


def _traversal(value: Value) -> int:
    """Walking all of a value."""
    if type(value) is str:
        return int(len(value.encode()) * TRAVERSAL)
    if type(value) is bytes:
        return int(len(value) * TRAVERSAL)
    if is_list(value):
        return sum(map(_traversal, value))
    if is_map(value):
        return sum(_traversal(key_value(key)) + _traversal(entry) for key, entry in value.items())
    return 1


def call_cost(function: str, overload: str, arguments: list[Value], result: Value) -> int:
    """The cost of one call; raises Fatal where the reference trips over a failed argument."""
    extension = _EXTENSIONS.get(overload)
    if extension is not None:
        return extension(arguments, result)
    library = _FUNCTIONS.get(function)
    if library is not None:
        found = library(overload, arguments, result)
        if found is not None:
            return found
    standard = _STANDARD.get(overload)
    return 1 if standard is None else standard(arguments)


_Library = Callable[[str, list[Value], Value], int | None]


def _one(_overload: str, _arguments: list[Value], _result: Value) -> int:
    return 1


def _first(factor: float) -> _Library:
    def cost(_overload: str, arguments: list[Value], _result: Value) -> int:
        return _up(_size(arguments[0]) * factor)

    return cost


def _first_twice(_overload: str, arguments: list[Value], _result: Value) -> int:
    return _up(float(_size(arguments[0])) * 2 * TRAVERSAL)


def _aggregate(_overload: str, arguments: list[Value], _result: Value) -> int:
    return _traversal(arguments[0])


def _join(_overload: str, _arguments: list[Value], result: Value) -> int:
    return _up(float(_size(result)) * 2 * TRAVERSAL)


def _pattern(text: int, pattern: int) -> int:
    return _up((1.0 + text) * TRAVERSAL) * _up(pattern * PATTERN)


def _find(_overload: str, arguments: list[Value], _result: Value) -> int:
    return _pattern(_size(arguments[0]), _size(arguments[1]))


def _ip(overload: str, arguments: list[Value], _result: Value) -> int:
    return 1 if overload == "cidr_ip" else _up(_size(arguments[0]) * TRAVERSAL)


def _contains_ip(overload: str, arguments: list[Value], _result: Value) -> int:
    network, other = _size(arguments[0]), _size(arguments[1])
    found = _up((network + network) * TRAVERSAL)
    return found + _up(other * TRAVERSAL) if overload == "cidr_contains_ip_string" else found


def _contains_cidr(overload: str, arguments: list[Value], _result: Value) -> int:
    network, other = _size(arguments[0]), _size(arguments[1])
    found = _up((network + network) * TRAVERSAL) + _up(network * TRAVERSAL) + 1
    return found + _up(other * TRAVERSAL) if overload == "cidr_contains_cidr_string" else found


def _validate(_overload: str, arguments: list[Value], _result: Value) -> int | None:
    if type(arguments[0]) is not Format:
        return None
    return _pattern(_size(arguments[1]), arguments[0].cost_size)


def _authorize(_overload: str, _arguments: list[Value], _result: Value) -> int:
    return 350_000


def _selector(_overload: str, arguments: list[Value], _result: Value) -> int:
    length = _size(arguments[1])
    return LIST_BASE + _up(length * TRAVERSAL) + _up(_up(length * 0.5) * 50.0)


_FLAT = frozenset({QuantityValue, Address, Network, Format, Url, Semver})


def _equals(_overload: str, arguments: list[Value], _result: Value) -> int | None:
    return 1 if type(arguments[0]) in _FLAT else None


_FUNCTIONS: dict[str, _Library] = {
    "check": _authorize,
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), _aggregate),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _first(TRAVERSAL)),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _first_twice),
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _first(TRAVERSAL)),
    "ip": _ip,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    "_==_": _equals,
}


def _standard_first(arguments: list[Value]) -> int:
    return _up(_standard_size(arguments[0]) * TRAVERSAL)


def _standard_second(arguments: list[Value]) -> int:
    return _up(_standard_size(arguments[1]) * TRAVERSAL)


def _in_list(arguments: list[Value]) -> int:
    return _standard_size(arguments[1])


def _smaller(arguments: list[Value]) -> int:
    return _up(min(_standard_size(arguments[0]), _standard_size(arguments[1])) * TRAVERSAL)


def _both(arguments: list[Value]) -> int:
    return _up((_standard_size(arguments[0]) + _standard_size(arguments[1])) * TRAVERSAL)


def _matches(arguments: list[Value]) -> int:
    return _pattern(_standard_size(arguments[0]), _standard_size(arguments[1]))


def _contains(arguments: list[Value]) -> int:
    return _standard_first(arguments) * _standard_second(arguments)


_STANDARD: dict[str, Callable[[list[Value]], int]] = {
    **dict.fromkeys(("starts_with_string", "ends_with_string"), _standard_second),
    **dict.fromkeys(("string_to_bytes", "bytes_to_string", "strings_quote", "string_format"), _standard_first),
    "in_list": _in_list,
    **dict.fromkeys(
        ["equals", "not_equals"]
        + [
            f"{order}_{kind}"
            for order in ("less", "less_equals", "greater", "greater_equals")
            for kind in ("string", "bytes")
        ],
        _smaller,
    ),
    **dict.fromkeys(("add_string", "add_bytes"), _both),
    **dict.fromkeys(("matches", "matches_string"), _matches),
    "contains_string": _contains,
}


def _allocating(factor: float, count: int) -> int:
    if factor < 0.0:
        factor = 1.0
    return min(int(float(count) * factor) + 1 + LIST_BASE, LIMIT)


def _output(_arguments: list[Value], result: Value) -> int:
    return _allocating(1, _size(result))


def _flatten(arguments: list[Value], _result: Value) -> int:
    depth = 1.0
    if len(arguments) == 2:
        if type(arguments[1]) is not int:
            raise Fatal(f"internal error: interface conversion: ref.Val is {go_name(arguments[1])}, not types.Int")
        depth = float(arguments[1])
    return _allocating(depth, _size(arguments[0]))


def _self_compare(position: int) -> Callable[[list[Value], Value], int]:
    def cost(arguments: list[Value], _result: Value) -> int:
        elements = arguments[position]
        if not is_list(elements):
            raise Fatal(
                f"internal error: interface conversion: {go_name(elements)} is not traits.Lister: missing method Add"
            )
        if not elements:
            return _allocating(2.0, 0)
        factor = 2.0 + (TRAVERSAL if type(elements[0]) in (str, bytes) else 0.0)
        return _allocating(factor, times(len(elements), len(elements)))

    return cost


def _sets(factor: float) -> Callable[[list[Value], Value], int]:
    def cost(arguments: list[Value], _result: Value) -> int:
        return plus(1, int(float(_size(arguments[0]) * _size(arguments[1])) * factor))

    return cost


# Calls whose cost the reference cannot tell when an argument failed: it then fails as a whole.
BRITTLE = frozenset({"distinct", "sort", "@sortByAssociatedKeys", "flatten"})

_COMPARABLE = (
    "int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp", "string", "bytes",
)  # fmt: skip
_EXTENSIONS: dict[str, Callable[[list[Value], Value], int]] = {
    **dict.fromkeys(("list_slice", "lists_range", "list_reverse"), _output),
    **dict.fromkeys(("list_flatten", "list_flatten_int"), _flatten),
    "list_distinct": _self_compare(0),
    **{f"list_{kind}_sort": _self_compare(0) for kind in _COMPARABLE},
    **{f"list_{kind}_sortByAssociatedKeys": _self_compare(1) for kind in _COMPARABLE},
    **dict.fromkeys(("list_sets_contains_list", "list_sets_intersects_list"), _sets(1)),
    "list_sets_equivalent_list": _sets(2),
}
