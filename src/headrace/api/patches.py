"""Merge patch (RFC 7386) and JSON patch (RFC 6902). The document that is patched is never changed; parts are shared.

A JSON patch can double a document with each `copy`, so both the number of operations and the size after each growing
one are bounded.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.api.limits import JSON_DEPTH, PATCH_OPERATIONS, PATCHED_BYTES


class BadPatch(ValueError):
    """The patch is malformed or does not apply to this document. The message is the API's answer."""


class PatchTooLarge(BadPatch):
    """The patch, or the document that it makes, is beyond a limit of `headrace.api.limits`."""


def copied(value: Any) -> Any:
    """A copy of JSON that shares nothing with it; much quicker than `copy.deepcopy`, which must expect anything."""
    kind = type(value)
    if kind is dict:
        return {name: copied(item) if type(item) in _NESTED else item for name, item in value.items()}
    if kind is list:
        return [copied(item) if type(item) in _NESTED else item for item in value]
    return value


_NESTED = (dict, list)


def merge(document: Any, patch: Any) -> Any:
    """RFC 7386: null removes, an object merges, anything else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(document) if isinstance(document, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            merged[name] = merge(merged.get(name), value)
        else:
            merged[name] = value
    return merged


def apply_json(document: Any, operations: Any) -> Any:
    """RFC 6902, all operations or none. Raises BadPatch.

    As Kubernetes' library (evanphx/json-patch v4) reads it: `replace` may add a field, a negative index counts from
    the end, the document as a whole is only replaced or tested.
    """
    if not isinstance(operations, Sequence) or isinstance(operations, (str, bytes)):
        raise BadPatch("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    if len(operations) > PATCH_OPERATIONS:
        raise PatchTooLarge(
            f"The allowed maximum operations in a JSON patch is {PATCH_OPERATIONS}, got {len(operations)}"
        )
    document = copied(document)
    size, moved = weight(document), False
    for operation in operations:
        if not isinstance(operation, Mapping):
            raise BadPatch("json: cannot unmarshal value into Go value of type jsonpatch.Operation")
        document, grown = _operate(document, operation)
        size += grown
        moved = moved or operation["op"] == "move"
        if size > PATCHED_BYTES:
            raise PatchTooLarge(f"the patched object is larger than {PATCHED_BYTES} bytes")
    if moved:  # adds no bytes, but it may add depth, which is looked at once, however often something large is moved
        weight(document)
    return document


def weight(value: Any, depth: int = 0) -> int:
    """About how many bytes of JSON a value is, and that it is not nested beyond JSON_DEPTH (raises PatchTooLarge)."""
    if depth > JSON_DEPTH:
        raise _too_deep()
    if isinstance(value, str):
        return len(value) + 2
    if isinstance(value, dict):
        return 2 + sum(len(name) + 4 + weight(item, depth + 1) for name, item in value.items())
    if isinstance(value, list):
        return 2 + sum(1 + weight(item, depth + 1) for item in value)
    return 4


def _too_deep() -> PatchTooLarge:
    return PatchTooLarge(f"the patched object is nested deeper than {JSON_DEPTH} levels")


def _operate(document: Any, operation: Mapping[str, Any]) -> tuple[Any, int]:
    """The document after one operation, and by how many bytes it may have grown."""
    name = operation.get("op")
    match name:
        case "add":
            path = _text(operation, "path", "add")
            value = copied(operation.get("value"))
            _add(_place(document, path, f'add operation does not apply: doc is missing path: "{path}"'), value, path)
            return document, weight(value, path.count("/"))
        case "remove":
            path = _text(operation, "path", "remove")
            place = _place(document, path, f'remove operation does not apply: doc is missing path: "{path}"')
            _remove(place, f"error in remove for path: '{path}'")
            return document, 0
        case "replace":
            return _replace(document, operation)
        case "move":
            return _move(document, operation)
        case "copy":
            return _copy(document, operation)
        case "test":
            path = _text(operation, "path", "test")
            found = document
            if path:
                place = _place(document, path, f"test operation does not apply: is missing path: {path}")
                found = _get(place, f"error in test for path: '{path}'")
            if not _equal(found, operation.get("value")):
                raise BadPatch(f"testing value {path} failed: test failed")
            return document, 0
    raise BadPatch(f"Unexpected kind: {name if isinstance(name, str) else 'unknown'}")


def _replace(document: Any, operation: Mapping[str, Any]) -> tuple[Any, int]:
    path, value = _text(operation, "path", "replace"), copied(operation.get("value"))
    if not path:
        if not isinstance(value, (dict, list)):
            raise BadPatch("replace operation value must be object or array")
        return value, weight(value)
    parent, key = _place(document, path, f"replace operation does not apply: doc is missing path: {path}")
    if isinstance(parent, list):
        missing = f"replace operation does not apply: doc is missing key: {path}: missing value"
        index = _index(parent, key, missing, whole_message=True)
        parent[index] = value
    else:
        parent[key] = value
    return document, weight(value, path.count("/"))


def _move(document: Any, operation: Mapping[str, Any]) -> tuple[Any, int]:
    source, path = _text(operation, "from", "move"), _text(operation, "path", "move")
    place = _place(document, source, f"move operation does not apply: doc is missing from path: {source}")
    value = _get(place, f"error in move for path: '{place[1]}'")
    _remove(place, f"error in move for path: '{place[1]}'")
    _add(_place(document, path, f"move operation does not apply: doc is missing destination path: {path}"), value, path)
    if path.count("/") > JSON_DEPTH:
        raise _too_deep()
    return document, 0


def _copy(document: Any, operation: Mapping[str, Any]) -> tuple[Any, int]:
    source, path = _text(operation, "from", "copy"), _text(operation, "path", "copy")
    place = _place(document, source, f"copy operation does not apply: doc is missing from path: {source}")
    value = _get(place, f"error in copy for from: '{source}'")
    target = _place(document, path, f"copy operation does not apply: doc is missing destination path: {path}")
    grown = weight(value, path.count("/"))
    _add(target, copied(value), path, "error while adding value during copy")
    return document, grown


Place = tuple[dict[str, Any] | list[Any], str]
"""The container that a pointer ends in, and the last step."""


def _text(operation: Mapping[str, Any], field: str, verb: str) -> str:
    text = operation.get(field)
    if not isinstance(text, str):
        raise BadPatch(f"{verb} operation failed to decode {field}: missing value")
    return text


def _place(document: Any, path: str, missing: str) -> Place:
    tokens = path.split("/")[1:]
    if not tokens:
        raise BadPatch(f"{missing}: missing value")
    for token in tokens[:-1]:
        found = _step(document, _unescaped(token))
        if not isinstance(found, (dict, list)):
            raise BadPatch(f"{missing}: missing value")
        document = found
    return document, _unescaped(tokens[-1])


def _unescaped(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~")


def _step(container: Any, key: str) -> Any:
    if isinstance(container, dict):
        return container.get(key)
    try:
        return container[_index(container, key, "")]
    except BadPatch:
        return None


def _index(items: list[Any], key: str, where: str, *, end: int = 0, whole_message: bool = False) -> int:
    if not _INTEGER.fullmatch(key):
        raise BadPatch(where if whole_message else f'{where}: strconv.Atoi: parsing "{key}": invalid syntax')
    index, size = int(key), len(items) + end
    if not -size <= index < size:
        text = f"{where}: Unable to access invalid index: {index}: invalid index referenced"
        raise BadPatch(where if whole_message else text)
    return index + size if index < 0 else index


_INTEGER = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)


def _get(place: Place, where: str) -> Any:
    container, key = place
    return container.get(key) if isinstance(container, dict) else container[_index(container, key, where)]


def _add(place: Place, value: Any, path: str, where: str = "") -> None:
    container, key = place
    where = where or f"error in add for path: '{path}'"
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    elif not _INTEGER.fullmatch(key):
        raise BadPatch(
            f"{where}: value was not a proper array index: '{key}': strconv.Atoi: parsing \"{key}\": invalid syntax"
        )
    else:
        container.insert(_index(container, key, where, end=1), value)


def _remove(place: Place, where: str) -> None:
    container, key = place
    if isinstance(container, list):
        del container[_index(container, key, where)]
    elif key in container:
        del container[key]
    else:
        raise BadPatch(f"{where}: Unable to remove nonexistent key: {key}: missing value")


def _equal(left: Any, right: Any) -> bool:
    """JSON's equality: true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)
