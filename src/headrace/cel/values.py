"""The values an expression computes with, and the few facts every part needs about them: name, size, equality, order.

bool, int, float, str, bytes and None are Python's own; the rest is below. A list is a Python list, a map a dict whose
keys went through `map_key` (Python takes 1, 1.0 and True for one key, CEL does not). Errors are values as in cel-go:
operations return an EvaluationError, they do not raise it.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from headrace.api.quantity import Amount
from headrace.cel.errors import EvaluationError

Value = Any

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1
SECOND = 1_000_000_000


class Fatal(EvaluationError):
    """What makes the reference give up the whole evaluation: `||` and `&&` do not absorb it."""


@dataclass(frozen=True, slots=True)
class Uint:
    value: int


@dataclass(frozen=True, slots=True)
class Duration:
    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """Nanoseconds since 1970; the offset of the zone it was written in only shows when it is made text."""

    nanoseconds: int
    offset_seconds: int = 0


@dataclass(frozen=True, slots=True)
class TypeValue:
    name: str


class Missing:
    """The one object that says "nothing there"."""

    __slots__ = ()


MISSING = Missing()


@dataclass(slots=True, eq=False)
class Optional:
    """Nothing changes one; it is not frozen, since that would make it three times as slow to make."""

    value: Value = MISSING

    def has_value(self) -> bool:
        return self.value is not MISSING


NONE = Optional()


@dataclass(slots=True, eq=False)
class QuantityValue:
    """A quantity; `amount` changes its representation (never its number) when it is compared, as in Kubernetes.

    A computed one is `derived`: the reference's `==` does not recognise it on its right side. A `shared` one outlives
    the evaluation and never changes.
    """

    amount: Amount
    derived: bool = False
    shared: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A semantic version. Numbers of the pre-release are (0, n), words (1, text), so that tuples compare."""

    core: tuple[int, int, int]
    pre: tuple[tuple[int, Any], ...]
    build: tuple[str, ...]

    def order(self) -> tuple[Any, ...]:
        return (self.core, not self.pre, self.pre)


@dataclass(frozen=True, slots=True, eq=False)
class Address:
    """An IP address of 4 or 16 bytes."""

    packed: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """A CIDR: the address as written, host bits kept."""

    packed: bytes
    bits: int


@dataclass(frozen=True, slots=True, eq=False)
class Url:
    scheme: str
    host: str
    path: str
    query: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """A named format; `cost_size` is the length of regular expression that validating is charged for."""

    name: str
    cost_size: int
    key: str


class Accumulating(list[Value]):
    """A list that `+` extends in place: what the reference makes of an empty list bound by a macro."""

    __slots__ = ()


class Concatenated(list[Value]):
    """The sum of two lists: comparing it reports an element that cannot be compared, a plain list hides it."""

    __slots__ = ()


class SetList(list[Value]):
    """A list of scalars whose order does not count (`x-kubernetes-list-type: set`)."""

    __slots__ = ()

    def joined(self, other: list[Value]) -> "SetList | EvaluationError":
        """What is in either, each once, in the order met."""
        found = [_scalar_key(each) for each in (*self, *other)]
        wrong = next((each for each in found if isinstance(each, EvaluationError)), None)
        if wrong is not None:
            return wrong
        first: dict[Any, Value] = {}
        for key, element in zip(found, (*self, *other), strict=True):
            first.setdefault(key, element)
        return SetList(first.values())


class MapList(list[Value]):
    """A list of maps told apart by their values under `keys` (`x-kubernetes-list-type: map`); order does not count."""

    __slots__ = ("keys",)

    def __init__(self, elements: Iterable[Value], keys: tuple[str, ...]) -> None:
        super().__init__(elements)
        self.keys = keys

    def joined(self, other: list[Value]) -> "MapList":
        """Elements of the other take the place of those with the same keys, the rest is appended."""
        found = {self.key(each): each for each in self}
        found.update((self.key(each), each) for each in other)
        return MapList(found.values(), self.keys)

    def key(self, element: Value) -> Any:
        return tuple(_scalar_key(element.get(name)) for name in self.keys) if is_map(element) else id(element)


