"""A published device and its slice, read once from their ResourceSlice and shared by every node that sees them."""

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from operator import itemgetter
from typing import Any

import orjson

from headrace.api.quantity import parse
from headrace.devices.allocate.capacity import Capacity, read

Json = Mapping[str, Any]
DeviceID = tuple[str, str, str]  # driver, pool, device
Counters = dict[tuple[str, str], int]  # (counter set, counter) -> nano-units

NO_FIELDS: Json = {}

_PLAIN = frozenset(("int", "bool", "string"))
_name_of = itemgetter("name")
_AMOUNT = frozenset(("value",))
_ORDINARY_SLICE = frozenset(("driver", "pool", "nodeName", "devices"))
_ORDINARY_DEVICE = frozenset(("name", "attributes", "capacity", "taints"))
_WORD = r"(0|[1-9][0-9]{0,8}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"(0|[1-9][0-9]{{0,8}})(\.(0|[1-9][0-9]{{0,8}})){{2}}(-{_WORD}(\.{_WORD})*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
_QUANTITY = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?([numkMGTP]|[KMGTP]i)?", re.ASCII)


class Slice:
    """One ResourceSlice: its place in a pool and its devices in order, which are read when they are first asked for.

    `is_ordinary`: it is for one node alone, and nothing but driver, attributes, capacities and taints can decide about
    its devices, all of which can be read. Known once it was read.
    """

    __slots__ = (
        "_devices",
        "_is_simple",
        "_layout",
        "attributes",
        "count",
        "counter_sets",
        "driver",
        "generation",
        "has_taints",
        "id",
        "is_ordinary",
        "metadata",
        "name",
        "node_name",
        "per_device",
        "pool",
        "skip_operations",
        "spec",
    )

    def __init__(self, resource_slice: Json) -> None:
        metadata, spec = resource_slice.get("metadata") or NO_FIELDS, resource_slice.get("spec") or NO_FIELDS
        pool = spec.get("pool") or NO_FIELDS
        self.metadata: Json = metadata
        self.spec: Json = spec
        self.name: str = metadata.get("name") or ""
        self.driver: str = spec.get("driver") or ""
        self.pool: str = pool.get("name") or ""
        self.id = self.driver, self.pool
        self.generation: int = pool.get("generation") or 0
        self.count: int = pool.get("resourceSliceCount") or 0
        self.node_name: str = spec.get("nodeName") or ""
        self.per_device = bool(spec.get("perDeviceNodeSelection"))
        self.skip_operations: list[str] = spec.get("skipNodeOperations") or []
        self.counter_sets: list[Json] = spec.get("sharedCounters") or []
        self.attributes: list[Json] = [each.get("attributes") or NO_FIELDS for each in spec.get("devices") or ()]
        self.is_ordinary = False
        self.has_taints = True
        self._devices: tuple[Device, ...] | None = None
        self._is_simple: bool | None = None
        self._layout: bytes | None = None

    @property
    def devices(self) -> "tuple[Device, ...]":
        if self._devices is None:
            self._devices = tuple([Device(self, device) for device in self.spec.get("devices") or ()])
        return self._devices

    @property
    def is_simple(self) -> bool:
        """Whether no device takes counters or can be shared."""
        if self._is_simple is None:
            self._is_simple = not any([device.takes_counters or device.is_shareable for device in self.devices])
        return self._is_simple

    def read(self) -> None:
        """Do when the slice arrives what would take a node's view several times as long later, all slices at once."""
        self.is_ordinary = self._has_only_ordinary()
        if not self.is_ordinary:
            self.layout  # noqa: B018
            self.is_simple  # noqa: B018

    def _has_only_ordinary(self) -> bool:
        devices: list[Json] = self.spec.get("devices") or []
        if not self.node_name or not _ORDINARY_SLICE.issuperset(self.spec):
            return False
        fields = set(chain.from_iterable(devices))
        if not fields <= _ORDINARY_DEVICE or len(set(map(_name_of, devices))) != len(devices):
            return False
        self.has_taints = "taints" in fields
        capacities = [each["capacity"] for each in devices if "capacity" in each] if "capacity" in fields else ()
        return _are_readable([value for each in self.attributes for value in each.values()]) and _are_plain(
            [amount for each in capacities for amount in each.values()]
        )

    @property
    def has_compatibility_groups(self) -> bool:
        return not self.is_simple and any(
            consumption.get("compatibilityGroups")
            for device in self.devices
            for consumption in device.spec.get("consumesCounters") or ()
        )

    @property
    def layout(self) -> bytes:
        """Equal for slices that have equal devices."""
        if self._layout is None:
            self._layout = orjson.dumps((self.driver, self.spec.get("devices")))
        return self._layout


def _are_readable(values: list[Json]) -> bool:
    """Whether each attribute has just one value, of a kind that can be read."""
    kinds, text = list(chain.from_iterable(values)), orjson.dumps(values)
    if len(kinds) != len(values) or b"{}" in text or b'":null' in text:
        return False
    if _PLAIN.issuperset(kinds):
        return True
    return all(_VERSION.fullmatch(each["version"]) if "version" in each else _PLAIN.issuperset(each) for each in values)


def _are_plain(amounts: list[Json]) -> bool:
    """Whether each capacity is an amount and nothing else."""
    if not _AMOUNT.issuperset(chain.from_iterable(amounts)):
        return False
    return _are_quantities(amounts)


def _are_quantities(amounts: Iterable[Json]) -> bool:
    return all(_QUANTITY.fullmatch(str(text)) for text in {each.get("value") for each in amounts})


class Device:
    """One device. `content` is equal for devices that nothing but their name, pool and slice tells apart."""

    __slots__ = (
        "_capacities",
        "_consumes",
        "_content",
        "_has_room",
        "_is_readable",
        "id",
        "is_shareable",
        "name",
        "slice",
        "spec",
        "takes_counters",
    )

    def __init__(self, parent: Slice, spec: Json) -> None:
        self.slice = parent
        self.spec = spec
        self.name: str = spec.get("name") or ""
        self.id: DeviceID = (parent.driver, parent.pool, self.name)
        self.is_shareable = bool(spec.get("allowMultipleAllocations"))
        self.takes_counters = bool(spec.get("consumesCounters"))
        self._content: bytes | None = None
        self._capacities: dict[str, Capacity] | None = None
        self._consumes: Counters | None = None
        self._has_room: bool | None = None
        self._is_readable: bool | None = None

    def __str__(self) -> str:
        return "/".join(self.id)

    @property
    def content(self) -> bytes:
        if self._content is None:
            content = dict(self.spec)
            content.pop("name", None)
            self._content = orjson.dumps((self.slice.driver, content), option=orjson.OPT_SORT_KEYS)
        return self._content

    @property
    def attributes(self) -> Json:
        return self.spec.get("attributes") or NO_FIELDS

    @property
    def taints(self) -> list[Json]:
        return self.spec.get("taints") or []

    @property
    def capacities(self) -> dict[str, Capacity]:
        """Raises InvalidQuantity for a slice that no API server has validated."""
        if self._capacities is None:
            self._capacities = {name: read(each) for name, each in (self.spec.get("capacity") or NO_FIELDS).items()}
        return self._capacities

    @property
    def always_has_room(self) -> bool:
        """Whether an empty device serves any want that names no amounts: nothing rounds, and no value is negative."""
        if self._has_room is None:
            capacity = self.spec.get("capacity")
            self._has_room = not capacity or not any(
                each.get("requestPolicy") is not None or str(each.get("value", "0")).startswith("-")
                for each in capacity.values()
            )
        return self._has_room

    @property
    def is_readable(self) -> bool:
        """Whether each attribute and capacity has a value that can be read: one that cannot fails every selector."""
        if self._is_readable is None:
            self._is_readable = self.slice.is_ordinary or (
                _are_readable(list(self.attributes.values()))
                and _are_quantities((self.spec.get("capacity") or NO_FIELDS).values())
            )
        return self._is_readable

    @property
    def consumes(self) -> Counters:
        """What an allocation of the device takes of its pool's counter sets."""
        if self._consumes is None:
            total: Counters = {}
            for consumption in self.spec.get("consumesCounters") or ():
                for name, counter in (consumption.get("counters") or NO_FIELDS).items():
                    key = (consumption.get("counterSet") or "", name)
                    total[key] = total.get(key, 0) + parse(str(counter.get("value", "0"))).nano
            self._consumes = total
        return self._consumes

    def compatibility_groups(self) -> list[tuple[str, frozenset[str]]]:
        return [
            (consumption.get("counterSet") or "", frozenset(consumption.get("compatibilityGroups") or ()))
            for consumption in self.spec.get("consumesCounters") or ()
        ]
