"""Requests that nobody would send on purpose: good objects with a few wrong turns, drawn from a seed."""

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headrace.objects.registry import Served

VALUES: list[Any] = [
    None, True, 0, -1, 1.5, 1e308, 2**63, 2**64, "", "x", "a" * 300, "é", "\x00", "1e9999999", [], {}, [None], [[]],
    [{}], {"name": None}, {"name": "a"}, "2026-01-01T00:00:00Z", "100m",
]  # fmt: skip
KEYS = [
    "metadata",
    "spec",
    "status",
    "name",
    "labels",
    "annotations",
    "containers",
    "resources",
    "requests",
    "limits",
    "cpu",
    "memory",
    "data",
    "items",
    "kind",
    "apiVersion",
    "namespace",
    "uid",
    "resourceVersion",
    "finalizers",
    "ownerReferences",
    "deletionTimestamp",
    "generateName",
    "managedFields",
    "template",
    "selector",
    "matchLabels",
    "replicas",
    "devices",
    "exactly",
    "selectors",
    "cel",
    "expression",
    "versions",
    "schema",
    "openAPIV3Schema",
    "properties",
    "type",
    "names",
    "plural",
    "group",
    "scope",
    "$patch",
    "$setElementOrder/containers",
    "$retainKeys",
    "nodeName",
    "tolerations",
    "volumes",
    "env",
    "valueFrom",
    "op",
    "path",
    "value",
    "from",
    "pool",
    "driver",
    "conditions",
    "containerStatuses",
    "allocatedResources",
    "taints",
]  # a list of forty lines would say no more
CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}
LABELS = {"labels": {"a": "b"}}
GOOD: dict[str, dict[str, Any]] = {
    "pods": {"spec": {"containers": [CONTAINER]}, "status": {"containerStatuses": [{"name": "c"}]}},
    "configmaps": {"data": {"a": "b"}},
    "nodes": {"status": {"capacity": {"cpu": "4"}}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
    "deployments": {
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": LABELS, "spec": {"containers": [CONTAINER]}},
        }
    },
    "resourceclaims": {
        "spec": {
            "devices": {
                "requests": [
                    {"name": "r", "exactly": {"deviceClassName": "c", "selectors": [{"cel": {"expression": "true"}}]}}
                ]
            }
        }
    },
    "resourceslices": {
        "spec": {
            "driver": "d.e",
            "nodeName": "a",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d", "attributes": {"a": {"int": 1}}, "capacity": {"m": {"value": "1Gi"}}}],
        }
    },
    "customresourcedefinitions": {
        "metadata": {"name": "ws.e.com"},
        "spec": {
            "group": "e.com",
            "scope": "Namespaced",
            "names": {"plural": "ws", "kind": "W"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"a": {"type": "integer", "default": 1, "minimum": 0}},
                        }
                    },
                    "additionalPrinterColumns": [{"name": "a", "type": "string", "jsonPath": ".a"}],
                }
            ],
        },
    },
    "horizontalpodautoscalers": {
        "spec": {
            "scaleTargetRef": {"kind": "D", "name": "d", "apiVersion": "apps/v1"},
            "maxReplicas": 3,
            "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}},
            ],
        }
    },
    "leases": {"spec": {"holderIdentity": "x", "renewTime": "2026-01-01T00:00:00.000000Z"}},
    "events": {"involvedObject": {"kind": "Pod", "name": "x", "namespace": "default"}, "reason": "r"},
    "secrets": {"data": {"a": "YQ=="}},
    "services": {"spec": {"ports": [{"port": 80}]}},
}
QUERIES: list[dict[str, str]] = [
    {}, {}, {}, {"dryRun": "All"}, {"dryRun": "x"}, {"fieldValidation": "Strict"}, {"fieldValidation": "Ignore"},
    {"fieldManager": "é" * 200}, {"labelSelector": "a=("}, {"labelSelector": "a in"}, {"labelSelector": "x" * 20_000},
    {"fieldSelector": "="}, {"fieldSelector": "\\"}, {"fieldSelector": ",,"}, {"limit": "-1"}, {"limit": "9" * 30},
    {"continue": "x"}, {"continue": "WzEsIiIsIiJd"}, {"continue": "bnVsbA=="}, {"resourceVersion": "9" * 40},
    {"gracePeriodSeconds": "x"}, {"propagationPolicy": "x"}, {"watch": "1", "timeoutSeconds": "1", "limit": "x"},
]  # fmt: skip
ACCEPTS = (
    "application/json",
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/yaml",
    "x",
)
PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json", "application/json-patch+json")
POINTERS = (
    "/metadata",
    "/spec/x",
    "/data/a",
    "",
    "/spec/containers/0",
    "/spec/containers/-",
    "x",
    "/metadata/name",
    "/~2",
)


