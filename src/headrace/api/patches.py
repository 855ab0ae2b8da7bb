"""Merge patch (RFC 7386) and JSON patch (RFC 6902). The document that is patched is never changed; parts are shared.

A JSON patch can double a document with each `copy`, so both the number of operations and the size after each growing
one are bounded.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.api.limits import JSON_DEPTH, PATCH_OPERATIONS, PATCHED_BYTES


class BadPatch(ValueError):
    """The patch is malformed or does not apply to this document. The message is the API's answer."""


class PatchTooLarge(BadPatch):
    """The patch, or the document that it makes, is beyond a limit of `headrace.api.limits`."""


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
    """RFC 6902, all operations or none. Raises BadPatch in the words of Kubernetes' library (evanphx/json-patch)."""
    if not isinstance(operations, Sequence) or isinstance(operations, (str, bytes)):
        raise BadPatch("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    if len(operations) > PATCH_OPERATIONS:
        raise PatchTooLarge(
            f"The allowed maximum operations in a JSON patch is {PATCH_OPERATIONS}, got {len(operations)}"
        )
    document = copy.deepcopy(document)
    size = weight(document)
    for operation in operations:
        if not isinstance(operation, Mapping):
            raise BadPatch("json: cannot unmarshal value into Go value of type jsonpatch.Operation")
        document, grown = _operate(document, operation)
        size += grown
        if size > PATCHED_BYTES:
            raise PatchTooLarge(f"the patched object is larger than {PATCHED_BYTES} bytes")
    return document


def weight(value: Any, depth: int = 0) -> int:
    """About how many bytes of JSON a value is, and that it is not nested beyond JSON_DEPTH (raises PatchTooLarge)."""
    if depth > JSON_DEPTH:
        raise PatchTooLarge(f"the patched object is nested deeper than {JSON_DEPTH} levels")
    if isinstance(value, str):
        return len(value) + 2
    if isinstance(value, dict):
        return 2 + sum(len(name) + 4 + weight(item, depth + 1) for name, item in value.items())
    if isinstance(value, list):
        return 2 + sum(1 + weight(item, depth + 1) for item in value)
    return 4


def _operate(document: Any, operation: Mapping[str, Any]) -> tuple[Any, int]:
    """The document after one operation, and by how many bytes it may have grown."""
    name = operation.get("op")
    path = _pointer(operation.get("path"), "path")
    match name:
        case "add":
            value = copy.deepcopy(_value(operation))
            return _add(document, path, value, operation["path"], "add"), weight(value, len(path))
        case "remove":
            return _remove(document, path, operation["path"], "remove")[0], 0
        case "replace":
            value = copy.deepcopy(_value(operation))
            if path:
                _get(document, path, operation["path"], "replace")
                _set(document, path, value)
                return document, weight(value, len(path))
            return value, weight(value)
        case "move":
            source = _pointer(operation.get("from"), "from")
            if path[: len(source)] == source and path != source:
                raise BadPatch(f"move operation: {operation['from']} cannot be moved into itself")
            document, value = _remove(document, source, operation["from"], "move")
            # A move adds no bytes, but it may add depth.
            weight(value, len(path))
            return _add(document, path, value, operation["path"], "move"), 0
        case "copy":
            source = _pointer(operation.get("from"), "from")
            value = copy.deepcopy(_get(document, source, operation["from"], "copy"))
            return _add(document, path, value, operation["path"], "copy"), weight(value, len(path))
        case "test":
            if not _equal(_get(document, path, operation["path"], "test", missing=None), operation.get("value")):
                raise BadPatch(f"testing value {operation['path']} failed: test failed")
            return document, 0
    raise BadPatch(f"Unexpected kind: {name if isinstance(name, str) else 'unknown'}")


def _pointer(text: Any, field: str) -> list[str]:
    if not isinstance(text, str):
        raise BadPatch(f"json patch operation without {field}")
    if not text:
        return []
    if not text.startswith("/"):
        raise BadPatch(f"json pointer {text!r} must be empty or start with '/'")
    return [token.replace("~1", "/").replace("~0", "~") for token in text[1:].split("/")]


def _value(operation: Mapping[str, Any]) -> Any:
    if "value" not in operation:
        raise BadPatch(f"{operation['op']} operation for path {operation['path']!r}: value is missing")
    return operation["value"]


def _missing(verb: str, path: str) -> BadPatch:
    return BadPatch(f"{verb} operation does not apply: doc is missing path: {path}: missing value")


_RAISE: Any = object()


def _get(document: Any, tokens: list[str], path: str, verb: str, missing: Any = _RAISE) -> Any:
    """The value there; `missing` where only the last step is absent (how `test` compares with null)."""
    for position, token in enumerate(tokens):
        last = position == len(tokens) - 1
        if isinstance(document, dict) and token in document:
            document = document[token]
        elif isinstance(document, list):
            document = document[_index(document, token, path, verb)]
        elif isinstance(document, dict) and last and missing is not _RAISE:
            return missing
        else:
            raise _missing(verb, path)
    return document


def _index(items: list[Any], token: str, path: str, verb: str, *, end: int = 0) -> int:
    if not (token.isascii() and token.isdigit()) or (len(token) > 1 and token[0] == "0") or len(token) > 9:
        raise BadPatch(f'{verb} operation does not apply: {path}: strconv.Atoi: parsing "{token}": invalid syntax')
    index = int(token)
    if index >= len(items) + end:
        raise BadPatch(f"{verb} operation does not apply: {path}: Unable to access invalid index: {index}")
    return index


def _parent(document: Any, tokens: list[str], path: str, verb: str) -> Any:
    try:
        parent = _get(document, tokens[:-1], path, verb)
    except BadPatch as error:
        raise _missing(verb, path) from error
    if not isinstance(parent, (dict, list)):
        raise _missing(verb, path)
    return parent


def _add(document: Any, tokens: list[str], value: Any, path: str, verb: str) -> Any:
    if not tokens:
        return value
    parent = _parent(document, tokens, path, verb)
    if isinstance(parent, dict):
        parent[tokens[-1]] = value
    elif tokens[-1] == "-":
        parent.append(value)
    else:
        parent.insert(_index(parent, tokens[-1], path, verb, end=1), value)
    return document


def _set(document: Any, tokens: list[str], value: Any) -> None:
    parent = _get(document, tokens[:-1], "", "replace")
    parent[int(tokens[-1]) if isinstance(parent, list) else tokens[-1]] = value


def _remove(document: Any, tokens: list[str], path: str, verb: str) -> tuple[Any, Any]:
    if not tokens:
        raise BadPatch(f"{verb} operation does not apply: the whole document cannot be removed")
    parent = _parent(document, tokens, path, verb)
    if isinstance(parent, list):
        return document, parent.pop(_index(parent, tokens[-1], path, verb))
    if tokens[-1] not in parent:
        raise _missing(verb, path)
    return document, parent.pop(tokens[-1])


def _equal(left: Any, right: Any) -> bool:
    """JSON's equality: true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)
