"""DeleteOptions: from the body of a DELETE, or from its query parameters as curl users write them."""

from collections.abc import Mapping
from typing import Any

from headrace.apiserver.requests import Request
from headrace.objects import decoding, schemas
from headrace.store.protocol import BadRequest, Deletion, Preconditions, Propagation

_PROPAGATIONS: Mapping[str, Propagation] = {
    "Background": "Background",
    "Foreground": "Foreground",
    "Orphan": "Orphan",
}


def options(request: Request, body: Mapping[str, Any]) -> Deletion:
    """Raises BadRequest, naming the option and what it may be."""
    query = request.query
    try:
        body = decoding.decode(f"{schemas.META}DeleteOptions", dict(body)).object
    except decoding.UndecodableError as error:
        raise BadRequest(f'DeleteOptions in version "v1" cannot be handled as a DeleteOptions: {error}') from error
    conditions = body.get("preconditions") or {}
    dry_run = body.get("dryRun") or ([query["dryRun"]] if query.get("dryRun") else [])
    if dry_run not in ([], ["All"]):
        raise BadRequest(f"dryRun: {dry_run!r} must be All")
    return Deletion(
        preconditions=Preconditions(conditions.get("uid"), conditions.get("resourceVersion")),
        propagation=_propagation(query, body),
        grace_seconds=_grace(body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))),
        dry_run=bool(dry_run),
    )


def _propagation(query: Mapping[str, str], body: Mapping[str, Any]) -> Propagation | None:
    orphan = body.get("orphanDependents")
    if orphan is not None:
        return "Orphan" if orphan else "Background"
    named = body.get("propagationPolicy") or query.get("propagationPolicy")
    if not named:
        return None
    if named not in _PROPAGATIONS:
        raise BadRequest(f"propagationPolicy: {named!r} must be Background, Foreground or Orphan")
    return _PROPAGATIONS[named]


def _grace(value: Any) -> int | None:
    if value is None:
        return None
    try:
        seconds = int(value)
    except (TypeError, ValueError):
        seconds = -1
    if seconds < 0:
        raise BadRequest(f"gracePeriodSeconds: {value!r} must be a whole number of seconds, 0 or more")
    return seconds
