"""The control plane of the simulation: the real controllers, put together as a server would."""

import asyncio
import uuid
from collections.abc import Callable
from random import Random

import structlog
from prometheus_client import CollectorRegistry

from headrace.api import kinds
from headrace.devices.controller import Claims, PodClaims, Unconfirmed
from headrace.resize.action_controller import ActionController
from headrace.resize.controller import ResourceManager
from headrace.resize.monitoring import Monitoring
from headrace.resize.policy_manager import PolicyManager, look_when_measured
from headrace.resize.reservations import Reservations
from headrace.resize.scraper import Scraper
from headrace.runtime.clock import LoopClock
from headrace.runtime.manager import ControllerManager
from headrace.runtime.metrics import ControllerMetrics
from headrace.scheduling.controller import Scheduler
from headrace.store.protocol import Store
from headrace.workloads.events import EventTTL
from headrace.workloads.garbage import GarbageCollector
from headrace.workloads.namespaces import NamespaceDeletion
from headrace.workloads.nodes import NodeLifecycle
from headrace.workloads.pods import PodCollector

COLLECTED = (
    kinds.NAMESPACE,
    kinds.NODE,
    kinds.POD,
    kinds.CONFIG_MAP,
    kinds.RESOURCE_CLAIM,
    kinds.RESOURCE_SCALING_ACTION,
    kinds.RESIZE_POLICY,
)
CONTENT = (
    kinds.POD,
    kinds.CONFIG_MAP,
    kinds.SECRET,
    kinds.RESOURCE_CLAIM,
    kinds.RESOURCE_CLAIM_TEMPLATE,
    kinds.EVENT,
    kinds.RESOURCE_SCALING_ACTION,
    kinds.CAPACITY_RESERVATION,
    kinds.RESIZE_POLICY,
)


async def _yield_now() -> None:
    await asyncio.sleep(0)


def control_plane(
    store: Store, wall: Callable[[], float], random: Random, unconfirmed: Unconfirmed, monitoring: Monitoring
) -> tuple[ControllerManager, Scraper]:
    """`unconfirmed` asks the ledger of the server, as it is to the controllers that run beside it."""
    clock = LoopClock(wall)
    manager = ControllerManager(
        store,
        clock=clock,
        random=random.random,
        metrics=ControllerMetrics(CollectorRegistry()),
        log=structlog.get_logger(),
    )
    informers = manager.informers
    manager.add(ResourceManager(informers))
    manager.add(Reservations(informers))
    manager.add(ActionController(informers, CollectorRegistry()))
    monitoring.attach(informers, CollectorRegistry())
    policies = PolicyManager(informers, monitoring, wall)
    look_when_measured(policies, manager.add(policies), monitoring)
    manager.add(
        Scheduler(
            informers,
            clock=clock,
            new_id=lambda: str(uuid.UUID(int=random.getrandbits(128))),
            yield_now=_yield_now,
        ),
        workers=4,
    )
    manager.add(PodClaims(informers))
    manager.add(Claims(informers, store, unconfirmed))
    manager.add(GarbageCollector(informers, store, COLLECTED))
    manager.add(NamespaceDeletion(informers, store, lambda: CONTENT, (kinds.POD, kinds.CONFIG_MAP)))
    manager.add(NodeLifecycle(informers, clock))
    manager.add(PodCollector(informers, store, clock), workers=1)
    manager.add(EventTTL(informers, store), workers=1)
    return manager, Scraper(informers, monitoring, clock, structlog.get_logger())
