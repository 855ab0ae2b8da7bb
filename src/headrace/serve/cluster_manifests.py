"""What a cluster needs before `headrace controllers` runs on it: our definitions, and what it may do."""

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import yaml

from headrace.api.objects import name_of
from headrace.serve.shipped import shipped_definitions

DEFINITIONS = frozenset({"resizepolicies.headrace.dev", "resourcescalingactions.headrace.dev"})
"""The kinds that the jobs of a cluster are about."""
NAMESPACED = ("ServiceAccount", "Role", "RoleBinding")


class _Plain(yaml.SafeDumper):
    """Without anchors: what is said twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def cluster_manifests(namespace: str) -> Iterator[dict[str, Any]]:
    """`namespace`: of the account that the controllers run as, and of their Lease."""
    for definition in shipped_definitions():
        if name_of(definition) in DEFINITIONS:
            yield definition
    for document in yaml.safe_load_all((files("headrace.serve") / "rbac.yaml").read_text()):
        if document["kind"] in NAMESPACED:
            document["metadata"]["namespace"] = namespace
        for subject in document.get("subjects") or ():
            subject["namespace"] = namespace
        yield document


def as_text(documents: Iterator[dict[str, Any]]) -> str:
    return yaml.dump_all(documents, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=150)
