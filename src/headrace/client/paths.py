"""URLs of resources, as Kubernetes lays them out."""

from urllib.parse import quote

from headrace.api.kinds import Kind

VERSION_PATH = "/version"
OWN_BUILD = "+headrace-"
"""In the `gitVersion` of VERSION_PATH: the server is one of headrace's own, not a cluster's."""


def collection_path(kind: Kind, namespace: str = "") -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    if kind.namespaced and namespace:
        root += f"/namespaces/{quote(namespace, safe='')}"
    return f"{root}/{kind.plural}"


def object_path(kind: Kind, namespace: str, name: str, subresource: str | None = None) -> str:
    path = f"{collection_path(kind, namespace)}/{quote(name, safe='')}"
    return f"{path}/{subresource}" if subresource else path
