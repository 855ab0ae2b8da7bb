"""Makes `src/headrace/objects/openapi/*.json.gz`: Kubernetes' own schemas of the kinds served here, and nothing else.

Run it by hand when the Kubernetes version changes: `python tools/schemas.py`. It needs Go and the Go module proxy; the
result is committed, so that neither a build nor a run needs them.
"""

import gzip
import json
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

VERSION = "v1.37.2"
TARGET = Path(__file__).parent.parent / "src" / "headrace" / "objects" / "openapi"
REF = "#/components/schemas/"

# The document of each group and version, and the kinds whose schemas (with all they refer to) are kept.
WANTED = {
    "api__v1": (
        "Namespace Node Pod Event ConfigMap Secret ServiceAccount Service Endpoints PersistentVolumeClaim Binding "
        "Eviction"
    ),
    "apis__apps__v1": "Deployment ReplicaSet Scale",
    "apis__autoscaling__v2": "HorizontalPodAutoscaler",
    "apis__coordination.k8s.io__v1": "Lease",
    "apis__events.k8s.io__v1": "Event",
    "apis__scheduling.k8s.io__v1": "PriorityClass",
    "apis__policy__v1": "PodDisruptionBudget",
    "apis__resource.k8s.io__v1": "DeviceClass ResourceSlice ResourceClaim ResourceClaimTemplate DeviceTaintRule",
    "apis__apiextensions.k8s.io__v1": "CustomResourceDefinition",
    "apis__rbac.authorization.k8s.io__v1": "Role RoleBinding ClusterRole ClusterRoleBinding",
}
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
ALWAYS = (META + "DeleteOptions", META + "Status", META + "ObjectMeta", META + "ListMeta")


PACKAGES = {
    "io.k8s.api.": "k8s.io/api",
    "io.k8s.apimachinery.": "k8s.io/apimachinery",
    "io.k8s.apiextensions-apiserver.": "k8s.io/apiextensions-apiserver",
}
POINTER = "x-go-pointer"
SCALARS = ("string", "integer", "boolean", "number")
ZEROED = {"io.k8s.apimachinery.pkg.api.resource.Quantity", "io.k8s.apimachinery.pkg.util.intstr.IntOrString"}
"""Structs in Go that look like scalars: where they are no pointers, their zero is written."""


@cache
def module_directory(module: str) -> Path:
    version = VERSION if module == "k8s.io/kubernetes" else VERSION.replace("v1.", "v0.", 1)
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "go.mod").write_text("module schemas\n\ngo 1.26\n")
        answer = subprocess.run(
            ["go", "mod", "download", "-json", f"{module}@{version}"], cwd=scratch, check=True, capture_output=True
        )
    return Path(json.loads(answer.stdout)["Dir"])


@cache
def go_structs(package: Path) -> dict[str, dict[str, str]]:
    """The structs of a Go package: Go types by JSON names, `,inline` fields by the name of their type."""
    structs: dict[str, dict[str, str]] = {}
    for file in sorted(package.glob("types*.go")):
        for name, body in re.findall(r"^type (\w+) struct \{\n(.*?)^\}", file.read_text(), re.MULTILINE | re.DOTALL):
            fields = re.findall(r'^\t(?:\w+\s+)?([*\[\]\w.]+)\s+`json:"([^"]*)"', body, re.MULTILINE)
            structs[name] = {
                (go_type if tag.startswith(",inline") else tag.partition(",")[0]): go_type for go_type, tag in fields
            }
    return structs


def pointers(schema: str) -> set[str]:
    """The JSON names of a schema's fields that are pointers in Go: they keep a zero that is said."""
    for prefix, module in PACKAGES.items():
        if schema.startswith(prefix):
            package, _, name = schema.removeprefix(prefix).rpartition(".")
            return _pointers(module_directory(module) / package.replace(".", "/"), name)
    return set()


def _pointers(package: Path, name: str) -> set[str]:
    found: set[str] = set()
    for field, go_type in go_structs(package).get(name, {}).items():
        if field == go_type:
            found |= _pointers(package, go_type)
        elif go_type.startswith("*"):
            found.add(field)
    return found


def references(node: Any) -> set[str]:
    if isinstance(node, dict):
        found = {node["$ref"].removeprefix(REF)} if isinstance(node.get("$ref"), str) else set()
        return found.union(*(references(value) for value in node.values()))
    if isinstance(node, list):
        return set().union(*(references(value) for value in node))
    return set()


def closure(schemas: dict[str, Any], names: list[str]) -> set[str]:
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(references(schemas[name]))
    return seen


def wanted_names(document: str, schemas: dict[str, Any]) -> list[str]:
    wanted = set(WANTED[document].split())
    wanted |= {kind + "List" for kind in wanted}
    found = [
        name
        for name, schema in schemas.items()
        if any(gvk["kind"] in wanted for gvk in schema.get("x-kubernetes-group-version-kind", ()))
    ]
    missing = set(WANTED[document].split()) - {name.rpartition(".")[2] for name in found}
    if missing:
        print(f"{document}: no schema for {', '.join(sorted(missing))}", file=sys.stderr)
    return found + [name for name in ALWAYS if name in schemas]


def split(name: str, schema: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """A schema without its descriptions, and the descriptions by property name ("" for the schema's own)."""
    optional = pointers(name)
    described = {"": schema["description"]} if "description" in schema else {}
    bare = {key: value for key, value in schema.items() if key != "description"}
    if "properties" in bare:
        bare["properties"] = {}
        for key, field in schema["properties"].items():
            if "description" in field:
                described[key] = field["description"]
            bare["properties"][key] = {part: value for part, value in field.items() if part != "description"}
            if key in optional and (field.get("type") in SCALARS or references(field) & ZEROED):
                bare["properties"][key][POINTER] = True
    return bare, described


def main() -> None:
    source = module_directory("k8s.io/kubernetes") / "api" / "openapi-spec" / "v3"
    bare: dict[str, Any] = {}
    described: dict[str, Any] = {}
    for document in WANTED:
        schemas = json.loads((source / f"{document}_openapi.json").read_text())["components"]["schemas"]
        for name in closure(schemas, wanted_names(document, schemas)):
            bare[name], described[name] = split(name, schemas[name])
    for file, content in (("schemas", bare), ("descriptions", described)):
        text = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        (TARGET / f"{file}.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))
        print(f"{file}: {len(content)} schemas, {len(text)} bytes")


if __name__ == "__main__":
    main()
