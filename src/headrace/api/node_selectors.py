"""Whether a node matches a v1 NodeSelector: terms are ORed, the requirements inside a term are ANDed.

Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity. A term without any requirement matches nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.api.objects import Fields, metadata, name_of
from headrace.api.selectors import int64


def matches(selector: Fields, node: Fields) -> bool:
    """`selector` is a NodeSelector (`nodeSelectorTerms`), `node` a Node."""
    return any(matches_term(term, node) for term in selector.get("nodeSelectorTerms") or ())


def matches_term(term: Fields, node: Fields) -> bool:
    expressions: Sequence[Fields] = term.get("matchExpressions") or ()
    on_fields: Sequence[Fields] = term.get("matchFields") or ()
    if not expressions and not on_fields:
        return False
    labels: Mapping[str, str] = metadata(node).get("labels") or {}
    known = {"metadata.name": name_of(node)}
    return all(_holds(each, labels) for each in expressions) and all(_holds(each, known) for each in on_fields)


def _holds(requirement: Fields, values: Mapping[str, str]) -> bool:
    found = values.get(requirement["key"])
    wanted: Sequence[Any] = requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return found in wanted
        case "NotIn":
            return found not in wanted
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt":
            return _compare(found, wanted, greater=True)
        case "Lt":
            return _compare(found, wanted, greater=False)
        case _:
            return False


def _compare(found: str | None, wanted: Sequence[Any], *, greater: bool) -> bool:
    left, right = int64(found or ""), int64(str(wanted[0])) if wanted else None
    if left is None or right is None:
        return False
    return left > right if greater else left < right
