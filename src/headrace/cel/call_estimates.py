"""What a call is estimated to cost beside its arguments: Kubernetes' libraries, cel-go's extensions, the standard.

Sources: k8s.io/apiserver/pkg/cel/library/cost.go, cel-go ext/lists.go, ext/sets.go, checker/cost.go.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from headrace.cel import types
from headrace.cel.amounts import LIMIT, LIST_BASE, NOTHING, ONE, PATTERN, TRAVERSAL, UNKNOWN, Range, exactly
from headrace.cel.ast import Literal, Node
from headrace.cel.types import Type

Path = tuple[str, ...]
InputSize = Callable[[Path], Range | None]
ADDRESS_BYTES = Range(4, 16)
FORMAT_NAME, FORMAT_PATTERN = 64, 128


@dataclass(frozen=True, slots=True)
class CallCost:
    cost: Range
    result: Range | None = None


@dataclass(frozen=True, slots=True)
class Operand:
    """An argument of a call: where in the inputs it lies, its type, and its size where that is known."""

    path: Path
    type: Type
    node: Node
    size: Range | None

    def size_or_unknown(self) -> Range:
        return self.size or UNKNOWN


@dataclass(frozen=True, slots=True)
class _Call:
    overload: str
    target: Operand | None
    arguments: list[Operand]
    input_size: InputSize

    def size(self, operand: Operand) -> Range:
        return operand.size or self.input_size(operand.path) or UNKNOWN

    def receiver(self) -> Range:
        assert self.target is not None
        return self.size(self.target)

    def element_size(self) -> tuple[Type, Range] | None:
        """Type and size of an element of the list this is called on."""
        assert self.target is not None
        if not self.target.type.parameters:
            return None
        path = (*self.target.path, "@items") if self.target.path else ()
        return self.target.type.parameters[0], self.input_size(path) or UNKNOWN


def library_call(
    function: str, overload: str, target: Operand | None, arguments: list[Operand], input_size: InputSize
) -> CallCost | None:
    """The cost of a call to a library with costs of its own, or None."""
    call = _Call(overload, target, arguments, input_size)
    extension = _EXTENSIONS.get(overload) or (_sort if overload in _SORTS else None)
    if extension is not None:
        found = extension(call)
        if found is not None:
            return found
    handler = _FUNCTIONS.get(function)
    return None if handler is None else handler(call)


def standard_call(overload: str, target: Operand | None, arguments: list[Operand]) -> Range:
    """The cost of a function of the language itself; 1 where it does not depend on sizes."""
    sizes = [each.size_or_unknown() for each in arguments]
    if overload == "string_format" and target is not None:
        return target.size_or_unknown().scaled(TRAVERSAL)
    if overload in _BY_FIRST and len(sizes) == 1:
        return sizes[0].scaled(TRAVERSAL)
    if overload == "in_list" and len(sizes) == 2:
        return sizes[1].scaled(1)
    if overload == "matches_string" and target is not None and len(sizes) == 1:
        return _pattern_cost(target.size_or_unknown(), sizes[0])
    if overload == "matches" and target is None and len(sizes) == 2:
        return _pattern_cost(*sizes)
    if overload == "contains_string" and target is not None:
        return target.size_or_unknown().scaled(TRAVERSAL) * sizes[0].scaled(TRAVERSAL)
    if overload in _COMPARED:
        smallest = min(sizes[0].high, sizes[1].high)
        return Range(1 if smallest > 0 else 0, smallest).scaled(TRAVERSAL)
    return ONE


_BY_FIRST = frozenset({"string_to_bytes", "bytes_to_string", "strings_quote", "starts_with_string", "ends_with_string"})
_COMPARED = frozenset(
    ["equals", "not_equals"]
    + [
        f"{order}_{kind}"
        for order in ("less", "less_equals", "greater", "greater_equals")
        for kind in ("string", "bytes")
    ]
)


def _pattern_cost(text: Range, pattern: Range) -> Range:
    return (text + ONE).scaled(TRAVERSAL) * pattern.scaled(PATTERN)


def _constant(node: Node, default: int) -> int:
    """A literal int as a size, or the default."""
    if isinstance(node, Literal) and type(node.value) is int:
        return max(node.value, 0)
    return default


# Kubernetes' functions, by name.


def _one(_: _Call) -> CallCost:
    return CallCost(ONE)


def _authorize(_: _Call) -> CallCost:
    return CallCost(exactly(350_000))


def _selector(call: _Call) -> CallCost | None:
    if len(call.arguments) != 1:
        return None
    length = call.size(call.arguments[0])
    requirements = length.scaled(0.5).scaled(50)
    return CallCost(exactly(LIST_BASE) + length.scaled(TRAVERSAL) + requirements)


def _aggregate(call: _Call) -> CallCost | None:
    if call.target is None:
        return None
    element = call.element_size()
    if element is None:
        return CallCost(call.receiver().scaled(TRAVERSAL))
    each = ONE
    if element[0].kind in ("string", "bytes"):
        each += element[1].scaled(TRAVERSAL)
    return CallCost(call.receiver() * each)


def _includes(call: _Call) -> CallCost | None:
    if call.target is None:
        return None
    return _aggregate(call) if call.element_size() is not None else CallCost(call.receiver() * ONE)


def _url(call: _Call) -> CallCost | None:
    if len(call.arguments) != 1:
        return None
    size = call.size(call.arguments[0])
    return CallCost(size.scaled(TRAVERSAL), size)


def _traverse(call: _Call) -> CallCost | None:
    if call.target is None:
        return None
    return CallCost(call.receiver().scaled(TRAVERSAL), call.receiver())


def _replace(call: _Call) -> CallCost | None:
    if call.target is None or len(call.arguments) < 2:
        return None
    size, old, new = call.receiver(), call.size(call.arguments[0]), call.size(call.arguments[1])
    most, kept_most = 0, 0
    if old.low == 0:
        most, kept_most = min(size.high + 1, LIMIT), size.high
    elif new.high <= old.low:
        kept_most = size.high
    else:
        most = _quotient(size.high, old.low)
    least, kept_least = 0, 0
    if old.high == 0:
        least, kept_least = min(size.low + 1, LIMIT), size.low
    elif old.high <= new.low:
        kept_least = size.low
    else:
        least = _quotient(size.low, old.high)
    result = Range(least, most) * new + Range(kept_least, kept_most)
    return CallCost(size.scaled(2 * TRAVERSAL), result)


def _quotient(number: int, by: int) -> int:
    """Rounded up, in floating point."""
    return min(math.ceil(float(number) / float(by)), LIMIT)


def _split(call: _Call) -> CallCost | None:
    if call.target is None:
        return None
    size = call.receiver()
    most = size.high
    if len(call.arguments) > 1:
        count = call.arguments[1].node
        if isinstance(count, Literal) and type(count.value) is int:
            most = count.value & LIMIT
    return CallCost(size.scaled(2 * TRAVERSAL), Range(0, most))


def _join(call: _Call) -> CallCost | None:
    if call.target is None:
        return None
    size, elements = NOTHING, call.receiver()
    element = call.element_size()
    if element is not None:
        size = elements * element[1]
    if call.arguments:
        separators = Range(max(elements.low - 1, 0), max(elements.high - 1, 0))
        size += call.size(call.arguments[0]) * separators
    return CallCost(size.scaled(TRAVERSAL), size)


def _find(call: _Call) -> CallCost | None:
    if call.target is None or not call.arguments:
        return None
    size = call.receiver()
    return CallCost(_pattern_cost(size, call.size(call.arguments[0])), Range(0, size.high))


def _read(call: _Call) -> CallCost | None:
    return CallCost(call.size(call.arguments[0]).scaled(TRAVERSAL)) if call.arguments else None


def _ip(call: _Call) -> CallCost | None:
    return CallCost(ONE) if call.overload == "cidr_ip" else _read(call)


def _canonical(call: _Call) -> CallCost | None:
    return CallCost(call.size(call.arguments[0]).scaled(2 * TRAVERSAL)) if call.arguments else None


def _contains_ip(call: _Call) -> CallCost | None:
    if not call.arguments:
        return None
    found = (ADDRESS_BYTES + ADDRESS_BYTES).scaled(TRAVERSAL)
    if call.overload == "cidr_contains_ip_string":
        found += call.size(call.arguments[0]).scaled(TRAVERSAL)
    return CallCost(found)


def _contains_cidr(call: _Call) -> CallCost | None:
    if not call.arguments:
        return None
    found = (ADDRESS_BYTES + ADDRESS_BYTES).scaled(TRAVERSAL) + ADDRESS_BYTES.scaled(TRAVERSAL) + ONE
    if call.overload == "cidr_contains_cidr_string":
        found += call.size(call.arguments[0]).scaled(TRAVERSAL)
    return CallCost(found)


def _validate(call: _Call) -> CallCost | None:
    if not call.arguments:
        return None
    return CallCost(call.size(call.arguments[0]).scaled(TRAVERSAL).scaled(FORMAT_PATTERN * PATTERN))


def _equals(call: _Call) -> CallCost | None:
    """Values of Kubernetes' own types are compared at a fixed cost."""
    if len(call.arguments) != 2 or call.arguments[0].type.name != call.arguments[1].type.name:
        return None
    kind = call.arguments[0].type
    if kind in (types.IP, types.CIDR, types.QUANTITY, types.SEMVER) or kind.name.startswith(
        "kubernetes.authorization."
    ):
        return CallCost(ONE)
    if kind == types.FORMAT:
        return CallCost(Range(1, FORMAT_NAME).scaled(TRAVERSAL))
    if kind == types.URL:
        size = call.arguments[1].size
        return CallCost(Range(1, 1 if size is None else size.high).scaled(TRAVERSAL))
    return None


