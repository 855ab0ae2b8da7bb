"""Why a node does not serve claims: how many devices each request lost to what, and what cannot be had together.

Every device is counted once for each request, under the first thing that keeps it away. Pure, but not bounded by
slices: it is for people who ask, not for the scheduler's loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from headrace.cel.errors import CompileError
from headrace.devices.allocate.capacity import CapacityError
from headrace.devices.allocate.conflicts import Conflict, conflict
from headrace.devices.allocate.constraints import NO_VALUE
from headrace.devices.allocate.failure import Failure
from headrace.devices.allocate.inventory import Inventory
from headrace.devices.allocate.nodes import InvalidSelector, is_for_node, name_of
from headrace.devices.allocate.partial import Partial, has_room
from headrace.devices.allocate.pools import Pool
from headrace.devices.allocate.problem import Problem
from headrace.devices.allocate.requests import Check, Want
from headrace.devices.allocate.structure import bits
from headrace.devices.allocate.taints import blocking

Json = Mapping[str, Any]
SHORT_LOSSES = 3


@dataclass(frozen=True, slots=True)
class Loss:
    """So many devices were lost to this reason; `device` is the first of them."""

    reason: str
    number: int
    device: str


@dataclass(frozen=True, slots=True)
class RequestReport:
    """One request or subrequest: what it needs of `devices` on the node, and what is `left` after the losses.

    `asked` is the request itself, the same for all its alternatives.
    """

    request: str
    asked: str
    needed: int | None
    devices: int
    left: int
    losses: tuple[Loss, ...]

    @property
    def is_short(self) -> bool:
        return self.left < (1 if self.needed is None else self.needed)

    def short(self, losses: int) -> str:
        most = sorted(self.losses, key=lambda loss: -loss.number)[:losses]
        told = ", ".join(f"{loss.number} lost to {loss.reason}" for loss in most)
        needed = f", {self.needed} needed" if self.left else ""
        why = told or ("" if self.devices else "none on the node")
        return f"{self.request}: {self.left} of {self.devices} devices left{needed}" + (f": {why}" if why else "")


@dataclass(frozen=True, slots=True)
class NodeReport:
    """`error` is what Kubernetes would say instead of searching; `pools` are those that nothing is given from."""

    node: str
    requests: tuple[RequestReport, ...]
    constraints: tuple[str, ...]
    pools: tuple[str, ...]
    conflict: Conflict | None
    error: str | None

    def short(self) -> str:
        """The first request that is short of devices, and what it lost most to; empty if it is something else.

        One with alternatives is short where all of them are: then each is told, with its largest loss.
        """
        for _, group in groupby(self.requests, key=lambda each: each.asked):
            alternatives = list(group)
            if all(each.is_short for each in alternatives):
                losses = SHORT_LOSSES if len(alternatives) == 1 else 1
                return "; ".join(each.short(losses) for each in alternatives)
        return next(iter(self.constraints), "")

    def lines(self) -> Iterator[str]:
        """The report as people read it."""
        yield f"node {self.node}:"
        if self.error is not None:
            yield f"  error: {self.error}"
        yield from (f"  {pool}" for pool in self.pools)
        for request in self.requests:
            needed = "all" if request.needed is None else str(request.needed)
            short = ", too few" if request.is_short else ""
            yield f"  {request.request}: needs {needed}, {request.left} of {request.devices} devices left{short}"
            for loss in request.losses:
                others = f" and {loss.number - 1} more" if loss.number > 1 else ""
                yield f"    {loss.number} lost to {loss.reason} ({loss.device}{others})"
        yield from (f"  {constraint}" for constraint in self.constraints)
        if self.conflict is not None:
            yield from (f"  {line}" for line in self.conflict.lines())


def report(node: Json, claims: Sequence[Json], inventory: Inventory, *, with_conflict: bool = True) -> NodeReport:
    """What keeps the node from serving the claims, as things are now. Finding the conflict searches many times."""
    try:
        view = inventory.view(node)
    except Failure as failure:
        return NodeReport(name_of(node), (), (), (), None, failure.text)
    demand = inventory.known(claims).demand
    problem = Problem(view, inventory.state(view), demand, claims, inventory.selectors, inventory.features)
    found = [_request(problem, want, inventory) for want in demand.wants]
    error: str | None = None
    if demand.error is not None:
        error = demand.error.text
    constraints = [
        line
        for claim, each in enumerate(demand.claims)
        for number in range(len(each.constraints))
        if (line := _constraint(problem, claim, number, [left for _, left in found]))
    ]
    return NodeReport(
        name_of(node),
        tuple(request for request, _ in found),
        tuple(constraints),
        tuple(line for pool in view.pools if (line := _pool(pool))),
        conflict(node, claims, inventory) if with_conflict and not error else None,
        error,
    )


def _pool(pool: Pool) -> str | None:
    if pool.is_incomplete:
        return f"pool {pool} is incomplete: its driver is still publishing it"
    return None if pool.invalid is None else f"pool {pool} is invalid: {pool.invalid}"


def _request(problem: Problem, want: Want, inventory: Inventory) -> tuple[RequestReport, int]:
    """The report on one want, and the set of devices that are left to it."""
    losses: dict[str, list[str]] = {}
    left = 0
    for index, device in enumerate(problem.devices):
        reason = _reason(problem, want, index, inventory)
        if reason is None:
            left |= 1 << index
        else:
            losses.setdefault(reason, []).append(str(device))
    counted = sorted(losses.items(), key=lambda item: -len(item[1]))
    return (
        RequestReport(
            f"{problem.claim(want.claim)}, request {want.full_name}",
            f"{problem.claim(want.claim)}, request {want.request}",
            None if want.is_all else want.count,
            len(problem.devices),
            left.bit_count(),
            tuple(Loss(reason, len(devices), devices[0]) for reason, devices in counted),
        ),
        left,
    )


def _reason(problem: Problem, want: Want, index: int, inventory: Inventory) -> str | None:
    device = problem.devices[index]
    for check in want.checks:
        if (reason := _check(problem, check, index)) is not None:
            return reason
    try:
        if device.slice.per_device and not is_for_node(device.spec, problem.node):
            return "being for other nodes"
    except InvalidSelector as error:
        return f"its node selector: {error}"
    if not want.is_admin and problem.used >> index & 1:
        holders = ", ".join(sorted(inventory.holders(device.id)))
        return f"use by {holders}" if holders else "use by another claim"
    if problem.features.DeviceTaints and (taint := blocking(device.taints, want.tolerations)) is not None:
        value = f"={taint['value']}" if taint.get("value") else ""
        return f"the taint {taint.get('key')}{value}:{taint.get('effect')}"
    if problem.is_barred(want, index):
        return "a feature that is off"
    return _room(problem, want, index) or _attributes(problem, want, index)


def _check(problem: Problem, check: Check, index: int) -> str | None:
    whose = f"the selector of {check.owner}" if check.owner else "the request's selector"
    selector = problem.selectors.compiled(check.expression)
    if isinstance(selector, CompileError):
        return f"{whose} #{check.index}, which does not compile: {str(selector).splitlines()[0]}"
    answer = problem.selectors.ask(selector, problem.devices[index])
    if isinstance(answer, str):
        return f"an error of {whose} #{check.index}: {answer}"
    return None if answer else f"{whose} #{check.index}: {check.expression}"


def _room(problem: Problem, want: Want, index: int) -> str | None:
    device = problem.devices[index]
    if problem.features.ConsumableCapacity:
        try:
            if problem.amounts(want, index) is None:
                return "capacity: the device never has as much as is asked, or not in such steps"
            if not has_room(problem, Partial(), want, index):
                return "capacity: what is asked does not fit beside the shares in use"
        except CapacityError as error:
            return f"capacity: {error}"
    if device.takes_counters and not (device.is_shareable and problem.state.shared >> index & 1):
        left = problem.state.available[problem.pool_of[index]]
        if left is None:
            return "counters: one of its pool's is overdrawn"
        for key, amount in device.consumes.items():
            if amount > left.get(key, 0):
                return f"counters: {key[1]} of {key[0]} is used up"
    return None


def _attributes(problem: Problem, want: Want, index: int) -> str | None:
    for number in want.constraints:
        constraint = problem.demand.claims[want.claim].constraints[number]
        try:
            value = problem.value(want, constraint, index)
        except Failure as failure:
            return f"an error: {failure.text}"
        if value is None:
            return f"having no attribute {constraint.attribute}, which a constraint needs"
    return None


def _constraint(problem: Problem, claim: int, number: int, left: Sequence[int]) -> str | None:
    """How the devices that are left fall apart under one constraint, where that is too little."""
    constraint = problem.demand.claims[claim].constraints[number]
    wants = [want for want in problem.demand.wants if want.claim == claim and number in want.constraints]
    exact = [want for want in wants if want.full_name == want.request and not want.is_all]
    groups: dict[Any, int] = {}
    union = 0
    for want in exact:
        union |= left[want.number]
    for index in bits(union):
        value = problem.static_value(constraint, index)
        if value is not None and value != NO_VALUE:
            groups[value] = groups.get(value, 0) | 1 << index
    needed = sum(want.count for want in exact)
    what = f"{problem.claim(claim)}, constraint #{number}"
    if constraint.is_distinct:
        if len(groups) >= needed:
            return None
        return (
            f"{what}: distinctAttribute {constraint.attribute} has {len(groups)} values among them, {needed} are needed"
        )
    if not groups or not exact:
        return None
    value, largest = max(groups.items(), key=lambda item: item[1].bit_count())
    if largest.bit_count() >= needed:
        return None
    return (
        f"{what}: matchAttribute {constraint.attribute} leaves at most {largest.bit_count()} devices together "
        f"({value[1]}), {needed} are needed"
    )
