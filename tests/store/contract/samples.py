"""Objects that the contract's tests write, each with the fewest fields that make it valid."""

from typing import Any

from headrace.api import kinds
from headrace.api.kinds import Kind
from headrace.store.protocol import Store

WIDGET = Kind("contract.headrace.dev", "v1", "Widget", "widgets")


def config_map(name: str, data: dict[str, str] | None = None, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **meta}, "data": data or {"key": "value"}}


def pod(name: str, cpu: str = "100m", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def deployment(name: str, replicas: int = 1) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


async def node(store: Store, name: str, cpu: str = "4", memory: str = "8Gi") -> None:
    capacity = {"cpu": cpu, "memory": memory, "pods": "110"}
    await store.create(kinds.NODE, {"metadata": {"name": name}})
    fields = {"status": {"capacity": capacity, "allocatable": capacity}}
    await store.patch(kinds.NODE, name, fields=fields, subresource="status")


def widgets() -> dict[str, Any]:
    """A definition with a status, a scale, a default and a field of either type."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1},
                    "colour": {"type": "string", "default": "red", "enum": ["red", "green"]},
                    "port": {"x-kubernetes-int-or-string": True},
                    "replicas": {"type": "integer"},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            },
            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
        },
    }
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {
        "name": WIDGET.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale},
    }
    return {
        "metadata": {"name": WIDGET.resource},
        "spec": {
            "group": WIDGET.group,
            "scope": "Namespaced",
            "names": {"plural": WIDGET.plural, "kind": WIDGET.kind},
            "versions": [version],
        },
    }
