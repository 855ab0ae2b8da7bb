"""The controllers on a real cluster: one process of several leads by a Lease, and only the leader writes.

There kube-scheduler and the kubelet are the arbiters, so placing, allocating and admitting are not ours; the jobs that
apply to a cluster are put together in `cluster_jobs`.
"""

import asyncio
import os
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from headrace.client.errors import ApiError, Unreachable
from headrace.client.http import Client
from headrace.client.kubeconfig import Cluster
from headrace.client.paths import OWN_BUILD, VERSION_PATH
from headrace.runtime.clock import Clock, LoopClock
from headrace.runtime.fenced import FencedStore
from headrace.runtime.leader import Election, LeaseTimes
from headrace.runtime.manager import ControllerManager
from headrace.runtime.metrics import ControllerMetrics
from headrace.serve.health import Health, serve_health
from headrace.store.kubernetes import KubernetesStore

LEASE_NAME = "headrace-controllers"
ANSWER_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ControllersSettings:
    """`namespace` is where the lease lies. `health_port` 0 takes a free one.

    `prometheus`: whom to ask for usage and for policies' queries, in place of the cluster's metrics API; with the path
    that stands before its own. `sample_seconds`: how often.
    """

    cluster: Cluster
    namespace: str = "kube-system"
    health_host: str = "127.0.0.1"
    health_port: int = 0
    times: LeaseTimes = field(default_factory=LeaseTimes)
    prometheus: Cluster | None = None
    prometheus_path: str = ""
    sample_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class Term:
    """What jobs are made of while this process leads. What they write must go through `store`."""

    settings: ControllersSettings
    manager: ControllerManager
    store: FencedStore
    client: Client
    registry: CollectorRegistry
    clock: Clock
    log: FilteringBoundLogger


Jobs = Callable[[Term], Sequence[Callable[[], Awaitable[None]]]]
"""Adds controllers to the manager, and names what else is to run beside them until the term ends."""


class NoCluster(RuntimeError):
    """The server is one of headrace's own, whose controllers would be a second opinion."""


async def refuse_home(server: Cluster) -> None:
    """Raises NoCluster. A server that does not answer now is nobody's: the election goes on asking it."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS), Client(server, user_agent="headrace-controllers") as client:
            version = await client.request("GET", VERSION_PATH)
    except (ApiError, Unreachable, TimeoutError):
        return
    if OWN_BUILD in str(version.get("gitVersion")):
        raise NoCluster(
            f"{server.server} is headrace's own server, which runs its controllers itself: "
            "`headrace controllers` is for a Kubernetes cluster; name its --kubeconfig"
        )


class BootClock(LoopClock):
    """Its monotonic time also runs while the machine is suspended: a lease must not outlive that."""

    def monotonic(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)


async def run_controllers(
    settings: ControllersSettings,
    log: FilteringBoundLogger,
    ready: Callable[[int], None],
    jobs: Jobs,
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
                    await _one_term(settings, client, FencedStore(store, election), election, health, log, jobs)
            finally:
                await election.release()


async def _one_term(
    settings: ControllersSettings,
    client: Client,
    store: FencedStore,
    election: Election,
    health: Health,
    log: FilteringBoundLogger,
    jobs: Jobs,
) -> None:
    """The controllers while the lease is held. At its end they are cut off: another may act already."""
    health.registry = CollectorRegistry()
    clock = LoopClock(time.time)
    manager = ControllerManager(
        store,
        clock=clock,
        random=random.random,
        metrics=ControllerMetrics(health.registry),
        log=log,
        ordered=False,  # only newer servers promise that their versions can be compared
    )
    beside = jobs(Term(settings, manager, store, client, health.registry, clock, log))
    running = asyncio.create_task(_together(manager, beside), name="controllers")
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


async def _together(manager: ControllerManager, beside: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Until the manager has stopped, or one of them fails."""
    async with asyncio.TaskGroup() as tasks:
        others = [tasks.create_task(_awaited(each)) for each in beside]
        await manager.run()
        for task in others:
            task.cancel()


async def _awaited(run: Callable[[], Awaitable[None]]) -> None:
    await run()
