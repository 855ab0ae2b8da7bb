"""Rules in schemas (`x-kubernetes-validations`) and what is said of them: the cases of vectors/rules.json.

A case has a schema (of `spec`, or the whole as `root`), what is wrong with the definition, and writes of one object of
that kind, each with what is wrong with it: causes as [reason, field, message], sorted. The right answers are
kube-apiserver's.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from headrace.api import kinds
from headrace.api.kinds import Kind
from headrace.client.errors import ApiError
from headrace.client.http import Client
from headrace.client.paths import collection_path, object_path

FILE = Path(__file__).parent / "vectors" / "rules.json"
NAMESPACE = "default"
DEADLINE_SECONDS = 30
JSON_PATCH = "application/json-patch+json"

Causes = list[list[str]]


def cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(FILE.read_text())
    return found


async def answers(client: Client, case: dict[str, Any], group: str = "rules.example.com") -> dict[str, Any]:
    """What a server says of the definition and of each write. A group serves for one case."""
    kind = Kind(group, "v1", "Ruled", "ruleds", True)
    said = await causes(client, "POST", collection_path(kinds.CUSTOM_RESOURCE_DEFINITION, ""), _definition(kind, case))
    if said:
        return {"definition": said, "writes": []}
    await asyncio.wait_for(served(client, kind), DEADLINE_SECONDS)
    return {"definition": [], "writes": [await _write(client, kind, each) for each in case["writes"]]}


def _definition(kind: Kind, case: dict[str, Any]) -> dict[str, Any]:
    whole = case.get("root") or {"type": "object", "properties": {"spec": case["schema"]}}
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": whole}}
    names = {"plural": kind.plural, "kind": kind.kind}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.resource},
        "spec": {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def _write(client: Client, kind: Kind, write: dict[str, Any]) -> Causes:
    """A new object with this `spec`, in place of an earlier one, or with `change` another `spec` for that."""
    path = object_path(kind, NAMESPACE, "one")
    if write.get("change"):
        return await causes(client, "PATCH", path, [{"op": "replace", "path": "/spec", "value": write["spec"]}])
    try:
        await client.request("DELETE", path)
    except ApiError as error:
        if error.code != 404:
            raise
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "one"}, "spec": write["spec"]}
    return await causes(client, "POST", collection_path(kind, NAMESPACE), body)


async def causes(client: Client, method: str, path: str, body: Any) -> Causes:
    try:
        content_type = JSON_PATCH if method == "PATCH" else "application/json"
        await client.request(method, path, body=body, content_type=content_type)
    except ApiError as refused:
        if refused.code != 422:
            raise
        found = refused.details.get("causes") or ()
        return sorted([str(each[part]) for part in ("reason", "field", "message")] for each in found)
    return []


async def served(client: Client, kind: Kind) -> None:
    while True:
        try:
            await client.request("GET", collection_path(kind, NAMESPACE))
            return
        except ApiError as error:
            if error.code != 404:
                raise
        await asyncio.sleep(0.05)