class StringMap(dict[str, Value]):
    """A map that only ever has strings for keys: any other key is simply not there."""

    __slots__ = ()


class DefaultMap(StringMap):
    """Finds an empty map under any key that it does not have; it does not contain that key."""

    __slots__ = ()

    def __missing__(self, key: str) -> Value:
        return EMPTY


EMPTY = StringMap()
LISTS: frozenset[type] = frozenset({list, Accumulating, Concatenated, SetList, MapList})
MAPS: frozenset[type] = frozenset((dict, StringMap, DefaultMap))

_TYPE_NAMES: dict[type, str] = {
    bool: "bool", int: "int", Uint: "uint", float: "double", str: "string", bytes: "bytes", type(None): "null_type",
    list: "list", Accumulating: "list", Concatenated: "list", dict: "map", StringMap: "map", DefaultMap: "map",
    Duration: "google.protobuf.Duration", Timestamp: "google.protobuf.Timestamp", TypeValue: "type",
    Optional: "optional_type", QuantityValue: "kubernetes.Quantity", Semver: "kubernetes.Semver", Address: "net.IP",
    Network: "net.CIDR", Url: "kubernetes.URL", Format: "kubernetes.NamedFormat", SetList: "list", MapList: "list",
}  # fmt: skip


def type_name(value: Value) -> str:
    return _TYPE_NAMES.get(type(value), "error")


# Go's names for the values, which some of the reference's messages show.
_GO_NAMES: dict[type, str] = {
    bool: "types.Bool", int: "types.Int", Uint: "types.Uint", float: "types.Double", str: "types.String",
    bytes: "types.Bytes", type(None): "types.Null", list: "*types.baseList", Accumulating: "*types.mutableList",
    Concatenated: "*types.concatList", dict: "*types.baseMap", StringMap: "*types.baseMap", DefaultMap: "cel.mapper",
    Duration: "types.Duration", Timestamp: "types.Timestamp", TypeValue: "*types.Type", Optional: "*types.Optional",
    QuantityValue: "cel.Quantity", Semver: "cel.Semver", Address: "cel.IP", Network: "cel.CIDR", Url: "cel.URL",
    Format: "cel.Format", SetList: "*common.unstructuredSetList", MapList: "*common.unstructuredMapList",
}  # fmt: skip


def go_name(value: Value) -> str:
    return _GO_NAMES.get(type(value), "*types.Err")


# Go's names for what the values hold, which messages about derived attributes show.
_NATIVE_NAMES: dict[type, str] = {
    Missing: "<nil>", bool: "bool", int: "int64", Uint: "uint64", float: "float64", str: "string", bytes: "[]uint8",
    type(None): "structpb.NullValue", list: "[]ref.Val", Accumulating: "[]ref.Val", Concatenated: "[]interface {}",
    dict: "map[ref.Val]ref.Val", StringMap: "map[string]interface {}", DefaultMap: "map[string]interface {}",
    Duration: "time.Duration", Timestamp: "time.Time", QuantityValue: "*resource.Quantity", Semver: "semver.Version",
    Address: "netip.Addr", Network: "netip.Prefix", Url: "*url.URL", Format: "cel.Format",
}  # fmt: skip


def native_name(value: Value) -> str:
    return _NATIVE_NAMES.get(type(value), type(value).__name__)


def is_error(value: Value) -> bool:
    return isinstance(value, EvaluationError)


def no_overload() -> EvaluationError:
    return EvaluationError("no such overload")


def is_list(value: Value) -> bool:
    return type(value) in LISTS


def is_map(value: Value) -> bool:
    return type(value) in MAPS


@dataclass(frozen=True, slots=True)
class Key:
    """A map key that Python would confuse with another, or cannot hash as it is."""

    kind: str
    value: Any
    original: Value = field(default=None, compare=False)


