"""ConfigMaps and Secrets that this node's Pods refer to, read when they are needed: an agent watches no namespace."""

from collections.abc import Iterable, Mapping

from headrace.api.kinds import CONFIG_MAP, SECRET
from headrace.node.environment import Source, data_of
from headrace.node.runtimes.protocol import PullSecret
from headrace.store.protocol import Forbidden, NotFound, Store

_KINDS = {"ConfigMap": CONFIG_MAP, "Secret": SECRET}


async def read(store: Store, namespace: str, wanted: Iterable[Source]) -> Mapping[Source, Mapping[str, bytes] | None]:
    """Their data; None for what does not exist. Raises StoreError."""
    found: dict[Source, Mapping[str, bytes] | None] = {}
    for kind, name in sorted(set(wanted)):
        try:
            found[kind, name] = data_of({"kind": kind, **await store.get(_KINDS[kind], name, namespace)})
        except NotFound:
            found[kind, name] = None
    return found


async def pull_secrets(store: Store, namespace: str, names: Iterable[str]) -> tuple[list[PullSecret], list[str]]:
    """Those that images are pulled with, and the names of those that cannot be had. Raises StoreError."""
    found: list[PullSecret] = []
    missing: list[str] = []
    for name in names:
        try:
            secret = await store.get(SECRET, name, namespace)
        except (NotFound, Forbidden):
            missing.append(name)
        else:
            found.append(PullSecret(name, str(secret.get("type") or ""), data_of({"kind": "Secret", **secret})))
    return found, missing
