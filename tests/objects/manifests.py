"""The kind of an object by the words of its manifest."""

from typing import Any

from headrace.api.kinds import Kind
from headrace.objects.registry import Registry


def served_kind(registry: Registry, obj: dict[str, Any]) -> Kind:
    words = (obj["apiVersion"], obj["kind"])
    (found,) = (each.kind for each in registry.all() if (each.kind.api_version, each.kind.kind) == words)
    return found
