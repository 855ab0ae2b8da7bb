"""Who has which device: one owner each, or shares within its capacity, and counters within what their pool has.

A device is known from its slices, but has its owner without them: what is allocated is charged even if its slice is
gone. Amounts are whole nano-units, since capacities may be fractions.
Source: KEP-4381, KEP-4815 (counters), KEP-5075 (shares).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from headrace.api.objects import Fields, Object, key_of
from headrace.api.quantity import NANO, Quantity, parse
from headrace.ledger.node import Shortfall

PoolKey = tuple[str, str]
"""Driver and pool."""

Nano = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Share:
    """One result of a claim's allocation. `id` is its shareID, empty for the device as a whole."""

    owner: str
    id: str = ""
    consumed: Nano = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Grant:
    """A share with the device it is of."""

    pool: PoolKey
    device: str
    share: Share

    def is_within(self, other: "Grant") -> bool:
        """Whether it takes nothing that `other` does not take."""
        return (self.pool, self.device, self.share.id) == (other.pool, other.device, other.share.id) and all(
            amount <= other.share.consumed.get(name, 0) for name, amount in self.share.consumed.items()
        )


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """What the books read of a ResourceClaim: `users` are the uids of the Pods that it is reserved for."""

    holder: str
    grants: tuple[Grant, ...]
    users: frozenset[str]

    @classmethod
    def of(cls, claim: Object) -> "ClaimFacts":
        """Access for administrators takes nothing. Raises InvalidQuantity."""
        status: Fields = claim.get("status") or {}
        allocation: Fields = status.get("allocation") or {}
        results: Iterable[Fields] = (allocation.get("devices") or {}).get("results") or ()
        owner = holder_of(claim)
        grants: list[Grant] = []
        for each in results:
            grant = Grant(
                (str(each.get("driver", "")), str(each.get("pool", ""))),
                str(each.get("device", "")),
                Share(owner, str(each.get("shareID") or ""), _nano(each.get("consumedCapacity"))),
            )
            if not each.get("adminAccess") and grant not in grants:
                grants.append(grant)
        reserved: Iterable[Fields] = status.get("reservedFor") or ()
        users = (str(each.get("uid", "")) for each in reserved if each.get("resource") == "pods")
        return cls(owner, tuple(grants), frozenset(users))


