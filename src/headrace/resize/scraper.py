"""Reads applications' metrics from their Prometheus endpoints, for the policies that name them.

A Pod opts in with the annotations that Prometheus' users know: `prometheus.io/scrape: "true"`, `prometheus.io/port`,
`prometheus.io/path` (/metrics). Of several series of one name the largest counts. A failure is told once, and again
when it changes.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from structlog.typing import FilteringBoundLogger

from headrace.api.kinds import POD, RESIZE_POLICY
from headrace.api.objects import Object, metadata, namespace_of
from headrace.api.selectors import from_label_selector
from headrace.resize import workload
from headrace.resize.monitoring import BadMetrics, Monitoring
from headrace.resize.policy.spec import RESOURCES_OF
from headrace.runtime.cache import Informers
from headrace.runtime.clock import Clock

SCRAPE, PORT, PATH = "prometheus.io/scrape", "prometheus.io/port", "prometheus.io/path"
PERIOD_SECONDS = 1.0
ANSWER_SECONDS = 1.0
ANSWER_BYTES = 1024 * 1024
AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Target:
    """`names`: the metrics that policies ask for."""

    workload: str
    url: str
    names: frozenset[str]


class Scraper:
    """Run it beside the controllers; it needs no key and no store."""

    def __init__(self, informers: Informers, monitoring: Monitoring, clock: Clock, log: FilteringBoundLogger) -> None:
        self._policies, self._pods = informers.of(RESIZE_POLICY), informers.of(POD)
        self._monitoring, self._clock, self._log = monitoring, clock, log
        self._failing: dict[str, str] = {}

    async def run(self) -> None:
        """Once a second, until cancelled."""
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout, auto_decompress=True) as session:
            while True:
                began = self._clock.monotonic()
                await self.scrape(session)
                await self._clock.sleep(max(0.0, PERIOD_SECONDS - (self._clock.monotonic() - began)))

    async def scrape(self, session: aiohttp.ClientSession) -> None:
        """One round over all targets."""
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(target: Target) -> None:
            async with limit:
                await self._read(session, target)

        found = targets(list(self._policies), list(self._pods))
        self._failing = {id: said for id, said in self._failing.items() if id in {each.workload for each in found}}
        await asyncio.gather(*(one(target) for target in found))

    async def _read(self, session: aiohttp.ClientSession, target: Target) -> None:
        try:
            async with session.get(target.url, allow_redirects=False) as answer:
                if answer.status != 200:
                    raise BadMetrics(f"{target.url} answered {answer.status}")
                body = await answer.content.read(ANSWER_BYTES)
            values = parsed(body.decode(errors="replace"), target.names)
            if values:
                self._monitoring.report(target.workload, values)
        except (aiohttp.ClientError, TimeoutError, BadMetrics, ValueError) as error:
            said = str(error) or type(error).__name__
            if self._failing.get(target.workload) != said:
                self._log.warning("metrics not read", workload=target.workload, url=target.url, error=said)
            self._failing[target.workload] = said
        else:
            self._failing.pop(target.workload, None)


def targets(policies: Iterable[Object], pods: Iterable[Object]) -> list[Target]:
    """Pods that say where their metrics are, and that a policy with a trigger of their own metrics selects."""
    found = []
    for pod in pods:
        annotations = metadata(pod).get("annotations") or {}
        address = (pod.get("status") or {}).get("podIP")
        port = str(annotations.get(PORT, ""))
        if annotations.get(SCRAPE) != "true" or not address or not port.isascii() or not port.isdigit():
            continue
        names = _wanted(pod, policies)
        containers = pod["spec"]["containers"]
        if names and containers:
            host = f"[{address}]" if ":" in str(address) else address
            url = f"http://{host}:{port}/{str(annotations.get(PATH, '/metrics')).lstrip('/')}"
            found.append(Target(workload.workload_id(pod, containers[0]["name"]), url, names))
    return sorted(found, key=lambda each: each.workload)


def _wanted(pod: Object, policies: Iterable[Object]) -> frozenset[str]:
    names: set[str] = set()
    for policy in policies:
        spec = policy["spec"]
        if namespace_of(policy) != namespace_of(pod) or spec["mode"] == "Off":
            continue
        if from_label_selector(spec["selector"]).matches(metadata(pod).get("labels")):
            asked = (each for each in spec.get("triggers") or () if not each.get("query"))
            names |= {str(each["metric"]) for each in asked} - set(RESOURCES_OF)
    return frozenset(names)


def parsed(text: str, names: frozenset[str]) -> Mapping[str, float]:
    """The named metrics of a Prometheus exposition. Raises ValueError."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in names and sample.value == sample.value:
                found[sample.name] = max(found.get(sample.name, sample.value), sample.value)
    return found
