"""An object as bytes at rest, with the gap for its resourceVersion, and back."""

from collections.abc import Mapping
from typing import Any

import orjson

from headrace.api.objects import Fields, Object
from headrace.store.protocol import BadRequest
from headrace.store.rows import Body


def encode(obj: Object) -> Body:
    """The body of an object. apiVersion, kind and metadata come first, so that the gap needs no search."""
    rest = obj.copy()
    head = orjson.dumps({"apiVersion": rest.pop("apiVersion"), "kind": rest.pop("kind")})
    meta = rest.pop("metadata").copy()
    meta.pop("resourceVersion", None)
    after = b"," + orjson.dumps(rest)[1:] if rest else b"}"
    # Joined with %, so that the bytes kept have no spare room: what orjson returns is often over-allocated.
    return Body(
        b'%s,"metadata":{"resourceVersion":"' % head[:-1],
        b'",%s%s' % (orjson.dumps(meta)[1:], after),
    )


def decode(body: bytes) -> Object:
    obj: Object = orjson.loads(body)
    return obj


def clone(obj: Fields) -> Object:
    """A deep copy that shares nothing with what it was made from. Raises BadRequest for what is not JSON."""
    try:
        copied: Object = orjson.loads(orjson.dumps(obj, default=_plain))
    except (TypeError, orjson.JSONEncodeError) as error:
        raise BadRequest(f"the object provided is not JSON: {error}") from error
    return copied


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")
