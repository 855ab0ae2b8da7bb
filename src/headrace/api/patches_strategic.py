"""Strategic merge patch: lists merge by the keys that the schema names, and `$patch` directives say what else to do.

Equal to k8s.io/apimachinery/pkg/util/strategicpatch, errors included. Neither the object nor the patch is changed.
Elements of lists are found by what they are or by their merge key, never by walking along the list.
"""

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from heapq import heappop, heappush
from typing import Any

from headrace.api.patches import BadPatch, copied
from headrace.api.sameness import as_key

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_PREFIX = "$deleteFromPrimitiveList"
ORDER_PREFIX = "$setElementOrder"

Schema = Mapping[str, Any]
Resolve = Callable[[Schema], Schema]
"""A schema with its $ref followed (and `allOf` of one unwrapped)."""


def apply(original: Mapping[str, Any], patch: Any, schema: Schema, resolve: Resolve) -> dict[str, Any]:
    """Patch `original`, whose schema is `schema` (OpenAPI v3 with x-kubernetes-patch-* keys). Raises BadPatch."""
    if not isinstance(patch, Mapping):
        raise BadPatch("invalid JSON document")
    return _Merger(resolve).objects(copied(dict(original)), copied(dict(patch)), schema)


class _Merger:
    def __init__(self, resolve: Resolve) -> None:
        self.resolve = resolve

    def objects(self, original: dict[str, Any], patch: dict[str, Any], schema: Schema) -> dict[str, Any]:
        if DIRECTIVE in patch:
            return _directed(patch)
        _retain_keys(original, patch)
        self._ordered_lists(original, patch, schema)
        for given, value in patch.items():
            deleting = given.startswith(DELETE_PREFIX)
            name = _prefixed(given, DELETE_PREFIX) if deleting else given
            if value is None:
                original.pop(name, None)
            elif name not in original or _go_type(original[name]) != _go_type(value):
                if not deleting:
                    _replace(original, name, value)
            elif isinstance(value, dict):
                child, strategy, _ = self._field(schema, name)
                merging = strategy != "replace"
                original[name] = self.objects(original[name], value, child) if merging else value
            elif isinstance(value, list):
                child, strategy, key = self._items(schema, name)
                merging = strategy == "merge" or deleting
                original[name] = self.lists(original[name], value, child, key, deleting) if merging else value
            else:
                original[name] = value
        return original

    def lists(
        self, original: list[Any], patch: list[Any], schema: Schema, key: str, deleting: bool = False
    ) -> list[Any]:
        if not original and not patch:
            return original
        of_objects = _element_type(original, patch) == "map"
        if not of_objects:
            if deleting:
                gone = set(map(_identity, patch))
                return [item for item in original if _identity(item) not in gone]
            merged = _distinct(original + patch)
        else:
            if not key:
                raise BadPatch(f"cannot merge lists without merge key for {schema.get('type', 'struct')}")
            original, patch = _without_directives(original, patch, key)
            merged = self._merge_items(original, patch, schema, key)
        inside, outside = _partition(merged, patch, key)
        return _interleave(inside, outside, patch, original, key, of_objects)

    def _merge_items(self, original: list[Any], patch: list[Any], schema: Schema, key: str) -> list[Any]:
        merged = list(original)
        known = _ByKey(merged, key)
        for item in patch:
            value = _key_value(item, key)
            at = known.find(value)
            if at is None:
                known.add(item, len(merged))
                merged.append(item)
            else:
                merged[at] = self.objects(merged[at], item, schema)
                if key not in merged[at]:  # null took it away
                    known.forget(value)
        return merged

    def _ordered_lists(self, original: dict[str, Any], patch: dict[str, Any], schema: Schema) -> None:
        """Lists with a `$setElementOrder/…` beside them: merged, then put in that order."""
        for directive in [name for name in patch if name.startswith(ORDER_PREFIX)]:
            order = patch.pop(directive)
            if not isinstance(order, list):
                raise _bad_type("[]interface {}", order)
            name = _prefixed(directive, ORDER_PREFIX)
            live, given = original.get(name), patch.get(name)
            for value in (original.get(name, []), patch.get(name, [])):
                if not isinstance(value, list):
                    raise _bad_type("[]interface {}", value)
            child, strategy, key = self._items(schema, name)
            _check_order(given or [], order, key)
            if given is None and live is None:
                continue
            if given is None:
                merged = list(live or [])
            elif live is None:
                merged = _cleaned(given)
            elif strategy == "merge":
                merged = self.lists(live, given, child, key)
            else:
                merged = given
            inside, outside = _partition(merged, order, key)
            of_objects = _element_type(live or [], given or []) == "map"
            original[name] = _interleave(inside, outside, order, live or [], key, of_objects)
            patch.pop(name, None)

    def _field(self, schema: Schema, name: str) -> tuple[Schema, str, str]:
        """Schema, strategy (without retainKeys) and merge key of a field. A map of objects cannot be merged into."""
        properties = schema.get("properties")
        if not properties:
            raise BadPatch("merging an object in json but data type is not struct, instead is: map")
        field = properties.get(name)
        if field is None:
            raise BadPatch(f'unable to find api field in struct {_struct_name(schema)} for the json field "{name}"')
        strategies = [part for part in field.get("x-kubernetes-patch-strategy", "").split(",") if part != "retainKeys"]
        return (
            self.resolve(field),
            strategies[0] if strategies else "",
            field.get("x-kubernetes-patch-merge-key", ""),
        )

    def _items(self, schema: Schema, name: str) -> tuple[Schema, str, str]:
        child, strategy, key = self._field(schema, name)
        return self.resolve(child.get("items", {})), strategy, key


