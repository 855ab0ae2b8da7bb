"""Memoised views: an object is decoded into a frozen msgspec struct once for each of its versions."""

from typing import Generic, TypeVar

import msgspec

from headrace.api.objects import Object, uid_of, version_of

V = TypeVar("V")


class Views(Generic[V]):
    """Views of one type. The cache that owns it forgets what it no longer holds, so it never outgrows the cache."""

    def __init__(self, type: type[V]) -> None:
        self._type = type
        self._known: dict[str, tuple[str, V]] = {}

    def __call__(self, obj: Object) -> V:
        """Raises msgspec.ValidationError when the object's fields are not of the view's types."""
        uid, version = uid_of(obj), version_of(obj)
        known = self._known.get(uid)
        if known is not None and known[0] == version:
            return known[1]
        view = msgspec.convert(obj, self._type)
        if uid and version:
            self._known[uid] = (version, view)
        return view

    def forget(self, uid: str) -> None:
        self._known.pop(uid, None)
