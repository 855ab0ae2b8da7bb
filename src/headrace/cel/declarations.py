"""Functions and their overloads: what the checker chooses from, and what runs.

An overload only runs on values of its own types; where the checker could not choose, the first that accepts is taken.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from headrace.cel import types
from headrace.cel.errors import EvaluationError
from headrace.cel.types import Type
from headrace.cel.values import (
    Address,
    Duration,
    Format,
    Network,
    QuantityValue,
    Semver,
    Timestamp,
    Uint,
    Url,
    Value,
    is_list,
    is_map,
    key_value,
    type_name,
)

Operation = Callable[..., Value]


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """`one_by_one`: an error in an argument keeps the later ones from being evaluated (it shows in the cost)."""

    id: str
    member: bool
    arguments: tuple[Type, ...]
    result: Type
    run: Operation | None = None
    one_by_one: bool = False
    parameters: tuple[str, ...] = ()

    def accepts(self, values: tuple[Value, ...]) -> bool:
        return len(values) == len(self.arguments) and all(map(accepts, self.arguments, values))


@dataclass(slots=True, eq=False)
class Function:
    """`operation` is one implementation for all overloads (an operator); otherwise each overload has its own.

    `unguarded`: the implementations look at their arguments' types themselves.
    """

    name: str
    overloads: dict[str, Overload] = field(default_factory=dict)
    operation: Operation | None = None
    unguarded: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """What a call runs: `run` takes evaluated arguments and returns a value or an EvaluationError."""

    run: Operation
    one_by_one: bool


def bind(function: Function, overload_id: str, count: int) -> Bound:
    """The implementation of a call with `count` arguments; `overload_id` is "" where the checker left it open."""
    if function.operation is not None:
        return Bound(function.operation, count > 2)
    chosen = function.overloads.get(overload_id)
    bound = [each for each in function.overloads.values() if each.run is not None]
    if chosen is None or chosen.run is None:
        chosen = bound[0] if len(bound) == 1 else None
    if chosen is not None and chosen.run is not None:
        return Bound(
            chosen.run if function.unguarded else _guarded(function.name, chosen), chosen.one_by_one or count > 2
        )
    if not bound:
        return Bound(lambda *_: EvaluationError(f"no such overload: {function.name}"), count > 2)
    return Bound(_dispatching(function.name, bound), True)


def _guarded(name: str, overload: Overload) -> Operation:
    run = overload.run
    assert run is not None
    kinds = [_CLASSES.get(kind) for kind in overload.arguments]
    if None not in kinds and len(kinds) in (1, 2):
        return _guarded_one(name, run, kinds[0]) if len(kinds) == 1 else _guarded_two(name, run, kinds[0], kinds[1])

    def call(*values: Value) -> Value:
        return run(*values) if overload.accepts(values) else _no_overload(name, values)

    return call


def _guarded_one(name: str, run: Operation, kind: type | None) -> Operation:
    return lambda value: run(value) if type(value) is kind else _no_overload(name, (value,))


def _guarded_two(name: str, run: Operation, kind: type | None, other_kind: type | None) -> Operation:
    def call(value: Value, other: Value) -> Value:
        if type(value) is kind and type(other) is other_kind:
            return run(value, other)
        return _no_overload(name, (value, other))

    return call


def _dispatching(name: str, overloads: list[Overload]) -> Operation:
    def call(*values: Value) -> Value:
        for overload in overloads:
            if overload.run is not None and overload.accepts(values):
                return overload.run(*values)
        return _no_overload(name, values)

    return call


def _no_overload(name: str, values: tuple[Value, ...]) -> EvaluationError:
    return EvaluationError(f"no such overload: {name}({', '.join(map(type_name, values))})")


def accepts(kind: Type, value: Value) -> bool:
    """Whether a value may be passed where this type is declared: of a list or map only the first entry is looked at."""
    if kind.kind in ("dyn", "any", "parameter"):
        return True
    if kind.name != type_name(value):
        return False
    if kind.kind == "list" and is_list(value) and value:
        return accepts(kind.parameters[0], value[0])
    if kind.kind == "map" and is_map(value) and value:
        key, entry = next(iter(value.items()))
        return accepts(kind.parameters[0], key_value(key)) and accepts(kind.parameters[1], entry)
    return True


# Types whose values are all of one Python class, and that class.
_CLASSES: dict[Type, type] = {
    types.BOOL: bool, types.INT: int, types.UINT: Uint, types.DOUBLE: float, types.STRING: str, types.BYTES: bytes,
    types.DURATION: Duration, types.TIMESTAMP: Timestamp, types.QUANTITY: QuantityValue, types.SEMVER: Semver,
    types.IP: Address, types.CIDR: Network, types.URL: Url, types.FORMAT: Format,
}  # fmt: skip
_NAMED = {
    "bool": types.BOOL, "int": types.INT, "uint": types.UINT, "double": types.DOUBLE, "string": types.STRING,
    "bytes": types.BYTES, "duration": types.DURATION, "timestamp": types.TIMESTAMP, "dyn": types.DYN,
    "quantity": types.QUANTITY, "semver": types.SEMVER, "url": types.URL, "format": types.FORMAT, "ip": types.IP,
    "cidr": types.CIDR,
}  # fmt: skip
_MADE: dict[str, Callable[..., Type]] = {
    "list": types.list_of, "map": types.map_of, "optional": types.optional_of, "type": types.type_of,
}  # fmt: skip
_WORD = re.compile(r"->|[A-Za-z.]+|[(),]")


def _read(words: list[str]) -> tuple[Type, list[str]]:
    """The first type of a signature's words: one capital letter is a type parameter, a dotted name an object."""
    word, rest = words[0], words[1:]
    if not rest or rest[0] != "(":
        if len(word) == 1:
            return types.parameter(word), rest
        return _NAMED.get(word) or Type("struct", word), rest
    inner: list[Type] = []
    while rest[0] != ")":
        kind, rest = _read(rest[1:])
        inner.append(kind)
    return _MADE[word](*inner), rest[1:]


def overload(id: str, signature: str, run: Operation | None = None, *, one_by_one: bool = False) -> Overload:
    """A function or operator, from `string, list(T) -> bool`."""
    words = _WORD.findall(signature)
    arguments: list[Type] = []
    while words[0] != "->":
        kind, words = _read(words)
        arguments.append(kind)
        if words[0] == ",":
            words = words[1:]
    returned, _ = _read(words[1:])
    names = {name for kind in (*arguments, returned) for name in _parameters(kind)}
    return Overload(id, False, tuple(arguments), returned, run, one_by_one, tuple(sorted(names)))


def method(id: str, signature: str, run: Operation | None = None, *, one_by_one: bool = False) -> Overload:
    """The same, called on its first argument."""
    return replace(overload(id, signature, run, one_by_one=one_by_one), member=True)


def _parameters(kind: Type) -> Iterable[str]:
    if kind.kind == "parameter":
        yield kind.name
    for each in kind.parameters:
        yield from _parameters(each)


def function(name: str, *overloads: Overload, operation: Operation | None = None, unguarded: bool = False) -> Function:
    return Function(name, {each.id: each for each in overloads}, operation, unguarded)


def merged(libraries: Iterable[Iterable[Function]]) -> Mapping[str, Function]:
    """All functions by name; a later library's overloads come after an earlier one's."""
    found: dict[str, Function] = {}
    for library in libraries:
        for each in library:
            known = found.get(each.name)
            if known is None:
                found[each.name] = replace(each, overloads=dict(each.overloads))
            else:
                known.overloads.update(each.overloads)
    return found
