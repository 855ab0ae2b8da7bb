"""Tables that can be taken back: each change notes what was there before, until it is kept for good."""

from collections.abc import Hashable
from typing import Any, Final, TypeVar

_MISSING: Final = object()
_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Journal:
    """Values in the tables are never changed in place, so that noting the old one is enough."""

    def __init__(self) -> None:
        self._changes: list[tuple[dict[Any, Any], Any, Any]] = []

    def mark(self) -> int:
        return len(self._changes)

    def put(self, table: dict[_K, _V], key: _K, value: _V | None) -> None:
        """None removes."""
        self._changes.append((table, key, table.get(key, _MISSING)))
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value

    def undo(self, mark: int) -> None:
        while len(self._changes) > mark:
            table, key, before = self._changes.pop()
            if before is _MISSING:
                table.pop(key, None)
            else:
                table[key] = before

    def keep(self) -> None:
        self._changes.clear()