@dataclass(frozen=True, slots=True)
class Device:
    """`capacity` limits the shares' sum; `counters` is what using it takes from the pool's counter sets."""

    capacity: Nano = field(default_factory=dict)
    counters: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Slice:
    """What the books read of a ResourceSlice."""

    pool: PoolKey
    generation: int
    node: str
    devices: Mapping[str, Device]
    counters: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class Pool:
    """What is known of a pool (its newest slices) and who uses it. A value: every change returns a new one."""

    key: PoolKey
    node: str = ""
    devices: Mapping[str, Device] = field(default_factory=dict)
    counters: Mapping[tuple[str, str], int] = field(default_factory=dict)
    used: Mapping[str, tuple[Share, ...]] = field(default_factory=dict)

    def known_from(self, slices: Iterable[Slice]) -> "Pool":
        """Only slices of the newest generation count: the others are being replaced."""
        found = list(slices)
        newest = max((each.generation for each in found), default=0)
        current = [each for each in found if each.generation == newest]
        return replace(
            self,
            node=next((each.node for each in current if each.node), ""),
            devices={name: device for each in current for name, device in each.devices.items()},
            counters={name: value for each in current for name, value in each.counters.items()},
        )

    def admit(self, grant: Grant) -> "Pool | Shortfall":
        """Give a device, or a share of it, to a claim."""
        shares = self.used.get(grant.device, ())
        return self._owned(grant, shares) or self._full(grant, shares) or self._drained(grant) or self.record(grant)

    def record(self, grant: Grant) -> "Pool":
        """Write down what is allocated, whether or not there is room for it."""
        shares = (*self.used.get(grant.device, ()), grant.share)
        return replace(self, used={**self.used, grant.device: tuple(sorted(shares, key=_order))})

    def release(self, grant: Grant) -> "Pool":
        shares = list(self.used.get(grant.device, ()))
        shares.remove(grant.share)
        used = dict(self.used)
        if shares:
            used[grant.device] = tuple(shares)
        else:
            del used[grant.device]
        return replace(self, used=used)

    def _owned(self, grant: Grant, shares: tuple[Share, ...]) -> Shortfall | None:
        """A whole device has one owner; a shared one has none that owns it whole."""
        in_the_way = [each for each in shares if not (each.id and grant.share.id)]
        if not in_the_way:
            return None
        holder = in_the_way[0]
        how = "shared by" if holder.id else "allocated to"
        return self._shortfall(grant, shares, f"{self._name(grant)} is {how} {holder.owner}", {self._path(grant): 1})

    def _full(self, grant: Grant, shares: tuple[Share, ...]) -> Shortfall | None:
        known = self.devices.get(grant.device)
        if known is None or not grant.share.id:
            return None
        missing, told = {}, []
        for name, wanted in sorted(grant.share.consumed.items()):
            room = known.capacity.get(name, 0) - sum(each.consumed.get(name, 0) for each in shares)
            if wanted > room:
                missing[f"{self._path(grant)} {name}"] = _units(wanted - room)
                told.append(
                    f"{_text(wanted)} of {name} wanted, {_text(room)} of {_text(known.capacity.get(name, 0))} left"
                )
        if not missing:
            return None
        return self._shortfall(grant, shares, f"{self._name(grant)} is too full: {'; '.join(told)}", missing)

    def _drained(self, grant: Grant) -> Shortfall | None:
        known = self.devices.get(grant.device)
        if known is None or not known.counters or grant.device in self.used:
            return None  # a device in use has its counters already, however many share it
        missing, told = {}, []
        for name, wanted in sorted(known.counters.items()):
            room = self.counters.get(name, 0) - sum(
                self.devices[each].counters.get(name, 0) for each in self.used if each in self.devices
            )
            if wanted > room:
                missing[f"{self._path(grant)} {'/'.join(name)}"] = _units(wanted - room)
                told.append(f"{_text(wanted)} of counter {'/'.join(name)} wanted, {_text(room)} left")
        if not missing:
            return None
        users = tuple(share for each in self.used.values() for share in each)
        return self._shortfall(grant, users, f"{self._name(grant)} lacks counters: {'; '.join(told)}", missing)

    def _shortfall(self, grant: Grant, holders: Iterable[Share], words: str, missing: Mapping[str, int]) -> Shortfall:
        owners = tuple(dict.fromkeys(each.owner for each in holders))
        return Shortfall(missing=missing, node=self.node, holders=owners, words=words)

    def _path(self, grant: Grant) -> str:
        return "/".join((*grant.pool, grant.device))

    def _name(self, grant: Grant) -> str:
        return f"device {self._path(grant)}"


def holder_of(claim: Fields) -> str:
    """The name under which a claim owns devices."""
    return f"ResourceClaim {key_of(claim)}"


def slice_of(obj: Object) -> Slice:
    """Raises InvalidQuantity."""
    spec: Fields = obj.get("spec") or {}
    pool: Fields = spec.get("pool") or {}
    return Slice(
        pool=(str(spec.get("driver", "")), str(pool.get("name", ""))),
        generation=int(pool.get("generation") or 0),
        node=str(spec.get("nodeName") or ""),
        devices={str(each.get("name", "")): _device(each) for each in spec.get("devices") or ()},
        counters=dict(_counters(spec.get("sharedCounters") or (), "name")),
    )


def _device(device: Fields) -> Device:
    capacity = {name: each.get("value", "0") for name, each in (device.get("capacity") or {}).items()}
    return Device(_nano(capacity), dict(_counters(device.get("consumesCounters") or (), "counterSet")))


def _counters(sets: Iterable[Fields], name: str) -> Iterator[tuple[tuple[str, str], int]]:
    for each in sets:
        for counter, value in (each.get("counters") or {}).items():
            yield (str(each.get(name, "")), counter), parse(str(value.get("value", "0"))).nano


def _nano(quantities: Mapping[str, object] | None) -> Nano:
    return {name: parse(str(text)).nano for name, text in (quantities or {}).items()}


def _order(share: Share) -> tuple[str, str, list[tuple[str, int]]]:
    """Total, so that the same shares are the same pool in whatever order they came."""
    return share.owner, share.id, sorted(share.consumed.items())


def _units(nano: int) -> int:
    return Quantity(nano).value()


def _text(nano: int) -> str:
    return str(Quantity(nano, "BinarySI" if nano % (1024 * NANO) == 0 else "DecimalSI"))