# Accessors and comparisons that do not depend on any size.
_NOMINAL = (
    "serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed", "reason", "error",
    "errored", "masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast",
    "isLinkLocalUnicast", "isGlobalUnicast", "format.named", "sign", "asInteger", "isInteger", "asApproximateFloat",
    "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major", "minor", "patch", "getScheme", "getHostname",
    "getHost", "getPort", "getEscapedPath", "getQuery",
)  # fmt: skip
_Handler = Callable[[_Call], CallCost | None]
_FUNCTIONS: dict[str, _Handler] = {
    "check": _authorize,
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _aggregate),
    "includes": _includes,
    "url": _url,
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _traverse),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _read),
    "ip": _ip,
    "ip.isCanonical": _canonical,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    "_==_": _equals,
    **dict.fromkeys(_NOMINAL, _one),
}

# cel-go's list and set extensions, by overload.


def _allocating(factor: float, size: Range) -> CallCost:
    return CallCost(size.scaled(factor) + ONE + exactly(LIST_BASE), size)


def _slice(call: _Call) -> CallCost | None:
    if call.target is None or len(call.arguments) != 2:
        return None
    start = _constant(call.arguments[0].node, 0)
    end = _constant(call.arguments[1].node, call.receiver().high)
    return _allocating(1, exactly(end - start & LIMIT))