@dataclass(frozen=True)
class Odd:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


def requests(kinds: list[Served], seed: int, count: int) -> Iterator[Odd]:
    draw = random.Random(seed)
    for _ in range(count):
        yield _request(draw, draw.choice(kinds))


def _request(draw: random.Random, served: Served) -> Odd:
    kind = served.kind
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    collection = root + ("/namespaces/default" if kind.namespaced else "") + f"/{kind.plural}"
    subresource = draw.choice(["", "", "", *(f"/{name}" for name in served.subresources)])
    item = f"{collection}/{draw.choice(['a', 'a', 'a', 'ws.e.com'])}{subresource}"
    method = draw.choice(["POST", "POST", "POST", "PUT", "PATCH", "PATCH", "PATCH", "GET", "DELETE"])
    path = collection if method == "POST" and draw.random() < 0.8 else item
    content_type = draw.choice(PATCHES) if method == "PATCH" else "application/json"
    operations = content_type.startswith("application/json-patch") and draw.random() < 0.8
    body = _operations(draw) if operations else _body(draw, GOOD.get(kind.plural, GOOD["configmaps"]))
    data = json.dumps(body).encode()
    if draw.random() < 0.03:
        data = data[: draw.randint(0, len(data))]
    headers = {"Content-Type": content_type, "Accept": draw.choice(ACCEPTS)}
    return Odd(method, path, draw.choice(QUERIES), headers, data)


def _body(draw: random.Random, good: dict[str, Any]) -> Any:
    whole = {"metadata": {"name": "a", **LABELS}, **good}
    chance = draw.random()
    if chance < 0.1:
        return whole
    return _mutated(draw, whole) if chance < 0.85 else _value(draw, 0)


def _operations(draw: random.Random) -> list[dict[str, Any]]:
    verbs = ("add", "remove", "replace", "copy", "move", "test", "zap")
    return [
        {
            "op": draw.choice(verbs),
            "path": draw.choice(POINTERS),
            "from": draw.choice(POINTERS),
            "value": _value(draw, 2),
        }
        for _ in range(draw.randint(0, 3))
    ]


def _value(draw: random.Random, depth: int) -> Any:
    chance = draw.random()
    if depth > 4 or chance < 0.3:
        return copy.deepcopy(draw.choice(VALUES))
    if chance < 0.5:
        return [_value(draw, depth + 1) for _ in range(draw.randint(0, 3))]
    return {draw.choice(KEYS): _value(draw, depth + 1) for _ in range(draw.randint(0, 5))}


def _mutated(draw: random.Random, obj: dict[str, Any]) -> dict[str, Any]:
    obj = copy.deepcopy(obj)
    for _ in range(draw.randint(1, 3)):
        _turn(draw, obj)
    return obj


def _turn(draw: random.Random, node: Any) -> None:
    """Go down to some place and change it there."""
    while node:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = draw.choice(keys)
        if draw.random() < 0.65 and isinstance(node[key], dict | list) and node[key]:
            node = node[key]
            continue
        chance = draw.random()
        if chance < 0.6:
            node[key] = _value(draw, 3)
        elif isinstance(node, list):
            node.append(copy.deepcopy(node[key]))
        elif chance < 0.8:
            node[draw.choice(KEYS)] = _value(draw, 2)
        else:
            del node[key]
        return
