"""Why a Pod cannot be placed anywhere because of a claim it names, in the words of kube-scheduler (pure)."""

from collections.abc import Container, Iterable, Iterator

from headrace.api.objects import Fields, metadata, name_of, namespace_of, uid_of
from headrace.devices.plan import RESERVED_LIMIT, claim_of_entry, is_owned_by


def unmade(pod: Fields) -> str:
    """The first entry of spec.resourceClaims whose claim has not been made from its template yet.

    An entry that the status names without a claim needs none.
    """
    known = {each.get("name") for each in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
    entries = (pod.get("spec") or {}).get("resourceClaims") or ()
    missing = (each["name"] for each in entries if claim_of_entry(pod, each) is None and each["name"] not in known)
    return str(next(missing, ""))


def unusable(pod: Fields, entry: Fields, name: str, claim: Fields | None) -> str:
    if claim is None:
        return f'resourceclaim "{name}" not found'
    if metadata(claim).get("deletionTimestamp"):
        return f'resourceclaim "{name}" is being deleted'
    if entry.get("resourceClaimTemplateName") and not is_owned_by(claim, pod):
        namespace = namespace_of(pod)
        return f"ResourceClaim {namespace}/{name} was not created for Pod {namespace}/{name_of(pod)} (Pod is not owner)"
    reserved = (claim.get("status") or {}).get("reservedFor") or ()
    if len(reserved) >= RESERVED_LIMIT and not any(each.get("uid") == uid_of(pod) for each in reserved):
        return "resourceclaim in use"
    return ""


def missing_class(claims: Iterable[Fields], classes: Container[str]) -> str:
    """Of claims that are still to be allocated."""
    for claim in claims:
        if (claim.get("status") or {}).get("allocation"):
            continue
        for request, name in _classes(claim):
            if name and name not in classes:
                return f"request {request}: device class {name} does not exist"
    return ""


def _classes(claim: Fields) -> Iterator[tuple[str, str]]:
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        name = str(request.get("name", ""))
        if request.get("exactly"):
            yield name, str(request["exactly"].get("deviceClassName") or "")
        for each in request.get("firstAvailable") or ():
            yield f"{name}/{each.get('name', '')}", str(each.get("deviceClassName") or "")
