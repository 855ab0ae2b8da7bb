"""Which controllers run on the embedded home. Each is one line here and a folder of its own elsewhere."""

import asyncio
import random
import uuid

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from headrace.api.kinds import EVENT
from headrace.devices.controller import Claims, PodClaims, Unconfirmed
from headrace.devices.pool_health import ResourcePools
from headrace.devices.tainted_claims import DeviceTaintEvictions, DeviceTaintRuleStatus
from headrace.ledger.departed import unconfirmed_holder
from headrace.objects.local import LocalStore
from headrace.resize.action_controller import ActionController
from headrace.resize.controller import ResourceManager
from headrace.resize.monitoring import Monitoring
from headrace.resize.policy_manager import PolicyManager, look_when_measured
from headrace.resize.reservations import Reservations
from headrace.runtime.clock import Clock
from headrace.runtime.manager import ControllerManager
from headrace.runtime.metrics import ControllerMetrics
from headrace.scheduling.controller import Scheduler
from headrace.workloads.budgets import DisruptionBudgets
from headrace.workloads.events import EventTTL
from headrace.workloads.garbage import GarbageCollector
from headrace.workloads.namespaces import NamespaceDeletion
from headrace.workloads.nodes import NodeLifecycle
from headrace.workloads.pods import PodCollector

WRITERS = 16  # so many writes of a controller share a sync of the file


async def _yield() -> None:
    await asyncio.sleep(0)


def unconfirmed_end(store: LocalStore) -> Unconfirmed:
    """Asks the ledger, which charges a Pod that was deleted by force until its node has confirmed."""

    def node_of(pod: str) -> str:
        for node, ledger in store.rows.ledgers.items():
            if any(unconfirmed_holder(holder) == f"Pod {pod}" for holder in ledger.holders):
                return node
        return ""

    return node_of


def embedded_controllers(
    store: LocalStore, clock: Clock, log: FilteringBoundLogger, registry: CollectorRegistry, monitoring: Monitoring
) -> ControllerManager:
    """All of them on one store. The scheduler decides one Pod after the other; its workers write."""
    manager = ControllerManager(
        store, clock=clock, random=random.random, metrics=ControllerMetrics(registry), log=log, ordered=True
    )
    informers = manager.informers
    kinds = tuple(served.kind for served in store.registry.at_rest() if not served.custom)
    scheduler = Scheduler(informers, clock=clock, new_id=lambda: str(uuid.uuid4()), yield_now=_yield)
    manager.add(scheduler, workers=WRITERS)
    manager.add(PodClaims(informers), workers=WRITERS)
    manager.add(Claims(informers, store, unconfirmed_end(store)), workers=WRITERS)
    evictions = DeviceTaintEvictions(informers)
    manager.add(evictions)
    manager.add(DeviceTaintRuleStatus(informers, evictions.evicted))
    manager.add(ResourcePools(informers))
    manager.add(ResourceManager(informers))
    manager.add(Reservations(informers))
    manager.add(ActionController(informers, registry))
    monitoring.attach(informers, registry)
    policies = PolicyManager(informers, monitoring, clock.wall)
    look_when_measured(policies, manager.add(policies), monitoring)
    manager.add(NodeLifecycle(informers, clock))
    owned = tuple(kind for kind in kinds if kind.plural != EVENT.plural)  # Events are many and own nothing
    garbage = GarbageCollector(informers, store, owned)
    garbage.follow(lambda: (each.kind for each in store.registry.at_rest() if each.custom), manager.add(garbage).watch)
    manager.add(NamespaceDeletion(informers, store, lambda: (each.kind for each in store.registry.at_rest()), owned))
    manager.add(PodCollector(informers, store, clock))
    manager.add(EventTTL(informers, store))
    manager.add(DisruptionBudgets(informers))
    return manager
