"""What happens to claims around their allocation: made from templates, released when nobody uses them (pure).

Source: the ResourceClaim controller of kube-controller-manager 1.37. Names of generated claims are computed from the
Pod's uid, so that a plan made twice creates one claim.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.api.kinds import POD, RESOURCE_CLAIM
from headrace.api.objects import Fields, Object, marked_name, metadata, name_of, namespace_of, uid_of, version_of
from headrace.runtime.actions import Action, Create, Delete, Event, Patch
from headrace.store.protocol import Deletion, Preconditions

POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
FINALIZER = "resource.kubernetes.io/delete-protection"
FINAL_PHASES = ("Succeeded", "Failed")
RESERVED_LIMIT = 256


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A Pod, the templates it names (None where one does not exist) and the claims of its entries that exist."""

    pod: Object
    templates: Mapping[str, Object | None]
    claims: Mapping[str, Object]


@dataclass(frozen=True, slots=True)
class ClaimSeen:
    """A claim and the Pods of its namespace that reservedFor or an owner reference names, by uid.

    `unconfirmed`: Pods that are gone but may still run, by uid, with the node that has not confirmed their end.
    """

    claim: Object
    pods: Mapping[str, Object]
    unconfirmed: Mapping[str, str] = field(default_factory=dict)


def is_done(pod: Fields | None) -> bool:
    """Whether a Pod will not use its claims (again): gone, finished, or deleted before it was ever placed."""
    if pod is None:
        return True
    if (pod.get("status") or {}).get("phase") in FINAL_PHASES:
        return True
    return bool(metadata(pod).get("deletionTimestamp")) and not (pod.get("spec") or {}).get("nodeName")


def generated_name(pod: Fields, entry: str) -> str:
    """`trainer-gpu-5f3a1c…`: within 253 characters, the same for the same Pod and entry, another for another Pod."""
    mark = hashlib.sha256(f"{uid_of(pod)}/{entry}".encode()).hexdigest()[:8]
    return marked_name(f"{name_of(pod)}-{entry}", mark)


def claim_of_entry(pod: Fields, entry: Fields) -> str | None:
    """The claim behind an entry of `spec.resourceClaims`: as written, or as the status records it; None if not yet."""
    if entry.get("resourceClaimName"):
        return str(entry["resourceClaimName"])
    for status in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
        if status["name"] == entry["name"] and status.get("resourceClaimName"):
            return str(status["resourceClaimName"])
    return None


def is_owned_by(claim: Fields, pod: Fields) -> bool:
    return any(each.get("controller") and each.get("uid") == uid_of(pod) for each in owners(claim))


def owners(obj: Fields) -> Sequence[Fields]:
    found: Sequence[Fields] = metadata(obj).get("ownerReferences") or ()
    return found


def plan_pod(seen: PodSeen, now: float) -> tuple[Action, ...]:
    """Make the claims that a Pod's templates ask for, then record their names in its status, in one write.

    Claims of a Pod that came to its node without the scheduler (`spec.nodeName` as given) are reserved for it here.
    """
    del now
    pod = seen.pod
    if is_done(pod) or metadata(pod).get("deletionTimestamp"):
        return ()
    actions: list[Action] = []
    recorded: list[dict[str, Any]] = []
    for entry in (pod.get("spec") or {}).get("resourceClaims") or ():
        template_name = entry.get("resourceClaimTemplateName")
        if template_name is None:
            continue
        name = claim_of_entry(pod, entry) or generated_name(pod, entry["name"])
        claim = seen.claims.get(name)
        template = seen.templates.get(template_name)
        if claim is None and template is None:
            message = (
                f'resourceclaimtemplate "{template_name}" not found, needed by resourceClaims entry {entry["name"]}'
            )
            actions.append(_event(pod, "FailedResourceClaimCreation", message))
            continue
        if claim is not None and not is_owned_by(claim, pod):
            message = f'resourceclaim "{name}" exists but is not owned by the Pod: delete it, or rename the Pod'
            actions.append(_event(pod, "FailedResourceClaimCreation", message))
            continue
        if claim is None and template is not None:
            actions.append(Create(RESOURCE_CLAIM, namespace_of(pod), _generated(pod, entry["name"], name, template)))
        recorded.append({"name": entry["name"], "resourceClaimName": name})
    known = [dict(each) for each in (pod.get("status") or {}).get("resourceClaimStatuses") or ()]
    if recorded and any(each not in known for each in recorded):
        fields = {"status": {"resourceClaimStatuses": recorded}}
        patch = Patch(POD, namespace_of(pod), name_of(pod), fields, version_of(pod), "status", strategic=True)
        actions.append(patch)
    return (*actions, *_reservations(seen))


def lacks_reservation(pod: Fields, claim: Fields | None) -> bool:
    """Whether a Pod is on a node and its claim is allocated, but not for it."""
    if claim is None or not (pod.get("spec") or {}).get("nodeName") or metadata(claim).get("deletionTimestamp"):
        return False
    status: Fields = claim.get("status") or {}
    reserved: Sequence[Fields] = status.get("reservedFor") or ()
    is_open = status.get("allocation") is not None and len(reserved) < RESERVED_LIMIT
    return is_open and not any(each.get("uid") == uid_of(pod) for each in reserved)


