"""A controller as small as a real one can be: it keeps as many Pods as a ConfigMap says, and counts them there.

It uses what controllers live by: informers, a plan, owner references, computed names, patches with a version, deletion
by finalizer.
"""

from dataclasses import dataclass
from typing import Any

from headrace.api.kinds import CONFIG_MAP, POD
from headrace.api.objects import Object, key_of, metadata, name_of, namespace_of
from headrace.runtime.actions import Action, Create, Delete, Patch
from headrace.runtime.cache import Informers
from headrace.runtime.controller import Source, own_key
from headrace.store.protocol import Deletion, Preconditions

RUN = "contract.headrace.dev/run"
FINALIZER = "contract.headrace.dev/replicas"


@dataclass(frozen=True)
class Seen:
    owner: Object
    pods: tuple[Object, ...]


class Replicas:
    name = "contract-replicas"

    def __init__(self, informers: Informers, run: str) -> None:
        """`run` is the value of the label RUN that tells its objects from those of others."""
        self._owners = informers.of(CONFIG_MAP, labels=f"{RUN}={run}")
        self._pods = informers.of(POD, labels=f"{RUN}={run}")
        self.sources = (Source(self._owners, own_key), Source(self._pods, _owner_key))

    async def observe(self, key: str) -> Seen | None:
        owner = self._owners.get(key)
        if owner is None or "replicas" not in (owner.get("data") or {}):
            return None
        uid = metadata(owner)["uid"]
        return Seen(owner, tuple(sorted((pod for pod in self._pods if _uid(pod) == uid), key=name_of)))

    def plan(self, seen: Seen, now: float) -> tuple[Action, ...]:
        owner, meta = seen.owner, metadata(seen.owner)
        namespace, name, version = namespace_of(owner), name_of(owner), meta["resourceVersion"]
        finalizers = meta.get("finalizers") or []
        ending = "deletionTimestamp" in meta
        if FINALIZER not in finalizers and not ending:
            fields = {"metadata": {"finalizers": [*finalizers, FINALIZER]}}
            return (Patch(CONFIG_MAP, namespace, name, fields, version),)
        wanted = 0 if ending else int(owner["data"]["replicas"])
        have = {name_of(pod): pod for pod in seen.pods}
        names = [f"{name}-{number}" for number in range(wanted)]
        actions: list[Action] = [Create(POD, namespace, _pod(owner, each)) for each in names if each not in have]
        actions += [
            Delete(POD, namespace, each, Deletion(Preconditions(uid=metadata(pod)["uid"])))
            for each, pod in have.items()
            if each not in names and "deletionTimestamp" not in metadata(pod)
        ]
        if ending and not have and FINALIZER in finalizers:
            rest = [each for each in finalizers if each != FINALIZER] or None
            actions.append(Patch(CONFIG_MAP, namespace, name, {"metadata": {"finalizers": rest}}, version))
        elif not ending and not actions and owner["data"].get("current") != str(len(have)):
            actions.append(Patch(CONFIG_MAP, namespace, name, {"data": {"current": str(len(have))}}, version))
        return tuple(actions)

    def refused(self, key: str, seen: Seen, action: Any, refusal: Any, now: float) -> tuple[Action, ...]:
        return ()


def _pod(owner: Object, name: str) -> dict[str, Any]:
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": name_of(owner),
        "uid": metadata(owner)["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    container = {
        "name": "main",
        "image": "app:1",
        "resources": {"requests": {"cpu": "0.1"}, "limits": {"memory": "1024Mi"}},
        "ports": [{"containerPort": 80}],
    }
    labels = {"app": name_of(owner), RUN: metadata(owner)["labels"][RUN]}
    meta = {"name": name, "labels": labels, "ownerReferences": [reference]}
    return {"metadata": meta, "spec": {"containers": [container]}}


def _uid(pod: Object) -> str:
    return next((str(each["uid"]) for each in metadata(pod).get("ownerReferences") or () if each.get("controller")), "")


def _owner_key(before: Object | None, after: Object | None) -> tuple[str, ...]:
    pod = after if after is not None else before
    assert pod is not None
    owners = metadata(pod).get("ownerReferences") or ()
    return tuple(key_of({"metadata": {"namespace": namespace_of(pod), "name": each["name"]}}) for each in owners)