def _struct_name(schema: Schema) -> str:
    return str(schema.get("x-headrace-name", "")).rpartition(".")[2] or "Struct"


def _directed(patch: dict[str, Any]) -> dict[str, Any]:
    directive = patch.pop(DIRECTIVE)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    raise BadPatch(f"unknown patch type: {directive} in map: {patch}")


def _retain_keys(original: dict[str, Any], patch: dict[str, Any]) -> None:
    if RETAIN_KEYS not in patch:
        return
    kept = patch.pop(RETAIN_KEYS)
    if not isinstance(kept, list):
        raise BadPatch("invalid patch format of retainKeys")
    for name, value in patch.items():
        if value is None or name.startswith((DELETE_PREFIX, ORDER_PREFIX)):
            continue
        if name not in kept:
            raise BadPatch("invalid patch format of retainKeys")
    for name in [name for name in original if name not in kept]:
        del original[name]


def _prefixed(name: str, prefix: str) -> str:
    head, slash, rest = name.partition("/")
    if not slash or head != prefix:
        what = "primitive list" if prefix == DELETE_PREFIX else "setElementOrder list"
        raise BadPatch(f"invalid patch format of {what}")
    return rest


def _replace(original: dict[str, Any], name: str, value: Any) -> None:
    """Take the patch's value as it is, without its directives and nulls."""
    _discard_nulls(value)
    kept, value = _undirected(value)
    if kept:
        original[name] = value
    else:
        original.pop(name, None)


def _discard_nulls(value: Any) -> None:
    if isinstance(value, dict):
        for name in [name for name, item in value.items() if item is None]:
            del value[name]
        for item in value.values():
            _discard_nulls(item)
    elif isinstance(value, list):
        for item in value:
            _discard_nulls(item)


def _undirected(value: Any) -> tuple[bool, Any]:
    """Whether to keep a value of a patch, and the value with what has directives taken out."""
    if isinstance(value, dict):
        if DIRECTIVE in value:
            return False, None
        pairs = [(name, _undirected(item)) for name, item in value.items()]
        return True, {name: item for name, (kept, item) in pairs if kept}
    if isinstance(value, list):
        return True, [item for kept, item in map(_undirected, value) if kept]
    return True, value


def _cleaned(items: list[Any]) -> list[Any]:
    return [item for kept, item in map(_undirected, items) if kept]


def _go_type(value: Any) -> str:
    if isinstance(value, dict):
        return "map"
    if isinstance(value, list):
        return "slice"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, float):
        return "float64"
    return "nil" if value is None else "string"


def _identity(value: Any) -> Hashable:
    """What is the same has the same: true is not 1."""
    return _go_type(value), as_key(value)


def _same(left: Any, right: Any) -> bool:
    return _identity(left) == _identity(right)


def _bad_type(expected: str, value: Any) -> BadPatch:
    names = {"map": "map[string]interface {}", "slice": "[]interface {}", "nil": "%!s(<nil>)"}
    return BadPatch(f"expected a {expected}, but received a {names.get(_go_type(value), _go_type(value))}")


def _element_type(*lists: list[Any]) -> str:
    found = ""
    for items in lists:
        for item in items:
            kind = _go_type(item)
            if not found and kind == "slice":
                raise BadPatch("lists of lists are not supported")
            if found and kind != found:
                raise BadPatch(f"list element types are not identical: {list(lists)}")
            found = kind
    if not found:
        raise BadPatch("no elements in any of the given slices")
    return found


def _key_value(item: Any, key: str) -> Any:
    if not isinstance(item, dict):
        raise _bad_type("map[string]interface {}", item)
    if key not in item:
        raise BadPatch(f"map: {item} does not contain declared merge key: {key}")
    return item[key]


