"""Which node a slice or a device is for: a name, all nodes, or a node selector (core/v1 NodeSelector).

A selector that does not parse is an error, never a mismatch. Source: component-helpers, nodeaffinity.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.api.selectors import int64, label_value_errors, qualified_name_errors

Json = Mapping[str, Any]

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")


class InvalidSelector(ValueError):
    """A node selector that cannot be read; the text names the field."""


def name_of(node: Json) -> str:
    return str((node.get("metadata") or {}).get("name") or "")


def labels_of(node: Json) -> Json:
    return (node.get("metadata") or {}).get("labels") or {}


def is_for_node(holder: Json, node: Json) -> bool:
    """Whether a slice's or device's nodeName, allNodes or nodeSelector covers the node; raises InvalidSelector."""
    if holder.get("nodeName"):
        return bool(holder["nodeName"] == name_of(node))
    if holder.get("allNodes"):
        return True
    selector = holder.get("nodeSelector")
    return selector is not None and selector_matches(selector, node)


def selector_matches(selector: Json, node: Json) -> bool:
    """The terms are alternatives; a term without requirements matches nothing. Raises InvalidSelector."""
    terms = [
        (index, term)
        for index, term in enumerate(selector.get("nodeSelectorTerms") or ())
        if term.get("matchExpressions") or term.get("matchFields")
    ]
    errors = [error for index, term in terms for error in _errors(term, f"nodeSelectorTerms[{index}]")]
    if errors:
        unique = list(dict.fromkeys(errors))
        raise InvalidSelector(unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]")
    return any(_term_matches(term, node) for _, term in terms)


def _term_matches(term: Json, node: Json) -> bool:
    labels, name = labels_of(node), name_of(node)
    for requirement in term.get("matchExpressions") or ():
        if not _label_matches(requirement, labels):
            return False
    if not name:
        return True
    for requirement in term.get("matchFields") or ():
        actual = name if requirement.get("key") == "metadata.name" else ""
        if (actual == requirement["values"][0]) != (requirement["operator"] == "In"):
            return False
    return True


def _label_matches(requirement: Json, labels: Json) -> bool:
    operator: str = requirement.get("operator") or ""
    values: Sequence[str] = requirement.get("values") or ()
    actual = labels.get(requirement.get("key") or "")
    if operator == "Exists":
        return actual is not None
    if operator == "DoesNotExist":
        return actual is None
    if operator == "In":
        return actual in values
    if operator == "NotIn":
        return actual is None or actual not in values
    number, bound = int64(actual or ""), int64(values[0])
    if number is None or bound is None:
        return False
    return number > bound if operator == "Gt" else number < bound


def _quoted(values: Sequence[str] | None) -> str:
    return "null" if values is None else "[" + ",".join(f'"{value}"' for value in values) + "]"


def _errors(term: Json, path: str) -> list[str]:
    found: list[str] = []
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        found += _label_errors(requirement, f"{path}.matchExpressions[{index}]")
    for index, requirement in enumerate(term.get("matchFields") or ()):
        where, operator = f"{path}.matchFields[{index}]", requirement.get("operator") or ""
        given = requirement.get("values")
        if operator not in _FIELD_OPERATORS:
            supported = ", ".join(f'"{name}"' for name in _FIELD_OPERATORS)
            found.append(f'{where}.operator: Unsupported value: "{operator}": supported values: {supported}')
        elif len(given or ()) != 1:
            found.append(f"{where}.values: Invalid value: {_quoted(given)}: must have one element")
    return found


def _label_errors(requirement: Json, where: str) -> list[str]:
    operator, given = requirement.get("operator") or "", requirement.get("values")
    values: Sequence[str] = given or ()
    if operator not in _OPERATORS:
        supported = ", ".join(f'"{name}"' for name in _OPERATORS)
        return [f'{where}.operator: Unsupported value: "{operator}": supported values: {supported}']
    found = []
    key = requirement.get("key") or ""
    if wrong := qualified_name_errors(key):
        words = "; ".join(wrong).replace("a qualified name", "a valid label key")
        found.append(f'{where}.key: Invalid value: "{key}": {words}')
    if operator in ("In", "NotIn") and not values:
        words = "for 'in', 'notin' operators, values set can't be empty"
        found.append(f"{where}.values: Invalid value: {_quoted(given)}: {words}")
    if operator in ("Exists", "DoesNotExist") and values:
        found.append(
            f"{where}.values: Invalid value: {_quoted(values)}: values set must be empty for exists and does not exist"
        )
    if operator in ("Gt", "Lt"):
        if len(values) != 1:
            found.append(
                f"{where}.values: Invalid value: {_quoted(given)}: "
                "for 'Gt', 'Lt' operators, exactly one value is required"
            )
        found += [
            f'{where}.values[{index}]: Invalid value: "{value}": '
            "for 'Gt', 'Lt' operators, the value must be an integer"
            for index, value in enumerate(values)
            if int64(value) is None
        ]
    found += [
        f'{where}.values[{index}][{key}]: Invalid value: "{value}": {"; ".join(wrong)}'
        for index, value in enumerate(values)
        if (wrong := label_value_errors(value))
    ]
    return found
