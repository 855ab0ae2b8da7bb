"""The samples that both servers are given, and the two servers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace.api.kinds import Kind
from headrace.client.http import Client
from headrace.objects.builtin import built_in_registry
from tests.objects.manifests import served_kind

SAMPLES: list[dict[str, Any]] = list(yaml.safe_load_all((Path(__file__).parent / "samples.yaml").read_text()))
NAMESPACE = "default"
REGISTRY = built_in_registry()


@dataclass(frozen=True)
class Servers:
    ours: Client
    theirs: Client


def kind_of(obj: dict[str, Any]) -> Kind:
    return served_kind(REGISTRY, obj)


def named(obj: dict[str, Any]) -> dict[str, Any]:
    """An object that a server would give a name gets one here, so that it can be found again."""
    obj["metadata"].setdefault("name", "generated")
    return obj