class _ByKey:
    """Where the items of a list are, by their merge keys; the first counts."""

    def __init__(self, items: list[Any], key: str) -> None:
        self._key = key
        self._places: dict[Hashable, deque[int]] = {}
        self._no_map: int | None = None
        for at, item in enumerate(items):
            self.add(item, at)

    def add(self, item: Any, at: int) -> None:
        if not isinstance(item, dict):
            self._no_map = at if self._no_map is None else self._no_map
        elif self._key in item:
            self._places.setdefault(_identity(item[self._key]), deque()).append(at)

    def find(self, value: Any) -> int | None:
        places = self._places.get(_identity(value))
        at = places[0] if places else None
        if self._no_map is not None and (at is None or self._no_map < at):
            raise BadPatch(f"value for key {self._no_map} is not a map")
        return at

    def forget(self, value: Any) -> None:
        """The first with this key has it no longer."""
        self._places[_identity(value)].popleft()


def _distinct(items: list[Any]) -> list[Any]:
    """Scalars without repetition, in the order in which the Go library leaves them: a hole is filled from the end."""
    items, known = list(items), list(map(_identity, items))
    places: dict[Hashable, list[int]] = {}  # heaps; a place where something else is by now does not count
    for at, identity in enumerate(known):
        places.setdefault(identity, []).append(at)
    at = 0
    while at < len(items):
        others = places[known[at]]
        while others:
            other = heappop(others)
            if not at < other < len(items) or known[other] != known[at]:
                continue
            last, moved = items.pop(), known.pop()
            if other < len(items):
                items[other], known[other] = last, moved
                heappush(places[moved], other)
        at += 1
    return items


def _without_directives(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Items with `$patch: delete` leave the list, `$patch: replace` empties it; the rest of the patch merges."""
    plain, gone, replacing = [], set(), False
    for item in patch:
        if DIRECTIVE not in item:
            plain.append(item)
            continue
        match item[DIRECTIVE]:
            case "delete":
                gone.add(_identity(_key_value(item, key)))
            case "replace":
                replacing = True
            case "merge":
                raise BadPatch("merging lists cannot yet be specified in the patch")
            case unknown:
                raise BadPatch(f"unknown patch type: {unknown} in map: {item}")
    if replacing:
        return plain, []
    return [item for item in original if key not in item or _identity(item[key]) not in gone], plain


def _partition(items: list[Any], by: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    inside: list[Any] = []
    outside: list[Any] = []
    if key:
        known = _ByKey(by, key)
        for item in items:
            (outside if known.find(_key_value(item, key)) is None else inside).append(item)
    else:
        those = set(map(_identity, by))
        for item in items:
            (inside if _identity(item) in those else outside).append(item)
    return inside, outside


def _positions(order: list[Any], key: str, of_objects: bool) -> Callable[[Any], int]:
    """Finds where an item (or one with its key) is in `order`; -1 where it is not."""

    def identity(item: Any) -> Hashable:
        return _identity((item.get(key) if isinstance(item, dict) else None) if of_objects else item)

    known: dict[Hashable, int] = {}
    for at, other in enumerate(order):
        known.setdefault(identity(other), at)
    return lambda item: known.get(identity(item), -1)


def _interleave(
    patched: list[Any], live: list[Any], patch_order: list[Any], live_order: list[Any], key: str, of_objects: bool
) -> list[Any]:
    """Both parts in their own order; between them an item of `live` goes first where the live order says so."""
    patched = _sorted(patched, patch_order, key, of_objects)
    live = _sorted(live, live_order, key, of_objects)
    position = _positions(live_order, key, of_objects)
    result: list[Any] = []
    i = j = 0
    while i < len(live) and j < len(patched):
        left, right = position(live[i]), position(patched[j])
        if 0 <= left < right:
            result.append(live[i])
            i += 1
        else:
            result.append(patched[j])
            j += 1
    return result + live[i:] + patched[j:]


def _sorted(items: list[Any], order: list[Any], key: str, of_objects: bool) -> list[Any]:
    if of_objects:
        for item in (*items, *order):
            _key_value(item, key)
    return sorted(items, key=_positions(order, key, of_objects))


def _check_order(patch: list[Any], order: list[Any], key: str) -> None:
    """The patch's items must appear in the order list, in the same relative order."""
    if not patch or not order:
        return
    if key:
        for item in patch:
            if not isinstance(item, dict):
                raise _bad_type("map[string]interface {}", item)
    wanted = [item for item in patch if item.get(DIRECTIVE) != "delete"] if key else patch
    at = 0
    for ordered in order:
        while at < len(wanted) and isinstance(wanted[at], dict) and DIRECTIVE in wanted[at]:
            at += 1
        if at == len(wanted):
            break
        equal = _same(_key_value(wanted[at], key), _key_value(ordered, key)) if key else _same(wanted[at], ordered)
        at += equal
    if at < len(wanted):
        raise BadPatch(f"The order in patch list:\n{patch}\n doesn't match {ORDER_PREFIX} list:\n{order}\n")
