"""Which ResourceSlices a driver must publish: pure. A change of a pool is a new generation of all its slices.

A slice holds 128 devices, 64 where one of them has taints or consumes counters (Kubernetes' limits).
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.api.kinds import RESOURCE_SLICE
from headrace.api.objects import Object, metadata, name_of, uid_of, version_of
from headrace.devices.driver.interface import Pool
from headrace.runtime.actions import Create, Delete, Patch
from headrace.store.protocol import Deletion, Preconditions

DEVICES, DEVICES_WITH_TAINTS_OR_COUNTERS = 128, 64
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # as Kubernetes' generated names
SUFFIX_LENGTH = 5

Write = Create | Patch | Delete


def plan(driver: str, node: Object, pools: Sequence[Pool], known: Sequence[Object]) -> list[Write]:
    """The writes that bring the node's slices of this driver from `known` to `pools`; none when they agree.

    New and changed slices first, then what is left over: a reader sees the new generation incomplete, never mixed.
    """
    ours = [each for each in known if each["spec"].get("driver") == driver]
    writes: list[Write] = []
    kept: set[str] = set()
    for pool in pools:
        of_pool = [each for each in ours if each["spec"]["pool"]["name"] == pool.name]
        kept |= {name_of(each) for each in of_pool}
        writes += _pool(driver, node, pool, of_pool)
    return writes + [_delete(each) for each in ours if name_of(each) not in kept]


def _pool(driver: str, node: Object, pool: Pool, known: Sequence[Object]) -> list[Write]:
    parts = _parts(pool.devices)
    newest = max((int(each["spec"]["pool"]["generation"]) for each in known), default=0)
    current = [each for each in known if int(each["spec"]["pool"]["generation"]) == newest]
    if _agrees(current, parts, name_of(node)) and len(current) == len(known):
        return []
    generation = newest + 1
    names = [name_of(each) for each in known]
    writes: list[Write] = []
    by_name = {name_of(each): each for each in known}
    for number, devices in enumerate(parts):
        spec = {
            "driver": driver,
            "nodeName": name_of(node),
            "pool": {"name": pool.name, "generation": generation, "resourceSliceCount": len(parts)},
            "devices": list(devices),
        }
        name = names[number] if number < len(names) else _name(driver, node, pool, number)
        before = by_name.get(name)
        if before is None:
            writes.append(Create(RESOURCE_SLICE, "", _slice(name, node, spec)))
        else:
            writes.append(Patch(RESOURCE_SLICE, "", name, {"spec": spec}, version_of(before)))
    return writes + [_delete(by_name[name]) for name in names[len(parts) :]]


def _parts(devices: Sequence[Mapping[str, Any]]) -> list[Sequence[Mapping[str, Any]]]:
    """At least one part: an empty pool is told too."""
    small = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    size = DEVICES_WITH_TAINTS_OR_COUNTERS if small else DEVICES
    return [devices[at : at + size] for at in range(0, len(devices), size)] or [devices]


def _agrees(known: Sequence[Object], parts: Sequence[Sequence[Mapping[str, Any]]], node: str) -> bool:
    if len(known) != len(parts):
        return False
    specs = [each["spec"] for each in known]
    if any(spec["pool"]["resourceSliceCount"] != len(parts) or spec.get("nodeName") != node for spec in specs):
        return False
    told = sorted((list(spec.get("devices") or ()) for spec in specs), key=_first_name)
    return told == sorted((list(part) for part in parts), key=_first_name)


def _first_name(devices: Sequence[Mapping[str, Any]]) -> str:
    return str(devices[0]["name"]) if devices else ""


def _name(driver: str, node: Object, pool: Pool, number: int) -> str:
    if number < len(pool.slice_names):
        return pool.slice_names[number]
    return slice_name(driver, name_of(node), f"{pool.name}/{number}")


def slice_name(driver: str, node: str, what: str) -> str:
    """`NODE-DRIVER-SUFFIX`, always the same for the same: a plan made twice creates nothing twice."""
    digest = hashlib.sha256(f"{driver}\0{node}\0{what}".encode()).digest()
    suffix = "".join(SUFFIX_LETTERS[byte % len(SUFFIX_LETTERS)] for byte in digest[:SUFFIX_LENGTH])
    return f"{node}-{driver}-{suffix}"


def _slice(name: str, node: Object, spec: Mapping[str, Any]) -> Object:
    owner = {"apiVersion": "v1", "kind": "Node", "name": name_of(node), "uid": uid_of(node), "controller": True}
    return {
        "apiVersion": RESOURCE_SLICE.api_version,
        "kind": RESOURCE_SLICE.kind,
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": dict(spec),
    }


def _delete(obj: Object) -> Delete:
    return Delete(RESOURCE_SLICE, "", str(metadata(obj)["name"]), Deletion(Preconditions(uid=uid_of(obj))))
