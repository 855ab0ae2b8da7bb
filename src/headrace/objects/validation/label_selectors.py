"""The rules of a LabelSelector inside an object (apimachinery's meta/v1/validation)."""

from typing import Any

from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.metadata import validate_labels


def validate_label_selector(selector: dict[str, Any], path: str, errors: FieldErrors) -> None:
    validate_labels(selector.get("matchLabels") or {}, f"{path}.matchLabels", errors)
    for at, each in enumerate(selector.get("matchExpressions") or ()):
        here = f"{path}.matchExpressions[{at}]"
        operator, values = each.get("operator", ""), each.get("values") or []
        if operator in ("In", "NotIn"):
            if not values:
                errors.required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                errors.forbidden(f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        else:
            errors.invalid(f"{here}.operator", operator, "not a valid selector operator")
        for message in names.qualified_name_errors(each.get("key", "")):
            errors.invalid(f"{here}.key", each.get("key", ""), message)
        for number, value in enumerate(values):
            for message in names.label_value_errors(value):
                errors.invalid(f"{here}.values[{number}]", value, message)