def map_key(value: Value) -> Any:
    """The dict key for a CEL key; raises Fatal where the reference cannot hash it."""
    kind = type(value)
    if kind is str or kind is int or kind is Uint:
        return value
    if kind is bool or kind is float:
        return Key(kind.__name__, value)
    if kind is bytes or kind is Semver or kind is Format:
        raise Fatal(f"internal error: runtime error: hash of unhashable type {go_name(value)}")
    if kind is Address:
        return Key("ip", value.packed, value)
    if kind is Network:
        return Key("cidr", (value.packed, value.bits), value)
    if value is None or kind is Duration or kind is Timestamp or kind is TypeValue:
        return Key(kind.__name__, value)
    return _IdentityKey(value)


class _IdentityKey:
    """A key that is only equal to the very same object."""

    __slots__ = ("original",)

    def __init__(self, original: Value) -> None:
        self.original = original


def key_value(key: Any) -> Value:
    """The CEL value of a dict key."""
    if type(key) is Key:
        return key.value if key.original is None else key.original
    return key.original if type(key) is _IdentityKey else key


def find(mapping: dict[Any, Value], key: Value) -> Value:
    """The value under a key, numbers of other types included, or MISSING (an empty map for a DefaultMap)."""
    if type(mapping) is not dict:
        found = mapping.get(key, MISSING) if type(key) is str else MISSING
        return EMPTY if found is MISSING and type(mapping) is DefaultMap else found
    if not mapping:
        return MISSING
    for candidate in _candidates(key):
        if candidate in mapping:
            return mapping[candidate]
    return MISSING


def _candidates(key: Value) -> Iterator[Any]:
    yield map_key(key)
    kind = type(key)
    if kind is float:
        if key.is_integer() and INT_MIN < key < 2**63:
            yield int(key)
        if key.is_integer() and 0 <= key < 2**64:
            yield Uint(int(key))
    elif kind is int:
        if key >= 0:
            yield Uint(key)
    elif kind is Uint and key.value <= INT_MAX:
        yield key.value


def contains_key(mapping: dict[Any, Value], key: Value) -> bool:
    """`key in map`; a DefaultMap that is asked through `find` says yes to everything, as the reference does."""
    if type(mapping) is DefaultMap:
        return type(key) is str and key in mapping
    return find(mapping, key) is not MISSING


def compare(one: Value, other: Value) -> Any:
    """-1, 0 or 1, or an error where there is no order between the two."""
    kind, other_kind = type(one), type(other)
    if kind is other_kind and kind in _ORDERED:
        if kind is Uint or kind is Duration or kind is Timestamp:
            field = "value" if kind is Uint else "nanoseconds"
            one, other = getattr(one, field), getattr(other, field)
        elif kind is float and (math.isnan(one) or math.isnan(other)):
            return EvaluationError("NaN values cannot be ordered")
        return (one > other) - (one < other)
    if kind in _NUMBERS and other_kind in _NUMBERS:
        return _compare_numbers(one, other)
    return no_overload()


_NUMBERS = (int, float, Uint)
_ORDERED = frozenset({bool, int, float, Uint, str, bytes, Duration, Timestamp})


def _compare_numbers(one: Value, other: Value) -> Any:
    """Two numbers of different types; against a double both are rounded to doubles first, as in Go."""
    if type(one) is float:
        return _compare_double(one, other)
    if type(other) is float:
        found = _compare_double(other, one)
        return found if is_error(found) else -found
    left = one.value if type(one) is Uint else one
    right = other.value if type(other) is Uint else other
    return (left > right) - (left < right)


def _compare_double(double: float, other: Value) -> Any:
    if math.isnan(double):
        return EvaluationError("NaN values cannot be ordered")
    low, high, number = (0, UINT_MAX, other.value) if type(other) is Uint else (INT_MIN, INT_MAX, other)
    if double < float(low):
        return -1
    if double > float(high):
        return 1
    rounded = float(number)
    return (double > rounded) - (double < rounded)


