"""Writes as the objects layer makes them: a body with a gap for the resourceVersion, and the decoded object."""

from typing import Any

import orjson

from headrace.store.rows import Body, Key, Write

GAP = b'"resourceVersion":"'


def write(key: Key, expected: int, obj: dict[str, Any] | None, confirmed: bool = True) -> Write:
    """`obj` None deletes."""
    if obj is None:
        return Write(key, expected, None, {}, confirmed)
    named = obj | {"metadata": {"resourceVersion": ""} | obj.get("metadata", {}) | _names(key)}
    head, tail = orjson.dumps(named).split(GAP, 1)
    return Write(key, expected, Body(head + GAP, tail), named, confirmed)


def _names(key: Key) -> dict[str, str]:
    return {"name": key.name} | ({"namespace": key.namespace} if key.namespace else {})


def config_map(name: str, namespace: str = "default") -> Key:
    return Key("configmaps", namespace, name)


def put(name: str, expected: int = 0, data: str = "", namespace: str = "default") -> Write:
    return write(config_map(name, namespace), expected, {"data": {"text": data}})


def remove(name: str, expected: int, namespace: str = "default") -> Write:
    return write(config_map(name, namespace), expected, None)
