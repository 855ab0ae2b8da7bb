"""matchAttribute and distinctAttribute of one claim: what a device's attribute is worth, and which values go together.

What has been taken so far is an immutable value (`start`, then what `extended` returns), so nothing is ever undone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.devices.allocate.device import Device

Json = Mapping[str, Any]
Value = tuple[str, Any]  # type and value; ("", None) for an attribute object without a value
Taken = Any  # match: the common value or None; distinct: the values in order

NO_VALUE: Final[Value] = ("", None)

_SCALARS = ("string", "int", "bool", "version")
_LISTS = ("int", "bool", "string", "version")


@dataclass(frozen=True, slots=True)
class Constraint:
    """`requests` names requests or `request/subrequest`; empty means all of the claim."""

    attribute: str
    is_distinct: bool
    requests: frozenset[str]

    def applies_to(self, request: str, full_name: str) -> bool:
        return not self.requests or request in self.requests or full_name in self.requests

    @property
    def start(self) -> Taken:
        return () if self.is_distinct else None

    def extended(self, taken: Taken, value: Value | None, *, with_lists: bool) -> Taken | None:
        """What is taken after a device with this value joined; None if it may not join."""
        if value is None:
            return None
        if with_lists:
            return self._extended_set(taken, value)
        if self.is_distinct:
            return (*taken, value) if not taken or (value != NO_VALUE and value not in taken) else None
        if taken is None:
            return value
        return taken if value == taken and value != NO_VALUE else None

    def _extended_set(self, taken: Taken, value: Value) -> Taken | None:
        if value == NO_VALUE:
            return None
        kind, values = value
        if self.is_distinct:
            clash = any(other_kind == kind and values & others for other_kind, others in taken)
            return None if clash else (*taken, value)
        if taken is None:
            return value
        common = values & taken[1] if taken[0] == kind else frozenset()
        return (kind, common) if common else None


def static_value(device: Device, attribute: str, *, with_lists: bool) -> Value | None:
    """The value a driver published under the full name, or under the bare name if the domain is the driver's."""
    attributes = device.attributes
    found = attributes.get(attribute)
    if found is None:
        domain, slash, name = attribute.partition("/")
        if not slash or domain != device.slice.driver:
            return None
        found = attributes.get(name)
        if found is None:
            return None
    return as_value(found, with_lists=with_lists)


def as_value(attribute: Json, *, with_lists: bool) -> Value:
    """A DeviceAttribute as a comparable value; with list attributes on, every value is a set."""
    if not with_lists:
        return next(((kind, attribute[kind]) for kind in _SCALARS if attribute.get(kind) is not None), NO_VALUE)
    for kind in _LISTS:
        if attribute.get(f"{kind}s"):
            return kind, frozenset(attribute[f"{kind}s"])
    for kind in _LISTS:
        if attribute.get(kind) is not None:
            return kind, frozenset((attribute[kind],))
    return NO_VALUE
