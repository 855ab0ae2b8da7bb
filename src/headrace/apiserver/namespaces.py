"""The namespaces that are always there; the API server makes them at its start, as kube-apiserver does."""

from headrace.api.kinds import NAMESPACE
from headrace.store.protocol import AlreadyExists, NotFound, Store

SYSTEM_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


async def ensure_namespaces(store: Store) -> None:
    for name in SYSTEM_NAMESPACES:
        try:
            await store.get(NAMESPACE, name)
        except NotFound:
            await _create(store, name)


async def _create(store: Store, name: str) -> None:
    try:
        await store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    except AlreadyExists:
        return
