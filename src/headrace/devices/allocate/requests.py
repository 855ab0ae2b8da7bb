"""Claims read for the search: requests, their alternatives, constraints, and the first thing wrong with them.

A `Want` is one exact request or one subrequest of `firstAvailable`. The checks run in Kubernetes' order; they stop at
the first error, which `Demand.error` holds until the wants before it have been looked at (an All may fail earlier).
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.api.quantity import Quantity, parse
from headrace.devices.allocate.constraints import Constraint, Taken
from headrace.devices.allocate.failure import Failure
from headrace.devices.allocate.features import Features

Json = Mapping[str, Any]

RESULTS_PER_CLAIM = 32
LARGEST_COUNT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Check:
    """One CEL selector. `owner` begins an error of a class's selector (`class NAME`); empty for a claim's own."""

    owner: str
    index: int
    expression: str


@dataclass(eq=False, slots=True)  # frozen ones take three times as long to make
class Want:
    """One request or subrequest, ready to be searched; never changed. `number` is its place among all wants of the
    demand."""

    number: int
    claim: int
    request: str
    name: str
    full_name: str
    device_class: Json
    checks: tuple[Check, ...]
    is_all: bool
    count: int
    is_admin: bool
    tolerations: Sequence[Json]
    amounts: Mapping[str, Quantity]
    derived: Mapping[str, str]
    constraints: tuple[int, ...]

    @property
    def likeness(self) -> Hashable:
        """Equal for wants that accept the same devices."""
        amounts = tuple(sorted((name, amount.nano, amount.format) for name, amount in self.amounts.items()))
        tolerations = tuple(tuple(sorted(each.items(), key=str)) for each in self.tolerations)
        return self.checks, amounts, tolerations


@dataclass(eq=False, slots=True)
class Request:
    name: str
    wants: tuple[Want, ...]
    is_prioritized: bool


@dataclass(eq=False, slots=True)
class Claim:
    requests: tuple[Request, ...]
    constraints: tuple[Constraint, ...]
    config: Sequence[Json]


class Demand:
    """All claims of one Pod. With an error, the last claim's last request may be cut short (`is_cut`).

    `positions`: claim and request of each want, by its number. `starts`: what each claim's constraints have taken at
    first.
    """

    __slots__ = ("claims", "error", "has_all", "has_match", "is_cut", "positions", "starts", "wants")

    def __init__(
        self, claims: tuple[Claim, ...], wants: tuple[Want, ...], error: Failure | None, *, is_cut: bool
    ) -> None:
        self.claims, self.wants, self.error, self.is_cut = claims, wants, error, is_cut
        self.has_all = self.has_match = False
        self.positions: dict[int, tuple[int, int]] = {}
        self.starts: list[tuple[Taken, ...]] = []
        for number, claim in enumerate(claims):
            self.starts.append(tuple([each.start for each in claim.constraints]) if claim.constraints else ())
            for each in claim.constraints:
                self.has_match = self.has_match or not each.is_distinct
            for at, request in enumerate(claim.requests):
                for want in request.wants:
                    self.positions[want.number] = number, at
                    self.has_all = self.has_all or want.is_all


class _Stop(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


def read_claims(claims: Sequence[Json], classes: Mapping[str, Json], features: Features) -> Demand:
    """Never raises for what the claims say: errors wait in `Demand.error`."""
    reader = _Reader(classes, features)
    error: Failure | None = None
    try:
        for claim in claims:
            reader.claim(claim)
    except _Stop as stop:
        error = stop.failure
        reader.cut()
    return Demand(tuple(reader.claims), tuple(reader.wants), error, is_cut=reader.is_cut)


class _Reader:
    def __init__(self, classes: Mapping[str, Json], features: Features) -> None:
        self.classes, self.features = classes, features
        self.claims: list[Claim] = []
        self.wants: list[Want] = []
        self.is_cut = False
        self._requests: list[Request] = []
        self._first_want: int | None = None
        self._claim: tuple[tuple[Constraint, ...], Sequence[Json]] = ((), ())
        self._in_claim = False

    def cut(self) -> None:
        """Keep what was read before the error, so that an All request in it can fail first."""
        if not self._in_claim:
            return
        if self._first_want is not None:
            self.is_cut = True
            self._requests.append(Request("", tuple(self.wants[self._first_want :]), False))
        self._close()

    def _close(self) -> None:
        constraints, config = self._claim
        self.claims.append(Claim(tuple(self._requests), constraints, config))
        self._requests, self._in_claim = [], False

    def claim(self, claim: Json) -> None:
        text = text_of(claim)
        devices = (claim.get("spec") or {}).get("devices") or {}
        given = devices.get("constraints") or ()
        constraints = tuple(
            Constraint(
                each.get("matchAttribute") or each.get("distinctAttribute") or "",
                each.get("matchAttribute") is None,
                frozenset(each.get("requests") or ()),
            )
            for each in given
        )
        self._claim, self._in_claim = (constraints, devices.get("config") or ()), True
        for request in devices.get("requests") or ():
            self._first_want = len(self.wants)
            self._request(request, text, constraints)
            self._first_want = None
        for index, each in enumerate(given):
            if each.get("matchAttribute") is None and each.get("distinctAttribute") is None:
                raise _Stop(
                    Failure(
                        "constraint-empty",
                        f"claim {text}, constraint #{index}: empty constraint (unsupported constraint type?)",
                    )
                )
        self._close()

    def _request(self, request: Json, claim: str, constraints: tuple[Constraint, ...]) -> None:
        name = request.get("name") or ""
        exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or ()
        if alternatives and not self.features.PrioritizedList:
            raise _Stop(_disabled(claim, f"request {name}", "has subrequests", "DRAPrioritizedList"))
        if not self.features.ConsumableCapacity:
            if exactly is not None and exactly.get("capacity") is not None:
                raise _Stop(_disabled(claim, f"request {name}", "has capacity requests", "DRAConsumableCapacity"))
            for each in alternatives:
                if each.get("capacity") is not None:
                    where = f"subrequest {each.get('name') or ''}"
                    raise _Stop(_disabled(claim, where, "has capacity requests", "DRAConsumableCapacity"))
        first = len(self.wants)
        for each in alternatives or (exactly or {},):
            own = (each.get("name") or "") if alternatives else name
            full = f"{name}/{own}" if alternatives else name
            self._want(each, claim, name, own, full, constraints, is_sub=bool(alternatives))
        self._requests.append(Request(name, tuple(self.wants[first:]), bool(alternatives)))

    def _want(
        self,
        each: Json,
        claim: str,
        request: str,
        name: str,
        full: str,
        constraints: tuple[Constraint, ...],
        *,
        is_sub: bool,
    ) -> None:
        where = f"claim {claim}, request {name}"
        derived = each.get("derivedAttributes") or ()
        if derived and not self.features.DerivedAttributes:
            raise _Stop(
                Failure(
                    "feature-disabled",
                    f"{where}: cannot handle request with derived attributes, the feature is disabled",
                )
            )
        selectors = each.get("selectors") or ()
        for index, selector in enumerate(selectors):
            if selector.get("cel") is None:
                raise _Stop(
                    Failure(
                        "selector-empty",
                        f"{where}, selector #{index}: CEL expression empty (unsupported selector type?)",
                    )
                )
        admin = None if is_sub else each.get("adminAccess")
        if admin is not None and not self.features.AdminAccess:
            raise _Stop(Failure("feature-disabled", f"{where}: admin access is requested, but the feature is disabled"))
        class_name = each.get("deviceClassName") or ""
        if not class_name:
            raise _Stop(Failure("class-name-empty", f"{where}: missing device class name (unsupported request type?)"))
        device_class = self.classes.get(class_name)
        if device_class is None:
            raise _Stop(
                Failure(
                    "class-missing",
                    f"{where}: could not retrieve device class {class_name}: "
                    f'deviceclass.resource.k8s.io "{class_name}" not found',
                )
            )
        mode = each.get("allocationMode") or ""
        if mode not in ("ExactCount", "All"):
            raise _Stop(Failure("count-mode", f"{where}: unsupported count mode {mode}"))
        owned = (device_class.get("spec") or {}).get("selectors") or ()
        self.wants.append(
            Want(
                number=len(self.wants),
                claim=len(self.claims),
                request=request,
                name=name,
                full_name=full,
                device_class=device_class,
                checks=(*_checks(f"class {class_name}", owned), *_checks("", selectors)),
                is_all=mode == "All",
                count=int(each.get("count") or 0),
                is_admin=bool(admin),
                tolerations=each.get("tolerations") or (),
                amounts=_amounts(each),
                derived={attribute["name"]: attribute.get("expression") or "" for attribute in derived},
                constraints=tuple(
                    index for index, constraint in enumerate(constraints) if constraint.applies_to(request, full)
                ),
            )
        )


def text_of(claim: Json) -> str:
    """A claim as errors name it: `namespace/name`."""
    metadata = claim.get("metadata") or {}
    name, namespace = metadata.get("name") or "", metadata.get("namespace")
    return f"{namespace}/{name}" if namespace else name


def _disabled(claim: str, where: str, what: str, gate: str) -> Failure:
    return Failure("feature-disabled", f"claim {claim}, {where}: {what}, but the {gate} feature is disabled")


def _checks(owner: str, selectors: Sequence[Json]) -> Iterator[Check]:
    for index, selector in enumerate(selectors):
        yield Check(owner, index, (selector.get("cel") or {}).get("expression") or "")


def _amounts(each: Json) -> dict[str, Quantity]:
    requests = (each.get("capacity") or {}).get("requests") or {}
    return {name: parse(str(amount)) for name, amount in requests.items()}
