"""Which ResourceSlices a driver must publish: pure. A change of a pool is a new generation of all its slices.

A slice holds 128 devices, 64 where one of them has taints, consumes counters or has lists as attributes, or 8 counter
sets and no device (Kubernetes' limits).
"""

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from headrace.api.kinds import RESOURCE_SLICE
from headrace.api.objects import Fields, Object, metadata, name_of, uid_of, version_of
from headrace.api.quantity import InvalidQuantity, parse
from headrace.devices.driver.interface import Pool
from headrace.runtime.actions import Create, Delete, Patch
from headrace.store.protocol import Deletion, Preconditions

DEVICES, DEVICES_WITH_MORE, COUNTER_SETS = 128, 64, 8
LISTS = frozenset(("strings", "ints", "bools", "versions"))
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # as Kubernetes' generated names
SUFFIX_LENGTH = 5

Write = Create | Patch | Delete


def plan(
    driver: str,
    node: Object,
    pools: Sequence[Pool],
    known: Sequence[Object],
    newest: Mapping[str, int] = MappingProxyType({}),
) -> list[Write]:
    """The writes that bring the node's slices of this driver from `known` to `pools`; none when they agree.

    `newest`: generations, by pool, that were published before and may be gone; a pool never goes back behind them.
    New and changed slices first, then what is left over: a reader sees the new generation incomplete, never mixed.
    """
    ours = [each for each in known if each["spec"].get("driver") == driver]
    writes: list[Write] = []
    kept: set[str] = set()
    for pool in pools:
        of_pool = [each for each in ours if each["spec"]["pool"]["name"] == pool.name]
        kept |= {name_of(each) for each in of_pool}
        writes += _pool(driver, node, pool, of_pool, newest.get(pool.name, 0))
    return writes + [_delete(each) for each in ours if name_of(each) not in kept]


def asked_spec(write: Create | Patch) -> Fields:
    """The whole spec that this write asks for."""
    spec = write.object["spec"] if isinstance(write, Create) else write.fields["spec"]
    return {key: value for key, value in spec.items() if value is not None}


def has_same_content(spec: Fields, other: Fields) -> bool:
    """Whether two slices describe the same devices and counters."""
    return _content(spec) == _content(other)


def generations(slices: Sequence[Object]) -> dict[str, int]:
    """The newest generation of each pool among these slices."""
    found: dict[str, int] = {}
    for each in slices:
        pool = each["spec"]["pool"]
        found[pool["name"]] = max(int(pool["generation"]), found.get(pool["name"], 0))
    return found


def _pool(driver: str, node: Object, pool: Pool, known: Sequence[Object], floor: int) -> list[Write]:
    parts = _parts(pool)
    newest = generations(known).get(pool.name, 0)
    current = [each for each in known if int(each["spec"]["pool"]["generation"]) == newest]
    if _agrees(current, parts, name_of(node)) and len(current) == len(known):
        return []
    generation = max(newest, floor) + 1
    names = [name_of(each) for each in known]
    writes: list[Write] = []
    by_name = {name_of(each): each for each in known}
    for number, part in enumerate(parts):
        spec = {
            "driver": driver,
            "nodeName": name_of(node),
            "pool": {"name": pool.name, "generation": generation, "resourceSliceCount": len(parts)},
            **part,
        }
        name = names[number] if number < len(names) else _name(driver, node, pool, number)
        before = by_name.get(name)
        if before is None:
            writes.append(Create(RESOURCE_SLICE, "", _slice(name, node, spec)))
        else:
            fields = {key: None for key in before["spec"] if key not in spec} | spec
            writes.append(Patch(RESOURCE_SLICE, "", name, {"spec": fields}, version_of(before)))
    return writes + [_delete(by_name[name]) for name in names[len(parts) :]]


def _parts(pool: Pool) -> list[dict[str, Any]]:
    """What each slice holds, counters before the devices that consume them; an empty pool is told too."""
    counters = [
        {"sharedCounters": list(pool.counters[at : at + COUNTER_SETS])}
        for at in range(0, len(pool.counters), COUNTER_SETS)
    ]
    size = DEVICES_WITH_MORE if any(_has_more(device) for device in pool.devices) else DEVICES
    devices = [{"devices": list(pool.devices[at : at + size])} for at in range(0, len(pool.devices), size)]
    return [*counters, *devices] or [{"devices": []}]


def _has_more(device: Mapping[str, Any]) -> bool:
    values = (device.get("attributes") or {}).values()
    return bool(device.get("taints") or device.get("consumesCounters") or any(LISTS & set(value) for value in values))


def _agrees(known: Sequence[Object], parts: Sequence[Mapping[str, Any]], node: str) -> bool:
    if len(known) != len(parts):
        return False
    specs = [each["spec"] for each in known]
    if any(spec["pool"]["resourceSliceCount"] != len(parts) or spec.get("nodeName") != node for spec in specs):
        return False
    return sorted(map(_content, specs), key=_order) == sorted(map(_content, parts), key=_order)


def _content(part: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    counters, devices = part.get("sharedCounters") or (), part.get("devices") or ()
    return [_as_served(each) for each in counters], [_as_served(each) for each in devices]


def _as_served(found: Any) -> Any:
    """What an API server changes in what it stores is no difference: how a quantity is written, a taint's timeAdded."""
    if isinstance(found, Mapping):
        return {
            key: _amount(value) if key == "value" and isinstance(value, str) else _as_served(value)
            for key, value in found.items()
            if key != "timeAdded"
        }
    return [_as_served(each) for each in found] if isinstance(found, list | tuple) else found


def _amount(text: str) -> str:
    try:
        return str(parse(text))
    except InvalidQuantity:  # a taint's value
        return text


def _order(content: tuple[list[Any], list[Any]]) -> tuple[str, str]:
    counters, devices = content
    return counters[0]["name"] if counters else "", devices[0]["name"] if devices else ""


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
