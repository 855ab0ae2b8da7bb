"""Claims read for the search: requests, their alternatives, constraints, and the first thing wrong with them.

A `Want` is one exact request or one subrequest of `firstAvailable`. The checks run in Kubernetes' order; they stop at
the first error, which `Demand.error` holds until the wants before it have been looked at (an All may fail earlier).
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.api.quantity import Quantity, parse
from headrace.devices.allocate.constraints import Constraint, Taken
from headrace.devices.allocate.failure import Failure
from headrace.devices.allocate.features import Features

Json = Mapping[str, Any]

NOTHING: Mapping[str, Any] = {}
RESULTS_PER_CLAIM = 32


@dataclass(frozen=True, slots=True)
class Check:
    """One CEL selector. `owner` begins an error of a class's selector (`class NAME`); empty for a claim's own."""

    owner: str
    index: int
    expression: str


class DeviceClass:
    """A DeviceClass as it is read once, when it comes."""

    __slots__ = ("checks", "config", "expressions", "name")

    def __init__(self, device_class: Json) -> None:
        spec = device_class.get("spec") or {}
        self.name: str = device_class["metadata"]["name"]
        self.config: Sequence[Json] = spec.get("config") or ()
        self.checks = _checks(f"class {self.name}", spec.get("selectors") or ())
        self.expressions = tuple([check.expression for check in self.checks])


@dataclass(eq=False, slots=True)  # frozen ones take three times as long to make
class Want:
    """One request or subrequest, ready to be searched; not changed once its claim is read. `number` is its place among
    all wants of the demand, `claim` and `place` say to which request it belongs; `expressions` are those of its
    `checks`; `told` are the tolerations that its results repeat."""

    number: int
    claim: int
    place: int
    request: str
    name: str
    full_name: str
    device_class: DeviceClass
    checks: tuple[Check, ...]
    expressions: tuple[str, ...]
    is_all: bool
    count: int
    is_admin: bool
    tolerations: Sequence[Json]
    amounts: Mapping[str, Quantity]
    derived: Mapping[str, str]
    constraints: tuple[int, ...]
    told: Sequence[Json]

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
    """`start` is what its constraints have taken at first."""

    requests: tuple[Request, ...]
    constraints: tuple[Constraint, ...]
    config: Sequence[Json]
    has_config: bool
    start: tuple[Taken, ...]


@dataclass(eq=False, slots=True)
class Demand:
    """All claims of one Pod. With an error, the last claim's last request may be cut short (`is_cut`).

    `is_in_limits`: no claim can need more devices than a claim may have. Not known where a request is for all.
    """

    claims: tuple[Claim, ...]
    wants: tuple[Want, ...]
    error: Failure | None
    is_cut: bool
    has_all: bool
    has_match: bool
    is_in_limits: bool


def read_claims(claims: Sequence[Json], classes: Mapping[str, DeviceClass], features: Features) -> Demand:
    """Never raises for what the claims say: errors wait in `Demand.error`."""
    reader = _Reader(classes, features)
    try:
        for claim in claims:
            reader.claim(claim)
    except Failure as failure:
        return reader.cut(failure)
    return reader.demand(None)


class _Reader:
    """Raises the first Failure; what was read before stays."""

    __slots__ = (
        "_claim",
        "_claims",
        "_config",
        "_constraints",
        "_first",
        "_has_all",
        "_has_config",
        "_has_match",
        "_is_cut",
        "_is_in_limits",
        "_requests",
        "_wants",
        "classes",
        "features",
    )

    def __init__(self, classes: Mapping[str, DeviceClass], features: Features) -> None:
        self.classes, self.features = classes, features
        self._claims: list[Claim] = []
        self._wants: list[Want] = []
        self._is_cut = self._has_all = self._has_match = False
        self._is_in_limits = True
        self._claim: Json | None = None  # the one that is being read, and what was read of it
        self._constraints: tuple[Constraint, ...] = ()
        self._config: Sequence[Json] = ()
        self._has_config = False
        self._requests: list[Request] = []
        self._first: int | None = None  # want of the request that is being read

    def demand(self, error: Failure | None) -> Demand:
        return Demand(
            tuple(self._claims),
            tuple(self._wants),
            error,
            self._is_cut,
            self._has_all,
            self._has_match,
            self._is_in_limits,
        )

    def cut(self, failure: Failure) -> Demand:
        """Keep what was read before the error, so that an All request in it can fail first."""
        if self._claim is not None:
            if self._first is not None:
                self._is_cut = True
                self._requests.append(Request("", tuple(self._wants[self._first :]), False))
            self._close()
        return self.demand(failure)

    def _close(self) -> None:
        constraints = self._constraints
        start = tuple([each.start for each in constraints]) if constraints else ()
        self._claims.append(Claim(tuple(self._requests), constraints, self._config, self._has_config, start))
        self._requests, self._claim = [], None

    def claim(self, claim: Json) -> None:
        self._claim = claim
        devices = (claim.get("spec") or NOTHING).get("devices") or NOTHING
        given = devices.get("constraints") or ()
        self._constraints = tuple([_constraint(each) for each in given]) if given else ()
        self._config = devices.get("config") or ()
        self._has_config = bool(self._config)
        fewest, before = 0, len(self._wants)
        for request in devices.get("requests") or ():
            self._first = len(self._wants)
            self._request(request)
            self._first = None
            wants = self._requests[-1].wants
            fewest += wants[0].count if len(wants) == 1 else min([want.count for want in wants])
            if fewest > RESULTS_PER_CLAIM:
                self._is_in_limits = False
        if len(self._wants) > before + 1:
            # No server takes two requests of one name; Kubernetes' allocator looks them up by name, so the first one's.
            named: dict[str, Want] = {}
            for want in self._wants[before:]:
                want.told = named.setdefault(want.full_name, want).tolerations
        for index, each in enumerate(given):
            if each.get("matchAttribute") is None and each.get("distinctAttribute") is None:
                text = f"claim {text_of(claim)}, constraint #{index}: empty constraint (unsupported constraint type?)"
                raise Failure("constraint-empty", text)
            self._has_match = self._has_match or each.get("matchAttribute") is not None
        self._close()

    def _request(self, request: Json) -> None:
        name = request.get("name") or ""
        exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
        if alternatives and not self.features.PrioritizedList:
            raise self._disabled(f"request {name}", "has subrequests", "DRAPrioritizedList")
        if not self.features.ConsumableCapacity:
            if exactly is not None and exactly.get("capacity") is not None:
                raise self._disabled(f"request {name}", "has capacity requests", "DRAConsumableCapacity")
            for each in alternatives or ():
                if each.get("capacity") is not None:
                    where = f"subrequest {each.get('name') or ''}"
                    raise self._disabled(where, "has capacity requests", "DRAConsumableCapacity")
        if not alternatives:
            want = self._want(exactly or NOTHING, name, name, name, is_sub=False)
            self._requests.append(Request(name, (want,), False))
            return
        wants = []
        for each in alternatives:
            own = each.get("name") or ""
            wants.append(self._want(each, name, own, f"{name}/{own}", is_sub=True))
        self._requests.append(Request(name, tuple(wants), True))

    def _want(self, each: Json, request: str, name: str, full: str, *, is_sub: bool) -> Want:
        derived = each.get("derivedAttributes") or ()
        if derived and not self.features.DerivedAttributes:
            text = "cannot handle request with derived attributes, the feature is disabled"
            raise Failure("feature-disabled", f"{self._where(name)}: {text}")
        selectors = each.get("selectors") or ()
        for index, selector in enumerate(selectors):
            if selector.get("cel") is None:
                text = f"{self._where(name)}, selector #{index}: CEL expression empty (unsupported selector type?)"
                raise Failure("selector-empty", text)
        admin = None if is_sub else each.get("adminAccess")
        if admin is not None and not self.features.AdminAccess:
            text = f"{self._where(name)}: admin access is requested, but the feature is disabled"
            raise Failure("feature-disabled", text)
        class_name = each.get("deviceClassName") or ""
        device_class = self.classes.get(class_name)
        if device_class is None or not class_name:
            raise self._without_class(name, class_name)
        mode = each.get("allocationMode") or ""
        if mode not in ("ExactCount", "All"):
            raise Failure("count-mode", f"{self._where(name)}: unsupported count mode {mode}")
        if mode == "All":
            self._has_all = True
        if device_class.config:
            self._has_config = True
        checks, expressions, constraints = device_class.checks, device_class.expressions, self._constraints
        if selectors:
            checks = (*checks, *_checks("", selectors))
            expressions = tuple([check.expression for check in checks])
        tolerations = each.get("tolerations") or ()
        want = Want(
            len(self._wants),
            len(self._claims),
            len(self._requests),
            request,
            name,
            full,
            device_class,
            checks,
            expressions,
            mode == "All",
            int(each.get("count") or 0),
            bool(admin),
            tolerations,
            _amounts(each["capacity"]) if each.get("capacity") else NOTHING,
            {attribute["name"]: attribute.get("expression") or "" for attribute in derived} if derived else NOTHING,
            tuple([index for index, one in enumerate(constraints) if one.applies_to(request, full)])
            if constraints
            else (),
            tolerations,
        )
        self._wants.append(want)
        return want

    def _where(self, request: str) -> str:
        assert self._claim is not None
        return f"claim {text_of(self._claim)}, request {request}"

    def _without_class(self, request: str, name: str) -> Failure:
        if not name:
            text = f"{self._where(request)}: missing device class name (unsupported request type?)"
            return Failure("class-name-empty", text)
        missing = f'deviceclass.resource.k8s.io "{name}" not found'
        text = f"{self._where(request)}: could not retrieve device class {name}: {missing}"
        return Failure("class-missing", text)

    def _disabled(self, where: str, what: str, gate: str) -> Failure:
        assert self._claim is not None
        text = f"claim {text_of(self._claim)}, {where}: {what}, but the {gate} feature is disabled"
        return Failure("feature-disabled", text)


def text_of(claim: Json) -> str:
    """A claim as errors name it: `namespace/name`."""
    metadata = claim.get("metadata") or {}
    name, namespace = metadata.get("name") or "", metadata.get("namespace")
    return f"{namespace}/{name}" if namespace else name


def _constraint(each: Json) -> Constraint:
    attribute = each.get("matchAttribute")
    names = frozenset(each.get("requests") or ())
    return Constraint(attribute or each.get("distinctAttribute") or "", attribute is None, names)


def _checks(owner: str, selectors: Sequence[Json]) -> tuple[Check, ...]:
    return tuple(
        [
            Check(owner, index, (selector.get("cel") or {}).get("expression") or "")
            for index, selector in enumerate(selectors)
        ]
    )


def _amounts(capacity: Json) -> dict[str, Quantity]:
    return {name: parse(str(amount)) for name, amount in (capacity.get("requests") or {}).items()}
