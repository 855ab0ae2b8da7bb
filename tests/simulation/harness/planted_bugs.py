"""Bugs to plant, each a mistake that somebody could make: a checker is believed only when it finds them."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from headrace.devices import plan as claims
from headrace.devices.allocate.inventory import Inventory
from headrace.ledger.devices import Pool
from headrace.ledger.node import Ledger
from headrace.ledger.pods import Contribution
from headrace.node import pod_worker
from headrace.node.pods import Pods
from headrace.resize import actions_plan
from headrace.resize import plan as resize
from headrace.resize.policy import decision
from headrace.resize.policy import plan as policies
from headrace.resize.reservations import Reservations
from headrace.runtime import controller
from headrace.runtime.actions import Patch
from headrace.runtime.cache import Informer
from headrace.runtime.perform import perform
from tests.simulation.harness.faults import Faults

WITH_POLICIES = range(3, 181, 3)
Plant = Callable[[], AbstractContextManager[Faults | None]]


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """`plant` puts it into the program for as long as its context lasts; it may change the faults of the world.

    In one of `seeds` it is found.
    """

    name: str
    plant: Plant
    seeds: range = range(1, 61)


@contextmanager
def _held_is_what_is_admitted() -> Iterator[None]:
    """The books forget what a container still has: a shrink is released before it has happened."""
    with (
        patch.object(Contribution, "held", Contribution.admitted),
        patch.object(Contribution, "wish", lambda self, before: self.admitted()),
    ):
        yield


@contextmanager
def _the_guard_judges_no_update() -> Iterator[None]:
    """A binding is judged, what is admitted later is not: growth depends on a view that may be stale."""
    judged = Ledger.admit

    def admit(self: Ledger, holder: str, wanted: Any) -> Any:
        return self.record(holder, wanted) if holder in self.holders else judged(self, holder, wanted)

    with patch.object(Ledger, "admit", admit):
        yield


@contextmanager
def _controllers_ignore_conflicts() -> Iterator[Faults]:
    """They write whatever their stale view made them plan, over what others have written since."""

    async def heedless(store: Any, action: Any) -> Any:
        return await perform(store, replace(action, version=None) if isinstance(action, Patch) else action)

    with patch.object(controller, "perform", heedless):
        yield Faults(interfered=0.6)


@contextmanager
def _a_shrink_is_admitted_before_the_node_has_told() -> Iterator[None]:
    """The room of a container that may be growing at this moment is given away."""
    with patch.object(resize, "_too_early", lambda pod, node: None):
        yield


@contextmanager
def _the_agent_echoes_what_was_admitted() -> Iterator[None]:
    """Actual values are not read back: what could not be shrunk looks as if it had been."""
    told = pod_worker.reported

    def echoed(container: Any, status: Any, actual: Any) -> Any:
        return told(container, status, pod_worker.admitted(container, status))

    with patch.object(pod_worker, "reported", echoed):
        yield


@contextmanager
def _a_watch_event_is_lost() -> Iterator[Faults]:
    """The stream goes on after a gap that nobody is told of."""
    yield Faults(watch_lost=0.05)


@contextmanager
def _devices_that_are_given_are_not_counted() -> Iterator[None]:
    """Neither where they are chosen nor where it is written that somebody has them."""
    with (
        patch.object(Inventory, "hold", lambda self, owner, results: None),
        patch.object(Inventory, "put_claim", lambda self, key, claim: None),
        patch.object(Pool, "admit", Pool.record),
    ):
        yield


@contextmanager
def _after_gone_nothing_is_listed() -> Iterator[Faults]:
    """The watch goes on from where the store is, and the cache keeps what it had: stale from then on."""
    listed = Informer._list

    async def resumed(self: Any) -> None:
        if self.is_synced:
            self._revision = (await self._store.list(self.kind, limit=1)).revision
        else:
            await listed(self)

    with patch.object(Informer, "_list", resumed):
        yield Faults(watch_gone=0.05)


@contextmanager
def _a_retry_makes_another_claim() -> Iterator[Faults]:
    """Its name is not computed but drawn: after a lost reply nobody finds again what was made."""
    numbers = itertools.count()
    with patch.object(claims, "generated_name", lambda pod, entry: f"{pod['metadata']['name']}-{next(numbers)}"):
        yield Faults(reply_lost=0.1)


@contextmanager
def _what_was_seen_is_confirmed() -> Iterator[None]:
    """The agent confirms a forced deletion when its watch tells it, not when the containers have ended."""
    with patch.object(Pods, "confirmed", lambda self: self._revision() or None):
        yield


@contextmanager
def _a_policy_forgets_its_maximum() -> Iterator[None]:
    """It doubles for as long as the application asks for more."""
    with patch.object(decision._Look, "_at_most", lambda self, resource, wanted: wanted):
        yield


@contextmanager
def _a_policy_forgets_its_quota() -> Iterator[None]:
    """Each growth is right by itself, all of them together are too much."""
    with patch.object(policies, "total", lambda amounts: {}):
        yield


@contextmanager
def _a_policy_does_not_wait_after_a_growth() -> Iterator[None]:
    """The next sample finds the application as slow as before, and it grows again."""
    with patch.object(decision._Look, "_may_grow_at", lambda self: 0.0):
        yield


@contextmanager
def _a_reservation_outlives_its_time() -> Iterator[None]:
    """Nothing else reads an expiry, so nobody would ever release it."""
    with patch.object(Reservations, "plan", lambda self, seen, now: ()):
        yield


@contextmanager
def _actions_of_a_workload_run_beside_each_other() -> Iterator[None]:
    """Each is started when it is seen, whoever is under way."""
    with patch.object(actions_plan, "set", _Forgetful, create=True):
        yield


class _Forgetful(set[Any]):
    """Stands where the plan notes which workloads are busy."""

    def __contains__(self, item: object) -> bool:
        return False


PLANTED = (
    PlantedBug("held is what is admitted, not the larger of that and what is so", _held_is_what_is_admitted),
    PlantedBug("the guard judges no update of a Pod", _the_guard_judges_no_update),
    PlantedBug("controllers ignore conflicts", _controllers_ignore_conflicts),
    PlantedBug("a shrink is admitted before the node has told", _a_shrink_is_admitted_before_the_node_has_told),
    PlantedBug("the agent echoes what was admitted", _the_agent_echoes_what_was_admitted),
    PlantedBug("a watch event is lost", _a_watch_event_is_lost),
    PlantedBug("a device is granted twice", _devices_that_are_given_are_not_counted),
    PlantedBug("a watch that is gone is resumed without a list", _after_gone_nothing_is_listed),
    PlantedBug("a retry after a lost reply makes another claim", _a_retry_makes_another_claim),
    PlantedBug("what was seen is confirmed, and may still run", _what_was_seen_is_confirmed),
    PlantedBug("a policy forgets its maximum", _a_policy_forgets_its_maximum, WITH_POLICIES),
    PlantedBug("a policy forgets its quota", _a_policy_forgets_its_quota, range(33, 181, 3)),
    PlantedBug("a policy does not wait after a growth", _a_policy_does_not_wait_after_a_growth, WITH_POLICIES),
    PlantedBug("a reservation outlives its time", _a_reservation_outlives_its_time),
    PlantedBug("actions of one workload run beside each other", _actions_of_a_workload_run_beside_each_other),
)
