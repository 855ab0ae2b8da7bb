"""`sets.contains`, `sets.equivalent`, `sets.intersects`: cel-go's sets extension, on plain lists."""

from headrace.cel.declarations import Function, function, overload
from headrace.cel.sameness import keys_of
from headrace.cel.values import Value, in_list


def _contains(elements: list[Value], part: list[Value]) -> bool:
    keys = keys_of(elements, part)
    if keys is not None:
        return set(keys[0]).issuperset(keys[1])
    return all(in_list(element, elements) for element in part)


def _equivalent(one: list[Value], other: list[Value]) -> bool:
    return _contains(one, other) and _contains(other, one)


def _intersects(one: list[Value], other: list[Value]) -> bool:
    keys = keys_of(one, other)
    if keys is not None:
        return not set(keys[0]).isdisjoint(keys[1])
    return any(in_list(element, other) for element in one)


FUNCTIONS: tuple[Function, ...] = (
    function("sets.contains", overload("list_sets_contains_list", "list(T), list(T) -> bool", _contains)),
    function("sets.equivalent", overload("list_sets_equivalent_list", "list(T), list(T) -> bool", _equivalent)),
    function("sets.intersects", overload("list_sets_intersects_list", "list(T), list(T) -> bool", _intersects)),
)
