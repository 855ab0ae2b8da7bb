"""Who may write which part of a claim's status: what is allocated and reserved, and what a driver says of its devices.

The rights are asked for as resources of their own: `resourceclaims/binding`, and `resourceclaims/driver` by the name of
the driver with the verb `associated-node:VERB` (a writer on the node of the allocation) or `arbitrary-node:VERB`.
Source: KEP-4817, pkg/registry/resource/utils.go of Kubernetes 1.37.
"""

from collections.abc import Sequence

from headrace.api.objects import Fields, Object
from headrace.objects.caller import Caller
from headrace.objects.validation.errors import FieldErrors

BINDING, DRIVER = "resourceclaims/binding", "resourceclaims/driver"
ASSOCIATED, ARBITRARY = "associated-node:", "arbitrary-node:"


def judge_claim_status(verb: str, obj: Object, old: Object, caller: Caller, errors: FieldErrors) -> None:
    """Only what changes needs a right."""
    now: Fields = obj.get("status") or {}
    was: Fields = old.get("status") or {}
    changes_binding = any((now.get(part) or None) != (was.get(part) or None) for part in ("allocation", "reservedFor"))
    if changes_binding and not caller.may(verb, BINDING, ""):
        what = "changing status.allocation or status.reservedFor"
        errors.forbidden("status.allocation", _needs(what, BINDING, (verb,), "", caller))
    verbs: tuple[str, ...] = (f"{ARBITRARY}{verb}",)
    if caller.node and caller.node == node_of(now.get("allocation") or {}):
        verbs = (f"{ASSOCIATED}{verb}", *verbs)
    for driver in sorted(_changed_drivers(now, was)):
        if not any(caller.may(each, DRIVER, driver) for each in verbs):
            errors.forbidden("status.devices", _needs("changing status.devices", DRIVER, verbs, driver, caller))


def _needs(what: str, resource: str, verbs: tuple[str, ...], name: str, caller: Caller) -> str:
    told = verbs[0] if resource == BINDING else f"[{' '.join(verbs)}]"
    named = f' "{name}"' if name else ""
    why = f'User "{caller.user}" cannot {verbs[0]} resource "{resource}"{named} in API group "resource.k8s.io"'
    return f'{what} requires resource="{resource}", verb="{told}" permission: {why}'


def node_of(allocation: Fields) -> str:
    """The one node that an allocation is for by name; empty: it is for several."""
    terms: Sequence[Fields] = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
    fields: Sequence[Fields] = [field for term in terms for field in term.get("matchFields") or ()]
    if len(terms) != 1 or len(fields) != 1 or any(term.get("matchExpressions") for term in terms):
        return ""
    field = fields[0]
    values: Sequence[str] = field.get("values") or ()
    is_name = field.get("key") == "metadata.name" and field.get("operator") == "In" and len(values) == 1
    return str(values[0]) if is_name else ""


def _changed_drivers(now: Fields, was: Fields) -> set[str]:
    before = {_identity(each): each for each in was.get("devices") or ()}
    after = {_identity(each): each for each in now.get("devices") or ()}
    return {key[0] for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def _identity(device: Fields) -> tuple[str, ...]:
    return tuple(str(device.get(part) or "") for part in ("driver", "pool", "device", "shareID"))