def _range(call: _Call) -> CallCost | None:
    if call.target is not None or len(call.arguments) != 1:
        return None
    return _allocating(1, exactly(_constant(call.arguments[0].node, LIMIT)))


def _reverse(call: _Call) -> CallCost | None:
    return None if call.target is None or call.arguments else _allocating(1, call.receiver())


def _flatten(call: _Call) -> CallCost | None:
    if call.target is None or len(call.arguments) > 1:
        return None
    depth = _constant(call.arguments[0].node, LIMIT) if call.arguments else 1
    return _allocating(float(depth), call.receiver())


def _distinct(call: _Call) -> CallCost | None:
    if call.target is None or call.arguments:
        return None
    return _allocating(2.0, call.receiver() * call.receiver())


def _sort(call: _Call) -> CallCost | None:
    if call.target is None:
        return None
    size = call.size(call.arguments[0]) if call.arguments else call.receiver()
    factor = 2.0 + (TRAVERSAL if call.overload.split("_")[1] in ("string", "bytes") else 0.0)
    return _allocating(factor, size * size)


def _sets(factor: float) -> _Handler:
    def cost(call: _Call) -> CallCost | None:
        if len(call.arguments) != 2:
            return None
        sizes = call.size(call.arguments[0]), call.size(call.arguments[1])
        return CallCost((sizes[0] * sizes[1]).scaled(factor) + ONE)

    return cost


_SORTS = frozenset(
    f"list_{kind}_{name}"
    for name in ("sort", "sortByAssociatedKeys")
    for kind in (
        "int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp", "string", "bytes",
    )
)  # fmt: skip
_EXTENSIONS: dict[str, _Handler] = {
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_distinct": _distinct,
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
