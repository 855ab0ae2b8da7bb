"""Resizes of Pods as rows of a table (vectors/resizes.json), with what kube-apiserver 1.37.2 answers to each.

A row has the Pod's spec, what is set in it by path (null takes away), and the answers: the resources that the Pod has
when it is made (or why it never is), those after the resize and the fields of the spec that changed, or what is wrong
with it: causes as [reason, field, message], sorted.
"""

import copy
from pathlib import Path
from typing import Any

import orjson

from headrace.api.kinds import POD
from headrace.client.errors import ApiError
from headrace.client.http import Client
from headrace.client.paths import collection_path, object_path

Row = dict[str, Any]
NAMESPACE = "default"
VECTORS = Path(__file__).parent / "vectors" / "resizes.json"
CONTAINER = {"image": "app:1"}


def rows() -> list[Row]:
    found: list[Row] = orjson.loads(VECTORS.read_bytes())
    return found


async def answers(client: Client, row: Row, name: str) -> dict[str, Any]:
    """What a server makes of the Pod, and of its resize (which is only tried)."""
    try:
        made = await client.request("POST", collection_path(POD, NAMESPACE), body=_pod(row, name))
    except ApiError as refused:
        return {"never": _causes(refused)}
    found = {"made": _resources(made["spec"])}
    path = f"{object_path(POD, NAMESPACE, name)}/resize"
    try:
        after = await client.request("PUT", path, query={"dryRun": "All"}, body=_resized(made, row))
    except ApiError as refused:
        return found | {"wrong": _causes(refused)}
    before, now = made["spec"], after["spec"]
    changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    return found | {"after": _resources(now), "changed": changed}


def _causes(refused: ApiError) -> list[list[str]]:
    causes = refused.details.get("causes") or ()
    return sorted([each["reason"], each.get("field", ""), each["message"]] for each in causes)


def _pod(row: Row, name: str) -> dict[str, Any]:
    spec = copy.deepcopy(row["spec"])
    for part in ("containers", "initContainers"):
        if part in spec:
            spec[part] = [CONTAINER | each for each in spec[part]]
    meta = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _resized(made: dict[str, Any], row: Row) -> dict[str, Any]:
    """The object as a client would send it back."""
    wanted = copy.deepcopy(made)
    for path, value in row["set"].items():
        *outer, last = path.split(".")
        part: Any = wanted["spec"]
        for name in outer:
            part = part[int(name)] if isinstance(part, list) else part[name]
        key: Any = int(last) if isinstance(part, list) else last
        if value is None:
            del part[key]
        elif isinstance(part, list) and key == len(part):
            part.append(CONTAINER | value)
        else:
            part[key] = value
    return wanted


def _resources(spec: dict[str, Any]) -> dict[str, Any]:
    """By container, and those of the Pod as a whole under its own name."""
    found = {each["name"]: each.get("resources") or {} for each in spec["containers"] + spec.get("initContainers", [])}
    return found | ({"Pod": spec["resources"]} if "resources" in spec else {})
