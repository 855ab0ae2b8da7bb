"""What a DRA driver has to say, apart from how it is asked: its devices, and how a claim is prepared and unprepared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from headrace.api.objects import Object


class PrepareError(Exception):
    """The claim cannot be prepared or unprepared now; the message reaches the Pod's events. The agent tries again."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The devices of one pool on this node, as ResourceSlice's spec.devices writes them.

    `slice_names` are given to its slices in order, before computed ones. `counters`: the counter sets that devices
    consume, as spec.sharedCounters writes them.
    """

    name: str
    devices: Sequence[Mapping[str, Any]]
    slice_names: Sequence[str] = ()
    counters: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Allocated:
    """One device of a claim, and the driver's configuration for it in the order of precedence: later ones win."""

    request: str
    pool: str
    device: str
    config: tuple[Mapping[str, Any], ...] = ()
    share_id: str | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """The device with the CDI names that give it to a container."""

    allocated: Allocated
    cdi_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """`message` says what is wrong, in at most 1024 characters."""

    pool: str
    device: str
    healthy: bool
    message: str = ""


class Driver(Protocol):
    """Both calls are idempotent, may be cut short anywhere, and are repeated until they succeed.

    They are made in a thread, at most one at a time for a claim; calls for different claims may overlap.
    """

    name: str

    def pools(self) -> Sequence[Pool]: ...

    def prepare(self, claim_uid: str, devices: Sequence[Allocated]) -> list[Prepared]:
        """Everything a container needs is in place when this returns. Raises PrepareError."""
        ...

    def unprepare(self, claim_uid: str) -> None:
        """Nothing of the claim is left when this returns; one never prepared is no error. Raises PrepareError."""
        ...


@runtime_checkable
class ReportsHealth(Protocol):
    """A driver that knows how its devices are, besides."""

    def health(self) -> Sequence[DeviceHealth]:
        """Of every device; asked every few seconds."""
        ...


def cdi_device_names(claim_uid: str, devices: Sequence[Allocated]) -> list[str]:
    """Names for a CDI document. A claim may hold a device several times (shares, admin access): each has its own."""
    seen: dict[str, int] = {}
    names: list[str] = []
    for each in devices:
        count = seen[each.device] = seen.get(each.device, 0) + 1
        names.append(f"{claim_uid}-{each.device}" + ("" if count == 1 else f"-{count}"))
    return names


def allocated(claim: Object, driver: str) -> list[Allocated]:
    """This driver's devices of an allocated claim, each with the configuration of its request (class first)."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    devices = allocation.get("devices") or {}
    return [
        Allocated(
            request=str(result["request"]),
            pool=str(result["pool"]),
            device=str(result["device"]),
            config=_config(devices.get("config") or (), str(result["request"]), driver),
            share_id=result.get("shareID"),
        )
        for result in devices.get("results") or ()
        if result.get("driver") == driver
    ]


def _config(entries: Sequence[Mapping[str, Any]], request: str, driver: str) -> tuple[Mapping[str, Any], ...]:
    """Opaque parameters for a request: the class's before the claim's. No requests named means all."""
    chosen: list[tuple[int, Mapping[str, Any]]] = []
    for entry in entries:
        opaque = entry.get("opaque") or {}
        requests = entry.get("requests") or ()
        names = {request, request.partition("/")[0]}
        if opaque.get("driver") == driver and (not requests or names & set(requests)):
            chosen.append((0 if entry.get("source") == "FromClass" else 1, opaque.get("parameters") or {}))
    return tuple(parameters for _, parameters in sorted(chosen, key=lambda each: each[0]))
