"""Binding a Pod to a node: one write of the Pod, which passes the ledger's guard (pkg/registry/core/pod/storage)."""

from typing import Any

from headrace.api.kinds import Kind
from headrace.api.objects import Object
from headrace.objects import refusals, writing
from headrace.objects.conditions import set_condition
from headrace.objects.formats import format_time
from headrace.objects.home import Caller, Home
from headrace.objects.registry import Served
from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.writing import Update


async def bind(home: Home, served: Served, name: str, namespace: str, binding: Object, caller: Caller) -> None:
    """Give the Pod its node. Raises Conflict if it has one, Refused if the node has no room for it."""
    target, meta = binding.get("target") or {}, binding.get("metadata") or {}
    node = _node_of(target, name)
    now = format_time(home.wall())

    def apply(pod: Object) -> Object:
        if meta.get("uid", pod["metadata"]["uid"]) != pod["metadata"]["uid"]:
            raise refusals.other_uid(served.kind, name, meta["uid"], pod["metadata"]["uid"])
        why = _unbindable(pod, name)
        if why:
            raise refusals.conflict(Kind("", "v1", "Binding", "pods/binding"), name, why)
        pod["spec"]["nodeName"] = node
        for part in ("annotations", "labels"):
            if meta.get(part):
                pod["metadata"][part] = {**pod["metadata"].get(part, {}), **meta[part]}
        status = pod.setdefault("status", {})
        status.pop("nominatedNodeName", None)
        set_condition(status, {"type": "PodScheduled", "status": "True"}, now)
        return pod

    version = meta.get("resourceVersion") or None
    await writing.update(home, served, Update(name, namespace, apply, version, "binding"), caller)


def _node_of(target: dict[str, Any], name: str) -> str:
    errors = FieldErrors()
    node = target.get("name", "")
    if target.get("kind", "Node") not in ("", "Node"):
        errors.not_supported("target.kind", target["kind"], ("Node", "<empty>"))
    if not node:
        errors.required("target.name")
    else:
        for message in names.dns_subdomain(node):
            errors.invalid("target.name", node, message)
    if errors:
        raise refusals.invalid(Kind("", "v1", "Binding", "bindings"), name, errors)
    return str(node)


def _unbindable(pod: Object, name: str) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if pod["spec"].get("nodeName"):
        return f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    if pod["spec"].get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""
