"""Kubernetes' authorization functions. A device selector has no authorizer to call them on, but they are declared:

an attribute of unknown type may be given to them, and then fails when it is evaluated.
"""

from headrace.cel.declarations import Function, function, method
from headrace.cel.values import Value, no_overload

_GROUP = "kubernetes.authorization."


def _never(*_: Value) -> Value:
    return no_overload()


def _method(name: str, id: str, receiver: str, arguments: int, result: str) -> Function:
    returned = result if result in ("bool", "string") else _GROUP + result
    taken = ", ".join([_GROUP + receiver] + ["string"] * arguments)
    return function(name, method(id, f"{taken} -> {returned}", _never))


FUNCTIONS: tuple[Function, ...] = (
    _method("path", "authorizer_path", "Authorizer", 1, "PathCheck"),
    _method("check", "pathcheck_check", "PathCheck", 1, "Decision"),
    _method("group", "authorizer_group", "Authorizer", 1, "GroupCheck"),
    _method("serviceAccount", "authorizer_serviceaccount", "Authorizer", 2, "Authorizer"),
    _method("resource", "groupcheck_resource", "GroupCheck", 1, "ResourceCheck"),
    _method("subresource", "resourcecheck_subresource", "ResourceCheck", 1, "ResourceCheck"),
    _method("namespace", "resourcecheck_namespace", "ResourceCheck", 1, "ResourceCheck"),
    _method("name", "resourcecheck_name", "ResourceCheck", 1, "ResourceCheck"),
    _method("check", "resourcecheck_check", "ResourceCheck", 1, "Decision"),
    _method("fieldSelector", "authorizer_fieldselector", "ResourceCheck", 1, "ResourceCheck"),
    _method("labelSelector", "authorizer_labelselector", "ResourceCheck", 1, "ResourceCheck"),
    _method("errored", "decision_errored", "Decision", 0, "bool"),
    _method("error", "decision_error", "Decision", 0, "string"),
    _method("allowed", "decision_allowed", "Decision", 0, "bool"),
    _method("reason", "decision_reason", "Decision", 0, "string"),
)
