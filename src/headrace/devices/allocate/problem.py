"""One node's problem: a demand, the node's devices in the order they are tried, and what each is worth to a want.

Nothing here changes during a search; it only remembers what it was asked.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from headrace.api.quantity import Quantity
from headrace.cel.errors import CompileError, EvaluationError
from headrace.devices.allocate.capacity import CapacityError, consumed
from headrace.devices.allocate.constraints import Constraint, Value, as_value, static_value
from headrace.devices.allocate.device import Device
from headrace.devices.allocate.failure import Failure
from headrace.devices.allocate.features import Features
from headrace.devices.allocate.nodes import InvalidSelector, is_for_node
from headrace.devices.allocate.pools import unreadable_selector
from headrace.devices.allocate.requests import RESULTS_PER_CLAIM, Check, Demand, Want, text_of
from headrace.devices.allocate.selectors import Selectors
from headrace.devices.allocate.taints import blocking
from headrace.devices.allocate.view import Chosen, State, View

Json = Mapping[str, Any]

ASKED_AT_ONCE = 64


class Problem:
    """What the search reads. `alls[want.number]` are the devices of a want for all devices, once `entering` is over.

    `claims` are named in errors: one demand may serve many Pods.
    """

    def __init__(
        self,
        view: View,
        state: State,
        demand: Demand,
        claims: Sequence[Json],
        selectors: Selectors,
        features: Features,
    ) -> None:
        self.view, self.state, self.demand, self.claims = view, state, demand, claims
        self.selectors, self.features = selectors, features
        self.node, self.pools, self.devices, self.pool_of = view.node, view.pools, view.devices, view.pool_of
        self.used = state.used
        self.alls: dict[int, list[int]] = {}
        self._selected: dict[tuple[int, int], bool] = {}
        self._amounts: dict[tuple[int, int], dict[str, Quantity] | None] = {}
        self._values: dict[tuple[str, int], Value | None] = {}
        self._derived: dict[tuple[str, int], Value] = {}
        self.has_lists = features.ListTypeAttributes

    def text(self, want: Want) -> str:
        """The words with which an error about the want begins."""
        return f"{self.claim(want.claim)}, request {want.name}"

    def claim(self, number: int) -> str:
        """The claim as errors name it."""
        return f"claim {text_of(self.claims[number])}"

    def entering(self) -> Generator[int]:
        """Kubernetes' checks before the search; raises the first Failure. Yields the number of devices asked about."""
        demand = self.demand
        for claim_number, claim in enumerate(demand.claims):
            fewest = 0
            for number, request in enumerate(claim.requests):
                for want in request.wants:
                    if want.is_all:
                        self.alls[want.number] = yield from self._everything(want)
                is_last = claim_number == len(demand.claims) - 1 and number == len(claim.requests) - 1
                if demand.is_cut and is_last:
                    break
                least = self.count(request.wants[0])
                if len(request.wants) > 1:
                    least = min([self.count(want) for want in request.wants])
                if least > RESULTS_PER_CLAIM - fewest:
                    where = f"{self.claim(claim_number)}, request {request.name}"
                    text = f"{where}: adding {least} devices exceeds the claim limit of {RESULTS_PER_CLAIM}"
                    raise Failure("too-many-devices", f"{text}, with {fewest} already accounted for")
                fewest += least
        if demand.error is not None:
            raise demand.error

    def count(self, want: Want) -> int:
        return len(self.alls[want.number]) if want.is_all else want.count

    def _everything(self, want: Want) -> Generator[int, None, list[int]]:
        index, found = 0, []
        for pool in self.pools:
            if pool.is_incomplete:
                raise Failure(
                    "all-incomplete-pool",
                    f"{self.text(want)}: asks for all devices, but resource pool {pool} is currently being updated",
                )
            if pool.invalid is not None:
                raise Failure(
                    "all-invalid-pool",
                    f"{self.text(want)}: asks for all devices, but resource pool {pool} is currently invalid",
                )
            for device in pool.devices:
                if self.is_selected(want, index) and self._has_room_for_all(want, index, device):
                    found.append(index)
                index += 1
                if index % ASKED_AT_ONCE == 0:
                    yield ASKED_AT_ONCE
        return found

    def _has_room_for_all(self, want: Want, index: int, device: Device) -> bool:
        if not self.features.ConsumableCapacity:
            return True
        try:
            return self.amounts(want, index) is not None
        except CapacityError as error:
            raise Failure(
                "capacity", f"{self.text(want)}: checking capacity for device {device.name}: {error}"
            ) from None

    def chosen(self, want: Want) -> Chosen:
        """What is known of the devices the want may take, whatever else is taken."""
        return Chosen() if want.amounts else self.view.chosen_by(want.expressions)

    def ask(self, want: Want, index: int, chosen: Chosen) -> None:
        """Find out about one more device; never raises."""
        bit = 1 << index
        chosen.asked |= bit
        try:
            if self.is_selected(want, index) and self._fits_empty(want, index):
                chosen.yes |= bit
        except (Failure, CapacityError):
            chosen.error |= bit

    def _fits_empty(self, want: Want, index: int) -> bool:
        if not self.features.ConsumableCapacity or (not want.amounts and self.devices[index].always_has_room):
            return True
        return self.amounts(want, index) is not None

    def is_selected(self, want: Want, index: int) -> bool:
        """Whether class and request selectors take the device and it is for this node; raises Failure."""
        key = (want.number, index)
        known = self._selected.get(key)
        if known is None:
            known = self._selected[key] = self._select(want, self.devices[index])
        return known

    def _select(self, want: Want, device: Device) -> bool:
        if not self.features.DeviceBindingAndStatus and device.spec.get("bindingConditions"):
            return False
        for check in want.checks:
            selector = self.selectors.compiled(check.expression)
            if isinstance(selector, CompileError):
                raise Failure("cel-compile", f"{self._check(want, check)}: CEL compile error: {selector}")
            answer = self.selectors.ask(selector, device)
            if isinstance(answer, str):
                where = f"{self._check(want, check)} on device {device}"
                raise Failure("cel-runtime", f"{where}: CEL runtime error: {answer}")
            if not answer:
                return False
        if not device.slice.per_device:
            return True
        try:
            return is_for_node(device.spec, self.node)
        except InvalidSelector as error:
            raise Failure("node-selection", unreadable_selector(device.spec, error)) from None

    def _check(self, want: Want, check: Check) -> str:
        return f"{check.owner or self.claim(want.claim)}: selector #{check.index}"

    def amounts(self, want: Want, index: int) -> dict[str, Quantity] | None:
        """What the want takes of the device's capacities; None if it could not even of an empty one."""
        key = (want.number, index)
        if key not in self._amounts:
            self._amounts[key] = consumed(
                want.amounts, self.devices[index].capacities, fractional=self.features.FractionalCapacityRange
            )
        return self._amounts[key]

    def value(self, want: Want, constraint: Constraint, index: int) -> Value | None:
        """What the device counts as under the constraint; raises Failure where the want derives it with an error."""
        expression = want.derived.get(constraint.attribute)
        if expression is None:
            return self.static_value(constraint, index)
        key = (expression, index)
        if key not in self._derived:
            self._derived[key] = self._derive(constraint.attribute, expression, self.devices[index])
        return self._derived[key]

    def _derive(self, name: str, expression: str, device: Device) -> Value:
        derived = self.selectors.derived(expression)
        if isinstance(derived, CompileError):
            raise Failure("derived-compile", f"compile derived attribute {name} failed: {derived}")
        try:
            attribute = derived.evaluate(self.selectors.prepared(device))
        except EvaluationError as error:
            where = f"evaluate derived attribute {name} on device {device}"
            raise Failure("derived-runtime", f"{where} failed: {error}") from None
        return as_value(attribute, with_lists=self.has_lists)

    def static_value(self, constraint: Constraint, index: int) -> Value | None:
        key = (constraint.attribute, index)
        if key not in self._values:
            self._values[key] = static_value(self.devices[index], constraint.attribute, with_lists=self.has_lists)
        return self._values[key]

    def is_barred(self, want: Want, index: int) -> bool:
        """Whether a gate or a taint keeps the device away from the want, whatever else is taken."""
        if not self.view.marks[2] >> index & 1:
            return False
        device = self.devices[index]
        if device.takes_counters and not self.features.PartitionableDevices:
            return True
        if device.slice.skip_operations and self.features.is_experimental and not self.view.may_skip_operations:
            return True
        return self.features.DeviceTaints and blocking(device.taints, want.tolerations) is not None
