"""What Kubernetes' admission plug-ins decide: namespaces that exist and are not ending (NamespaceLifecycle)."""

from headrace.api import kinds
from headrace.api.objects import Object
from headrace.objects import refusals
from headrace.objects.bodies import decode
from headrace.objects.home import Home
from headrace.objects.registry import Served
from headrace.store.protocol import Forbidden
from headrace.store.rows import Key

IMMORTAL = ("default", "kube-system", "kube-public")


class NamespaceTerminating(Forbidden):
    """Nothing new in a namespace that is ending; HTTP adds the cause `NamespaceTerminating`."""


def admit_new(home: Home, served: Served, obj: Object) -> None:
    if served.ending:
        name = obj["metadata"].get("name", "")
        why = "create not allowed while custom resource definition is terminating"
        raise refusals.forbidden(served.kind, name, why)
    if served.kind.namespaced:
        _namespace_is_open(home, served, obj)
    served.strategy.admit_new(home.rows, obj)


def _namespace_is_open(home: Home, served: Served, obj: Object) -> None:
    namespace = obj["metadata"]["namespace"]
    row = home.rows.get(Key(kinds.NAMESPACE.resource, "", namespace))
    if row is None:
        raise refusals.not_found(kinds.NAMESPACE, namespace)
    if b'"deletionTimestamp"' in row.body and decode(row.body)["metadata"].get("deletionTimestamp"):
        name = obj["metadata"].get("name", "")
        raise NamespaceTerminating(
            f'{served.kind.resource} "{name}" is forbidden: unable to create new content in namespace {namespace} '
            "because it is being terminated"
        )
