"""Admin access to devices, in use or not: only in namespaces that an administrator has labelled for it.

Source: KEP-5018, pkg/registry/resource/utils.go of Kubernetes 1.37.
"""

from collections.abc import Sequence

from headrace.api import kinds
from headrace.api.objects import Fields, Object
from headrace.objects.bodies import decode
from headrace.objects.validation.errors import FieldErrors
from headrace.store.rows import Key, Rows

LABEL = "resource.kubernetes.io/admin-access"


def judge_admin_access(rows: Rows, obj: Object, old: Object | None, claim_spec: Fields, errors: FieldErrors) -> None:
    """A new claim or template that asks for it, or the allocation of a claim that grants it first.

    What a claim asks for never changes, so only its allocation is judged again.
    """
    path = _asked(claim_spec) if old is None else ""
    if old is not None and not _granted(old):
        path = _granted(obj)
    if not path:
        return
    row = rows.get(Key(kinds.NAMESPACE.resource, "", obj["metadata"]["namespace"]))
    labels: Fields = (decode(row.body)["metadata"].get("labels") or {}) if row is not None else {}
    if labels.get(LABEL) != "true":
        errors.forbidden(
            path, f"admin access to devices requires the `{LABEL}: true` label on the containing namespace"
        )


def _asked(claim_spec: Fields) -> str:
    """The path of the first request that asks for it; alternatives cannot."""
    requests: Sequence[Fields] = (claim_spec.get("devices") or {}).get("requests") or ()
    for at, request in enumerate(requests):
        if (request.get("exactly") or {}).get("adminAccess"):
            return f"spec.devices.requests[{at}].adminAccess"
    return ""


def _granted(claim: Object) -> str:
    allocation: Fields = (claim.get("status") or {}).get("allocation") or {}
    results: Sequence[Fields] = (allocation.get("devices") or {}).get("results") or ()
    for at, result in enumerate(results):
        if result.get("adminAccess"):
            return f"status.allocation.devices.results[{at}].adminAccess"
    return ""
