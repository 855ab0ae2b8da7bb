"""Bugs to plant, each a mistake that somebody could make: a checker is believed only when it finds them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from headrace.ledger.node import Ledger
from headrace.ledger.pods import Contribution
from headrace.node import pod_worker
from headrace.resize import plan as resize
from headrace.runtime import controller
from headrace.runtime.actions import Patch
from headrace.runtime.perform import perform
from tests.simulation.harness.faults import Faults

Plant = Callable[[], AbstractContextManager[Faults | None]]


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """`plant` puts it into the program for as long as its context lasts; it may change the faults of the world."""

    name: str
    plant: Plant


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


PLANTED = (
    PlantedBug("held is what is admitted, not the larger of that and what is so", _held_is_what_is_admitted),
    PlantedBug("the guard judges no update of a Pod", _the_guard_judges_no_update),
    PlantedBug("controllers ignore conflicts", _controllers_ignore_conflicts),
    PlantedBug("a shrink is admitted before the node has told", _a_shrink_is_admitted_before_the_node_has_told),
    PlantedBug("the agent echoes what was admitted", _the_agent_echoes_what_was_admitted),
    PlantedBug("a watch event is lost", _a_watch_event_is_lost),
)