def _reservations(seen: PodSeen) -> Iterator[Action]:
    pod = seen.pod
    for entry in (pod.get("spec") or {}).get("resourceClaims") or ():
        claim = seen.claims.get(claim_of_entry(pod, entry) or "")
        if claim is None or not lacks_reservation(pod, claim):
            continue
        if entry.get("resourceClaimTemplateName") is None or is_owned_by(claim, pod):
            consumer = {"resource": "pods", "name": name_of(pod), "uid": uid_of(pod)}
            fields = {"status": {"reservedFor": [*(claim["status"].get("reservedFor") or ()), consumer]}}
            yield Patch(RESOURCE_CLAIM, namespace_of(claim), name_of(claim), fields, version_of(claim), "status")


def not_made(pod: Object, claim: Fields, why: str) -> Event:
    entry = metadata(claim)["annotations"][POD_CLAIM_NAME]
    return _event(pod, "FailedResourceClaimCreation", f"PodResourceClaim {entry}: {why}")


def plan_claim(seen: ClaimSeen, now: float) -> tuple[Action, ...]:
    """Drop consumers that are done, then the allocation, the finalizer, a generated claim: one step a look."""
    del now
    claim, namespace, name = seen.claim, namespace_of(seen.claim), name_of(seen.claim)
    status: Fields = claim.get("status") or {}
    reserved: Sequence[Fields] = status.get("reservedFor") or ()
    kept = [each for each in reserved if not _is_released(each, seen)]
    fields: dict[str, Any] = {}
    if len(kept) != len(reserved):
        fields["reservedFor"] = kept or None
    if not kept and status.get("allocation"):  # allocation and reservation are one write: one without the other is over
        fields |= {"allocation": None, "devices": None}
    if fields:
        return (Patch(RESOURCE_CLAIM, namespace, name, {"status": fields}, version_of(claim), "status"),)
    if seen.unconfirmed:
        return tuple(
            _still_used(claim, each, seen.unconfirmed[each["uid"]]) for each in kept if each["uid"] in seen.unconfirmed
        )
    finalizers: Sequence[str] = metadata(claim).get("finalizers") or ()
    if metadata(claim).get("deletionTimestamp") and not status.get("allocation") and FINALIZER in finalizers:
        left = [each for each in finalizers if each != FINALIZER] or None
        return (Patch(RESOURCE_CLAIM, namespace, name, {"metadata": {"finalizers": left}}, version_of(claim)),)
    if not kept and _owner_is_done(seen) and not metadata(claim).get("deletionTimestamp"):
        return (Delete(RESOURCE_CLAIM, namespace, name, Deletion(Preconditions(uid=uid_of(claim)))),)
    return ()


def _is_released(consumer: Fields, seen: ClaimSeen) -> bool:
    """Consumers that are not Pods belong to somebody else and stay."""
    uid = str(consumer.get("uid"))
    if consumer.get("apiGroup") or consumer.get("resource") != "pods" or uid in seen.unconfirmed:
        return False
    return is_done(seen.pods.get(uid))


def _still_used(claim: Fields, consumer: Fields, node: str) -> Event:
    told = (
        f'Pod "{consumer.get("name")}" was deleted by force and node "{node}" has not confirmed that its containers '
        "are gone: its devices stay allocated until then, or until the Node is deleted"
    )
    namespace, name, uid = namespace_of(claim), name_of(claim), uid_of(claim)
    return Event(RESOURCE_CLAIM, namespace, name, uid, "Warning", "DevicesStillInUse", told)


def _owner_is_done(seen: ClaimSeen) -> bool:
    pod_owners = [each for each in owners(seen.claim) if each.get("controller") and each.get("kind") == "Pod"]
    return bool(pod_owners) and all(is_done(seen.pods.get(str(each.get("uid")))) for each in pod_owners)


def _generated(pod: Fields, entry: str, name: str, template: Fields) -> Object:
    inner: Fields = template.get("spec") or {}
    labelled: Fields = inner.get("metadata") or {}
    return {
        "apiVersion": RESOURCE_CLAIM.api_version,
        "kind": RESOURCE_CLAIM.kind,
        "metadata": {
            "name": name,
            "namespace": namespace_of(pod),
            "labels": dict(labelled.get("labels") or {}),
            # With the finalizer from the start, allocating needs no write of its own for it.
            "finalizers": [FINALIZER],
            "annotations": {**(labelled.get("annotations") or {}), POD_CLAIM_NAME: entry},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": name_of(pod),
                    "uid": uid_of(pod),
                    "controller": True,
                }
            ],
        },
        "spec": inner.get("spec") or {},
    }


def _event(pod: Fields, reason: str, message: str) -> Event:
    return Event(POD, namespace_of(pod), name_of(pod), uid_of(pod), "Warning", reason, message)
