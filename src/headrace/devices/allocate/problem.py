"""One node's problem: its devices in the order they are tried, what is in use, and what each device is worth to a want.

Device sets are whole numbers with one bit for each device, in that order. Nothing here changes during a search.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.api.quantity import Quantity
from headrace.cel.errors import CompileError
from headrace.devices.allocate.capacity import CapacityError, consumed
from headrace.devices.allocate.constraints import Constraint, Value, static_value
from headrace.devices.allocate.device import Counters, Device
from headrace.devices.allocate.failure import Failure
from headrace.devices.allocate.features import Features
from headrace.devices.allocate.in_use import InUse
from headrace.devices.allocate.nodes import InvalidSelector, is_for_node
from headrace.devices.allocate.pools import Pool, unreadable_selector
from headrace.devices.allocate.requests import RESULTS_PER_CLAIM, Demand, Want
from headrace.devices.allocate.selectors import Selectors
from headrace.devices.allocate.taints import blocking

Json = Mapping[str, Any]

Groups = frozenset[str] | None  # compatibility groups that all devices of a counter set share; None if all name none

OPTIONAL_NODE_OPERATIONS = "DRAOptionalNodeOperations"


class Problem:
    """What the search reads. `alls[want.number]` are the devices of a want for all devices, once `enter` has run."""

    def __init__(
        self,
        node: Json,
        pools: Sequence[Pool],
        demand: Demand,
        in_use: InUse,
        selectors: Selectors,
        features: Features,
    ) -> None:
        self.node, self.pools, self.demand, self.features = node, pools, demand, features
        self.in_use, self.selectors = in_use, selectors
        usable = [pool for pool in pools if pool.is_usable]
        self.devices: list[Device] = [device for pool in usable for device in pool.devices]
        self.pool_of: list[int] = [number for number, pool in enumerate(usable) for _ in pool.devices]
        self.usable = usable
        self.used = 0
        for index, device in enumerate(self.devices):
            if device.id in in_use.used:
                self.used |= 1 << index
        self.alls: dict[int, list[int]] = {}
        self._selected: dict[tuple[int, int], bool] = {}
        self._amounts: dict[tuple[int, int], dict[str, Quantity] | None] = {}
        self._values: dict[tuple[str, int], Value | None] = {}
        self._available: dict[int, Counters | None] = {}
        self._groups: dict[int, dict[str, Groups]] = {}
        declared = (node.get("status") or {}).get("declaredFeatures") or ()
        self.may_skip_operations = features.OptionalNodeOperations and OPTIONAL_NODE_OPERATIONS in declared
        self.has_lists = features.ListTypeAttributes
        self.is_experimental = (
            features.CompatibilityGroups
            or features.DerivedAttributes
            or features.ListTypeAttributes
            or features.OptionalNodeOperations
        )

    def enter(self) -> None:
        """Kubernetes' checks before the search; raises the first Failure."""
        demand = self.demand
        for claim_number, claim in enumerate(demand.claims):
            fewest = 0
            for number, request in enumerate(claim.requests):
                for want in request.wants:
                    if want.is_all:
                        self.alls[want.number] = self._everything(want)
                is_last = claim_number == len(demand.claims) - 1 and number == len(claim.requests) - 1
                if demand.is_cut and is_last:
                    break
                least = min(self.count(want) for want in request.wants)
                if least > RESULTS_PER_CLAIM - fewest:
                    raise Failure(
                        "too-many-devices",
                        f"claim {claim.text}, request {request.name}: adding {least} devices exceeds the claim limit "
                        f"of {RESULTS_PER_CLAIM}, with {fewest} already accounted for",
                    )
                fewest += least
        if demand.error is not None:
            raise demand.error

    def count(self, want: Want) -> int:
        return len(self.alls[want.number]) if want.is_all else want.count

    def _everything(self, want: Want) -> list[int]:
        index, found = 0, []
        for pool in self.pools:
            if pool.is_incomplete:
                raise Failure(
                    "all-incomplete-pool",
                    f"{want.text}: asks for all devices, but resource pool {pool} is currently being updated",
                )
            if pool.invalid is not None:
                raise Failure(
                    "all-invalid-pool",
                    f"{want.text}: asks for all devices, but resource pool {pool} is currently invalid",
                )
            for device in pool.devices:
                if self.is_selected(want, index) and self._has_room_for_all(want, index, device):
                    found.append(index)
                index += 1
        return found

    def _has_room_for_all(self, want: Want, index: int, device: Device) -> bool:
        if not self.features.ConsumableCapacity:
            return True
        try:
            return self.amounts(want, index) is not None
        except CapacityError as error:
            raise Failure("capacity", f"{want.text}: checking capacity for device {device.name}: {error}") from None

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
                raise Failure("cel-compile", f"{check.owner}: selector #{check.index}: CEL compile error: {selector}")
            answer = self.selectors.ask(selector, device)
            if isinstance(answer, str):
                where = f"{check.owner}: selector #{check.index} on device {device}"
                raise Failure("cel-runtime", f"{where}: CEL runtime error: {answer}")
            if not answer:
                return False
        if not device.slice.per_device:
            return True
        try:
            return is_for_node(device.spec, self.node)
        except InvalidSelector as error:
            raise Failure("node-selection", unreadable_selector(device.spec, error)) from None

    def amounts(self, want: Want, index: int) -> dict[str, Quantity] | None:
        """What the want takes of the device's capacities; None if it could not even of an empty one."""
        key = (want.number, index)
        if key not in self._amounts:
            self._amounts[key] = consumed(
                want.amounts, self.devices[index].capacities, fractional=self.features.FractionalCapacityRange
            )
        return self._amounts[key]

    def value(self, want: Want, constraint: Constraint, index: int) -> Value | None:
        """What the device counts as under the constraint."""
        return self.static_value(constraint, index)

    def static_value(self, constraint: Constraint, index: int) -> Value | None:
        key = (constraint.attribute, index)
        if key not in self._values:
            self._values[key] = static_value(self.devices[index], constraint.attribute, with_lists=self.has_lists)
        return self._values[key]

    def is_barred(self, want: Want, index: int) -> bool:
        """Whether a gate or a taint keeps the device away from the want, whatever else is taken."""
        device = self.devices[index]
        if device.takes_counters and not self.features.PartitionableDevices:
            return True
        if device.slice.skip_operations and self.is_experimental and not self.may_skip_operations:
            return True
        return self.features.DeviceTaints and blocking(device.taints, want.tolerations) is not None

    def available(self, pool: int) -> Counters | None:
        """What is left of the pool's counters; None if one is overdrawn, which blocks all that consume any."""
        if pool not in self._available:
            left = dict(self.usable[pool].counters)
            for device in (*self.usable[pool].devices, *self.usable[pool].elsewhere):
                if device.takes_counters and self.in_use.holds(device.id):
                    for key, amount in device.consumes.items():
                        if key in left:
                            left[key] -= amount
            self._available[pool] = None if any(amount < 0 for amount in left.values()) else left
        return self._available[pool]

    def groups_in_use(self, pool: int) -> dict[str, Groups]:
        """Per counter set with a device in use, the compatibility groups that those devices share."""
        found = self._groups.get(pool)
        if found is None:
            found = self._groups[pool] = {}
            for device in (*self.usable[pool].devices, *self.usable[pool].elsewhere):
                if device.takes_counters and self.in_use.holds(device.id):
                    for counter_set, groups in device.compatibility_groups():
                        known = found.setdefault(counter_set, groups or None)
                        if known is not None and groups:
                            found[counter_set] = known & groups
        return found
