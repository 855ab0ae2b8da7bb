"""The controllers on a real cluster: one process of several leads by a Lease, and only the leader writes.

There kube-scheduler and the kubelet are the arbiters, so placing, allocating and admitting are not ours; each job that
applies to a cluster is a line in `cluster_controllers`.
"""

import asyncio
import os
import random
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from headrace.client.http import Client
from headrace.client.kubeconfig import Cluster
from headrace.runtime.clock import LoopClock
from headrace.runtime.fenced import FencedStore
from headrace.runtime.leader import Election, LeaseTimes
from headrace.runtime.manager import ControllerManager
from headrace.runtime.metrics import ControllerMetrics
from headrace.serve.health import Health, serve_health
from headrace.store.kubernetes import KubernetesStore

LEASE_NAME = "headrace-controllers"

Jobs = Callable[[ControllerManager], None]
"""Adds the jobs that a manager runs."""


def cluster_controllers(manager: ControllerManager) -> None:
    """The jobs of this release that apply to a cluster: none yet. Scheduler, allocator and workloads stay off there."""


@dataclass(frozen=True, slots=True)
class ControllersSettings:
    """`namespace` is where the lease lies. `health_port` 0 takes a free one."""

    cluster: Cluster
    namespace: str = "kube-system"
    health_host: str = "127.0.0.1"
    health_port: int = 0
    times: LeaseTimes = field(default_factory=LeaseTimes)


class BootClock(LoopClock):
    """Its monotonic time also runs while the machine is suspended: a lease must not outlive that."""

    def monotonic(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)


async def run_controllers(
    settings: ControllersSettings,
    log: FilteringBoundLogger,
    ready: Callable[[int], None],
    jobs: Jobs = cluster_controllers,
) -> None:
    """Candidate and leader by turns until cancelled, which gives the lease back. `ready` is told the health port."""
    health = Health()
    async with Client(settings.cluster, user_agent="headrace-controllers") as client:
        store = KubernetesStore(client)
        election = Election(
            store,
            namespace=settings.namespace,
            name=LEASE_NAME,
            identity=f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}",
            clock=BootClock(time.time),
            random=random.random,
            log=log,
            times=settings.times,
        )
        health.leads = lambda: election.is_leader
        async with serve_health(health, settings.health_host, settings.health_port) as port:
            ready(port)
            try:
                while True:
                    await election.acquire()
                    await _one_term(FencedStore(store, election), election, health, log, jobs)
            finally:
                await election.release()


async def _one_term(
    store: FencedStore, election: Election, health: Health, log: FilteringBoundLogger, jobs: Jobs
) -> None:
    """The controllers while the lease is held. At its end they are cut off: another may act already."""
    health.registry = CollectorRegistry()
    manager = ControllerManager(
        store,
        clock=LoopClock(time.time),
        random=random.random,
        metrics=ControllerMetrics(health.registry),
        log=log,
        ordered=False,  # only newer servers promise that their versions can be compared
    )
    jobs(manager)
    running = asyncio.create_task(manager.run(), name="controllers")
    holding = asyncio.create_task(election.hold(), name="lease")
    try:
        await asyncio.wait({running, holding}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()  # ended only by a fault, which ends the process
    except asyncio.CancelledError:
        manager.stop()  # asked to end while leading: keys in work are finished
        await running
        raise
    finally:
        for task in (running, holding):
            task.cancel()
        await asyncio.gather(running, holding, return_exceptions=True)
