"""The jobs that apply to a real cluster: resizing by policies.

Scheduler, allocator and workload controllers stay off: the cluster has its own.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

from headrace.api.kinds import Kind
from headrace.client.errors import ApiError, Unreachable
from headrace.client.http import Client
from headrace.metrics.memory import MemoryMetrics
from headrace.metrics.pod_metrics import PodMetrics
from headrace.metrics.prometheus import Prometheus
from headrace.resize.action_controller import ActionController
from headrace.resize.homes import CLUSTER
from headrace.resize.monitoring import Monitoring
from headrace.resize.policy.plan import Misspelt, Seen
from headrace.resize.policy_manager import PolicyManager, look_when_measured
from headrace.resize.rivals import VERTICAL_POD_AUTOSCALER
from headrace.resize.sampling import Sampler
from headrace.resize.scraper import Scraper
from headrace.runtime.controller import Controller
from headrace.serve.cluster import Term
from headrace.serve.cluster_manifests import DEFINITIONS
from headrace.serve.shipped import install
from headrace.store.protocol import Forbidden, StoreError

LOOK_SECONDS, AGAIN_SECONDS = 60.0, 5.0
SAMPLES, WORKLOADS = 800, 4000  # an hour of the longest window, at one sample in five seconds


def cluster_jobs(term: Term) -> Sequence[Callable[[], Awaitable[None]]]:
    """Policies and actions on the cluster's Pods, and what measures for them."""
    informers, clock = term.manager.informers, term.clock
    monitoring = Monitoring(MemoryMetrics(SAMPLES, WORKLOADS), clock.wall)
    monitoring.attach(informers, term.registry)
    term.manager.add(ActionController(informers, term.registry, CLUSTER))
    policies = PolicyManager(informers, monitoring, clock.wall, CLUSTER)
    controller: Controller[Seen | Misspelt] = term.manager.add(policies)
    look_when_measured(policies, controller, monitoring)
    scraper = Scraper(informers, monitoring, clock, term.log)

    async def define() -> None:
        """What is not served yet is waited for by the informers."""
        while True:
            try:
                await install(term.store, DEFINITIONS)
                return
            except Forbidden as no:
                term.log.warning("definitions not installed: apply what `headrace manifests` prints", error=str(no))
                return
            except StoreError as error:
                term.log.warning("definitions not installed, trying it again", error=str(error))
                await clock.sleep(AGAIN_SECONDS)

    async def follow() -> None:
        """VerticalPodAutoscalers are a CRD of others, which a cluster may have from now on, or never."""
        while not await _serves(term.client, VERTICAL_POD_AUTOSCALER):
            await clock.sleep(LOOK_SECONDS)
        controller.watch(policies.follow(informers.of(VERTICAL_POD_AUTOSCALER)))

    async def sample() -> None:
        async with AsyncExitStack() as stack:
            settings, prometheus = term.settings, None
            if settings.prometheus is not None:
                client = await stack.enter_async_context(Client(settings.prometheus, user_agent="headrace-controllers"))
                prometheus = Prometheus(client, settings.prometheus_path)
            source = prometheus or PodMetrics(term.client)
            await term.manager.wait_until_synced()
            period = settings.sample_seconds
            await Sampler(informers, monitoring, source, prometheus, clock, term.log, period).run()

    async def scrape() -> None:
        await term.manager.wait_until_synced()
        await scraper.run()

    return define, follow, sample, scrape


async def _serves(client: Client, kind: Kind) -> bool:
    """Whether the cluster knows this kind; not to be told counts as not."""
    try:
        answer = await client.request("GET", f"/apis/{kind.api_version}")
    except (ApiError, Unreachable):
        return False
    return any(each.get("name") == kind.plural for each in answer.get("resources") or ())