def equal(one: Value, other: Value) -> bool | EvaluationError:
    """CEL's ==, which may be an error (a quantity on the left of something else)."""
    if one is None or other is None:
        return one is other
    return _equal(one, other)


def _equal(one: Value, other: Value) -> bool | EvaluationError:
    kind = type(one)
    if kind in _PLAIN:
        return type(other) is kind and bool(one == other)
    if kind in _NUMBERS:
        if type(other) is kind:
            return bool(one == other)
        if type(other) not in _NUMBERS:
            return False
        return bool(_compare_numbers(one, other) == 0)
    if kind in LISTS:
        return is_list(other) and _equal_lists(one, other)
    if kind in MAPS:
        return is_map(other) and _equal_maps(one, other)
    if kind is Optional:
        if type(other) is not Optional or not one.has_value() or not other.has_value():
            return type(other) is Optional and one.has_value() == other.has_value()
        return _equal(one.value, other.value)
    if one is None:
        return other is None
    return _equal_special(one, other)


_PLAIN = frozenset({bool, str, bytes, Duration, TypeValue})


def _equal_special(one: Value, other: Value) -> bool | EvaluationError:
    kind = type(one)
    if kind is Timestamp:
        return type(other) is Timestamp and one.nanoseconds == other.nanoseconds
    if type(other) is not kind:
        return other if isinstance(other, EvaluationError) else no_overload()
    if kind is QuantityValue:
        return no_overload() if other.derived else bool(one.amount.compare(other.amount) == 0)
    if kind is Semver:
        return bool(one.order() == other.order())
    if kind is Address:
        return bool(one.packed == other.packed)
    if kind is Network:
        return (one.packed, one.bits) == (other.packed, other.bits)
    return bool(one.text == other.text) if kind is Url else bool(one.name == other.name)


def _equal_lists(one: list[Value], other: list[Value]) -> bool | EvaluationError:
    if len(one) != len(other):
        return False
    if type(one) is SetList:
        return _equal_sets(one, other)
    if type(one) is MapList:
        return _equal_by_key(one, other)
    found = [equal(*pair) for pair in zip(one, other, strict=True)]
    if any(each is False for each in found):
        return False
    errors = [each for each in found if each is not True]
    return errors[0] if errors and type(one) is Concatenated else True


def _equal_sets(one: SetList, other: list[Value]) -> bool | EvaluationError:
    found = [_scalar_key(each) for each in (*one, *other)]
    wrong = next((each for each in found if isinstance(each, EvaluationError)), None)
    return wrong if wrong is not None else set(found[: len(one)]) == set(found[len(one) :])


def _equal_by_key(one: MapList, other: list[Value]) -> bool | EvaluationError:
    ours = {one.key(each): each for each in one}
    seen = set()
    for theirs in other:
        key = one.key(theirs)
        if key not in ours:
            return False
        same = equal(ours[key], theirs)
        if same is not True:
            return same
        seen.add(key)
    return len(seen) == len(ours)


def _scalar_key(value: Value) -> Any:
    """What tells a scalar in a set from the others, numbers of different types included."""
    if is_list(value) or is_map(value):
        return EvaluationError("listSet operations are only supported on lists of scalar values")
    return type(value), value


def _equal_maps(one: dict[Any, Value], other: dict[Any, Value]) -> bool:
    if len(one) != len(other):
        return False
    for key, value in one.items():
        theirs = find(other, key_value(key))
        if theirs is MISSING or equal(value, theirs) is False:
            return False
    return True


def in_list(value: Value, elements: Iterable[Value]) -> bool:
    """`value in list`; an element it cannot be compared with is not it."""
    return any(_equal(value, element) is True for element in elements)


def size(value: Value) -> int | None:
    """What size() says, and the unit of cost; None where a value has no size."""
    kind = type(value)
    if kind is str or kind in LISTS or kind in MAPS or kind is bytes:
        return len(value)
    if kind is Address:
        return len(value.packed)
    if kind is Network:
        return -(-int(value.bits) // 8)
    return None
