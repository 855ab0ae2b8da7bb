"""Validation errors collected field by field, in the words of k8s.io/apimachinery/pkg/util/validation/field."""

import json
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from headrace.api.limits import ERRORS_TEXT, ERRORS_TOLD
from headrace.store.protocol import Cause

_REASONS = {
    "FieldValueRequired": "Required value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "FieldValueNotFound": "Not found",
    "FieldValueTypeInvalid": "Invalid value",
}


class _Omitted:
    """Stands for a value that an error does not show, because it is long or not the author's own."""


OMITTED = _Omitted()


class FieldErrors:
    """What is wrong with an object, as far as anybody reads it. Paths read `spec.containers[0].name`.

    `count` is of all errors, told (in `causes`) or not.
    """

    def __init__(self) -> None:
        self.causes: list[Cause] = []
        self.count = 0
        self._room = ERRORS_TEXT

    def __bool__(self) -> bool:
        return bool(self.causes)

    @property
    def full(self) -> bool:
        """Whether what else is wrong is not told."""
        return self._room <= 0

    def required(self, path: str, detail: str = "") -> None:
        self._add("FieldValueRequired", path, OMITTED, detail)

    def invalid(self, path: str, value: Any, detail: str = "") -> None:
        self._add("FieldValueInvalid", path, value, detail)

    def type_invalid(self, path: str, value: Any, detail: str = "") -> None:
        self._add("FieldValueTypeInvalid", path, value, detail)

    def duplicate(self, path: str, value: Any, detail: str = "") -> None:
        self._add("FieldValueDuplicate", path, value, detail)

    def not_supported(self, path: str, value: Any, supported: Iterable[str]) -> None:
        listed = ", ".join(shown(each) for each in supported)
        self._add("FieldValueNotSupported", path, value, f"supported values: {listed}" if listed else "")

    def forbidden(self, path: str, detail: str) -> None:
        self._add("FieldValueForbidden", path, OMITTED, detail)

    def too_long(self, path: str, limit: int) -> None:
        self._add("FieldValueTooLong", path, OMITTED, f"may not be more than {limit} bytes")

    def too_many(self, path: str, count: int, limit: int) -> None:
        self._add("FieldValueTooMany", path, count, f"must have at most {limit} item{'' if limit == 1 else 's'}")

    def not_found(self, path: str, value: Any, detail: str = "") -> None:
        self._add("FieldValueNotFound", path, value, detail)

    def _add(self, reason: str, path: str, value: Any, detail: str) -> None:
        if self.full:
            self.count += 1
            return
        text = "" if value is OMITTED else f": {shown(value)}"
        message = f"{_REASONS[reason]}{text}{': ' if detail else ''}{detail}"
        self.tell(Cause(reason, message, path))

    def tell(self, cause: Cause) -> None:
        self.count += 1
        if self.full:
            return
        self.causes.append(cause)
        self._room -= len(cause.message)
        if self.full or len(self.causes) == ERRORS_TOLD:
            self._room = 0
            said = f"too many errors: only these {len(self.causes)} are told"
            self.causes.append(Cause("FieldValueInvalid", said, ""))


def shown(value: Any) -> str:
    """A value as Kubernetes prints it in an error; an OrderedDict stands for a Go struct."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    in_order = isinstance(value, OrderedDict)
    text = json.dumps(value, ensure_ascii=False, sort_keys=not in_order, separators=(",", ":"))
    if isinstance(value, dict | list):  # as Go's encoder writes them
        text = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return text


def summary(causes: Iterable[Cause]) -> str:
    """One text for several errors, each said once."""
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
