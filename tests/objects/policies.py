"""Resize policies that are wrong, one fault each, with the field that is to be named; and some that are right."""

from pathlib import Path
from typing import Any

import yaml

import headrace.objects

DEFINITIONS = Path(headrace.objects.__file__).parent / "crds" / "headrace.dev.yaml"
UP = {"metric": "latency", "up": {"above": 300}}

RIGHT: list[dict[str, Any]] = [
    {},
    {"min": {"cpu": "10m", "memory": 1}, "max": {"cpu": 2, "memory": "1Gi"}, "quota": {"cpu": "8"}},
    {"triggers": [{"metric": "cpu", "up": {"above": "100%"}, "down": {"below": "1%"}}]},
    {
        "triggers": [
            {"metric": "fps", "up": {"below": "24"}, "down": {"above": 60}, "samples": {"matching": 1, "of": 1}}
        ]
    },
    {"triggers": [{"metric": "cpu", "up": {"above": "20%"}, "down": {"below": "500m"}}]},
    {"triggers": [{**UP, "query": "latency_ms"}], "oom": {"step": "50Mi"}},
    {"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}},
]
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("spec.min.cpu", {"min": {"cpu": "2"}, "max": {"cpu": "1"}}),
    ("spec.min.memory", {"min": {"memory": "2Gi"}, "max": {"memory": "1Gi"}}),
    ("spec.min.cpu", {"min": {"cpu": "5m"}}),
    ("spec.max.cpu", {"max": {"cpu": "much"}}),
    ("spec.max.memory", {"max": {"memory": 0}}),
    ("spec.quota.memory", {"quota": {"memory": "-1Gi"}}),
    ("spec.oom.step", {"oom": {"step": "0"}}),
    ("spec.triggers[0]", {"triggers": [{"metric": "latency"}]}),
    ("spec.triggers[0].up", {"triggers": [{"metric": "cpu", "up": {"above": "80%", "below": "10%"}}]}),
    ("spec.triggers[0].up.above", {"triggers": [{"metric": "cpu", "up": {"above": "101%"}}]}),
    ("spec.triggers[0].up.above", {"triggers": [{"metric": "cpu", "up": {"above": "0%"}}]}),
    ("spec.triggers[0].up.above", {"triggers": [{"metric": "cpu", "up": {"above": "9" * 400 + "%"}}]}),
    ("spec.triggers[0].up.above", {"triggers": [{"metric": "cpu", "up": {"above": "9" * 5000 + "%"}}]}),
    ("spec.triggers[0].up.above", {"triggers": [{"metric": "latency", "up": {"above": "soon"}}]}),
    ("spec.triggers[0].up", {"triggers": [{"metric": "latency", "up": {"above": "80%"}}]}),
    ("spec.triggers[1].down", {"triggers": [UP, {"metric": "fps", "up": {"below": 24}, "down": {"above": "9%"}}]}),
    ("spec.triggers[0].down", {"triggers": [{"metric": "cpu", "up": {"above": "8%"}, "down": {"above": "9%"}}]}),
    (
        "spec.triggers[0].down.below",
        {"triggers": [{"metric": "cpu", "up": {"above": "20%"}, "down": {"below": "50%"}}]},
    ),
    (
        "spec.triggers[0].down.below",
        {"triggers": [{"metric": "cpu", "up": {"above": "1"}, "down": {"below": "1000m"}}]},
    ),
    ("spec.triggers[0].down.above", {"triggers": [{"metric": "fps", "up": {"below": 60}, "down": {"above": "24"}}]}),
    ("spec.triggers[0].query", {"triggers": [{"metric": "cpu", "up": {"above": "8%"}, "query": "cpu"}]}),
    ("spec.triggers[0].samples.matching", {"triggers": [{**UP, "samples": {"matching": 6, "of": 5}}]}),
    ("spec.triggers[0].resources", {"triggers": [{**UP, "resources": ["cpu", "cpu"]}]}),
    (
        "spec.selector.matchExpressions[0].values",
        {"selector": {"matchExpressions": [{"key": "app", "operator": "In"}]}},
    ),
]


def policy(spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "headrace.dev/v1alpha1",
        "kind": "ResizePolicy",
        "metadata": {"name": "judged", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


def definitions() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(DEFINITIONS.read_text()))
