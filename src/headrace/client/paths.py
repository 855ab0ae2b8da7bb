"""URLs of resources, as Kubernetes lays them out."""

from urllib.parse import quote

from headrace.api.kinds import Kind
from headrace.client.errors import ApiError

VERSION_PATH = "/version"
OWN_BUILD = "+headrace-"
"""In the `gitVersion` of VERSION_PATH: the server is one of headrace's own, not a cluster's."""


def collection_path(kind: Kind, namespace: str = "") -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    if kind.namespaced and namespace:
        root += f"/namespaces/{quote(namespace, safe='')}"
    return f"{root}/{kind.plural}"


def object_path(kind: Kind, namespace: str, name: str, subresource: str | None = None) -> str:
    """Raises ApiError for a name that would lead elsewhere: an empty one to all objects, .. to what is above them.

    Source: IsValidPathSegmentName of k8s.io/apimachinery, which client-go asks too.
    """
    if not name:
        raise ApiError(400, "BadRequest", f"the name of a {kind.kind} must not be empty", {})
    for what, segment in ((f"name of a {kind.kind}", name), ("namespace", namespace)):
        if segment in (".", "..") or "/" in segment or "%" in segment:
            message = f"{segment!r} cannot be the {what}: it may not be . or .. nor contain / or %"
            raise ApiError(400, "BadRequest", message, {})
    path = f"{collection_path(kind, namespace)}/{quote(name, safe='')}"
    return f"{path}/{subresource}" if subresource else path
