"""Numbers that are not negative, and amounts that are a number or a percentage."""

from typing import Any

from headrace.api.objects import Fields
from headrace.objects.validation.errors import FieldErrors

NOT_NEGATIVE = "must be greater than or equal to 0"


def not_negative(obj: Fields, names: tuple[str, ...], path: str, errors: FieldErrors) -> None:
    for name in names:
        if obj.get(name, 0) < 0:
            errors.invalid(f"{path}.{name}", obj[name], NOT_NEGATIVE)


def int_or_percent(value: Any, path: str, errors: FieldErrors, *, at_most_all: bool = False) -> None:
    if isinstance(value, int):
        if value < 0:
            errors.invalid(path, value, NOT_NEGATIVE)
    elif not is_percent(value):
        errors.invalid(
            path,
            value,
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
            "used for validation is '[0-9]+%')",
        )
    elif at_most_all and int(value[:-1]) > 100:
        errors.invalid(path, value, "must not be greater than 100%")


def is_percent(value: str) -> bool:
    return value.endswith("%") and value[:-1].isascii() and value[:-1].isdigit()


def amount(value: Any) -> int:
    """The number, or that of the percentage; 0 for what is neither."""
    if isinstance(value, int):
        return value
    return int(value[:-1]) if is_percent(value) else 0
