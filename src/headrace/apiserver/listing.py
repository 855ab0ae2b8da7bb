"""List answers, spliced from stored bodies without decoding them."""

from typing import Any

import orjson

from headrace.objects.registry import Served


def list_metadata(revision: str, resume: str, remaining: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {"resourceVersion": revision}
    if resume:
        found["continue"] = resume
        if remaining is not None:
            found["remainingItemCount"] = remaining
    return found


def list_head(served: Served, revision: str, resume: str, remaining: int | None) -> dict[str, Any]:
    return {
        "kind": served.list_kind or f"{served.kind.kind}List",
        "apiVersion": served.kind.api_version,
        "metadata": list_metadata(revision, resume, remaining),
    }


def list_body(served: Served, bodies: list[bytes], revision: str, resume: str, remaining: int | None) -> bytes:
    head = list_head(served, revision, resume, remaining)
    if not bodies:
        return orjson.dumps({**head, "items": []})
    # Begin and end are joined to the outer items, since these bytes are many: one copy of them is enough.
    first = b'%s,"items":[%s' % (orjson.dumps(head)[:-1], bodies[0])
    return b",".join([first, *bodies[1:-1], bodies[-1] + b"]}"]) if len(bodies) > 1 else first + b"]}"


def partial_object(obj: dict[str, Any]) -> dict[str, Any]:
    """What metadata-only clients (garbage collectors, quota) read."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj.get("metadata") or {},
    }


def partial_list_head(revision: str, resume: str, remaining: int | None) -> dict[str, Any]:
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata(revision, resume, remaining),
    }
