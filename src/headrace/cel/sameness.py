"""Values as keys: where equal keys are equal values, one among many is found without comparing it with each."""

from collections.abc import Hashable, Iterable

from headrace.cel.values import StringMap, Value

_PLAIN = frozenset({str, bytes, bool, int})


class _Unlike(Exception):
    """The value may equal others of another form (1 and 1.0), or has an order of its own."""


def keys_of(*lists: Iterable[Value]) -> list[list[Hashable]] | None:
    """The keys of all elements, list by list; None where one of them has no key."""
    try:
        return [[_key(each) for each in elements] for elements in lists]
    except _Unlike:
        return None


def _key(value: Value) -> Hashable:
    kind = type(value)
    if kind in _PLAIN:
        return kind, value
    if kind is list:
        return list, tuple([_key(each) for each in value])
    if kind is StringMap:
        return dict, frozenset([(name, _key(each)) for name, each in value.items()])
    raise _Unlike
