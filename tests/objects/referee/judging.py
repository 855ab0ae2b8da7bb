"""One request to two servers, and what they answer: the verdict, the fields it names, the object it would store."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from headrace.api.kinds import Kind
from headrace.client.errors import ApiError
from headrace.client.http import Client
from headrace.client.paths import collection_path, object_path

STAMPED = ("timeAdded", "lastTransitionTime")  # with the second of the write
TOKEN = "kube-api-access-"
PROTECTION = "kubernetes.io/pvc-protection"
LIFECYCLE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unschedulable")
STRICT_DRY_RUN = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "referee"}
EACH_OWN = ("uid", "creationTimestamp", "managedFields", "resourceVersion", "deletionTimestamp")

# What our home leaves out or does at once on purpose, by kind: the path, and why.
DELIBERATE: dict[str, dict[str, str]] = {
    "Service": {
        "spec.clusterIP": "there is no network: addresses are kept as given and none is handed out",
        "spec.clusterIPs": "the same",
        "spec.ipFamilies": "the same",
        "spec.ipFamilyPolicy": "the same",
    },
    "CustomResourceDefinition": {"status": "a definition is established in the write that creates it"},
}


@dataclass(frozen=True)
class Verdict:
    """`code` is the HTTP status; `fields` are those of details.causes; `stored` what an accepted write would leave."""

    code: int
    fields: frozenset[str] = frozenset()
    stored: bytes = b""
    words: str = ""

    def same_as(self, other: "Verdict") -> bool:
        return (self.code, self.fields, self.stored) == (other.code, other.fields, other.stored)


async def create(client: Client, kind: Kind, obj: Mapping[str, Any], namespace: str) -> Verdict:
    """A dry run of a create."""
    where = namespace if kind.namespaced else ""
    return await _judged(client, "POST", collection_path(kind, where), obj)


async def replace(client: Client, kind: Kind, obj: Mapping[str, Any], namespace: str, name: str) -> Verdict:
    """A dry run of an update of the object that is there."""
    where = namespace if kind.namespaced else ""
    return await _judged(client, "PUT", object_path(kind, where, name), obj)


async def both(one: Any, other: Any) -> tuple[Verdict, Verdict]:
    first, second = await asyncio.gather(one, other)
    return first, second


async def _judged(client: Client, method: str, path: str, obj: Mapping[str, Any]) -> Verdict:
    try:
        answer = await client.request(method, path, query=STRICT_DRY_RUN, body=obj)
    except ApiError as refused:
        causes = refused.details.get("causes") or ()
        fields = frozenset(str(cause.get("field", "")) for cause in causes) if refused.code == 422 else frozenset()
        return Verdict(refused.code, fields, words=refused.message)
    return Verdict(200, stored=canonical(answer))


def canonical(obj: dict[str, Any]) -> bytes:
    """An object without what each server makes up for itself and what differs on purpose, as bytes.

    A field that is null counts as absent, which is how every client reads it.
    """
    meta = {name: value for name, value in obj["metadata"].items() if name not in EACH_OWN}
    if meta.get("generateName"):
        meta.pop("name", None)
    whole = {**obj, "metadata": meta}
    _without_protection(whole)
    for path in DELIBERATE.get(obj["kind"], ()):
        *outer, last = path.split(".")
        part: Any = whole
        for name in outer:
            part = part.get(name) or {}
        part.pop(last, None)
    return orjson.dumps(_without_nulls(whole), option=orjson.OPT_SORT_KEYS)


def _without_protection(obj: dict[str, Any]) -> None:
    """What admission plug-ins add there and nothing here would ever take away again.

    A claim's finalizer waits for a controller of volumes; a new node's taint for one that watches its heartbeats, which
    here decides by the node's condition.
    """
    _without_tokens(obj)
    finalizers = [each for each in obj["metadata"].get("finalizers") or () if each != PROTECTION]
    obj["metadata"]["finalizers"] = finalizers or None
    spec = obj.get("spec")
    if obj["kind"] == "Node" and isinstance(spec, dict):
        spec["taints"] = [each for each in spec.get("taints") or () if each.get("key") not in LIFECYCLE_TAINTS] or None


def _without_tokens(obj: dict[str, Any]) -> None:
    """No account's token is mounted into a Pod here: there is nothing yet that would honour it."""
    spec = obj.get("spec")
    if obj["kind"] != "Pod" or not isinstance(spec, dict):
        return
    spec["volumes"] = [each for each in spec.get("volumes") or () if not each["name"].startswith(TOKEN)] or None
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        mounts = [each for each in container.get("volumeMounts") or () if not each["name"].startswith(TOKEN)]
        container["volumeMounts"] = mounts or None


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None and name not in STAMPED}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
