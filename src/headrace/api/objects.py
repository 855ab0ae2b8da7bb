"""An object as code holds it: the decoded JSON, every unknown field kept. Code reads fields through small views."""

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]
"""A whole API object. Treat what a cache or a store hands out as immutable; what you change, you copy or patch."""

NAME_CHARACTERS = 253

Fields = Mapping[str, Any]
"""The part of an object that a patch carries."""


def metadata(obj: Fields) -> Fields:
    found: Fields = obj.get("metadata") or {}
    return found


def name_of(obj: Fields) -> str:
    return str(metadata(obj).get("name", ""))


def namespace_of(obj: Fields) -> str:
    return str(metadata(obj).get("namespace", ""))


def uid_of(obj: Fields) -> str:
    return str(metadata(obj).get("uid", ""))


def version_of(obj: Fields) -> str:
    """The resourceVersion: opaque text to everyone but its home."""
    return str(metadata(obj).get("resourceVersion", ""))


def marked_name(text: str, mark: str) -> str:
    """`text-mark`, the text cut where that is longer than a name may be (RFC 1123), and never just behind a dot."""
    return f"{text[: NAME_CHARACTERS - len(mark) - 1].rstrip('.')}-{mark}"


def key_of(obj: Fields) -> str:
    """`namespace/name`, or `name` for cluster-scoped objects."""
    meta: Fields = obj.get("metadata") or {}
    namespace, name = meta.get("namespace"), meta.get("name", "")
    return f"{namespace}/{name}" if namespace else str(name)
