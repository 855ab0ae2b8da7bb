"""Measures for the policies of a cluster, where no agent of ours does: what their Pods use, and what they ask for.

Only namespaces with a policy that is not Off are asked about, and only Pods that one selects are remembered.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from structlog.typing import FilteringBoundLogger

from headrace.api.kinds import POD, RESIZE_POLICY
from headrace.api.objects import Object, key_of, namespace_of
from headrace.metrics.prometheus import Series
from headrace.metrics.protocol import Unmeasured, Usage
from headrace.resize import workload
from headrace.resize.monitoring import Monitoring
from headrace.resize.policy.spec import selects
from headrace.runtime.cache import Informers
from headrace.runtime.clock import Clock

IN_NAMESPACE = "namespace"
ANSWER_SECONDS = 20.0
AT_ONCE = 8


class UsageSource(Protocol):
    async def usage(self, namespaces: Iterable[str], now: float) -> list[tuple[str, Usage]]:
        """What is new since the last call, by workload, oldest first. Raises Unmeasured."""
        ...


class Queries(Protocol):
    async def ask(self, query: str) -> list[Series]:
        """Raises Unmeasured."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """A policy's PromQL: each series is of the Pod (and container) that its labels name, or of all selected."""

    metric: str
    query: str
    workloads: Sequence[str]


class Sampler:
    """Run it beside the controllers. `queries`: who answers PromQL, or nobody."""

    def __init__(
        self,
        informers: Informers,
        monitoring: Monitoring,
        source: UsageSource,
        queries: Queries | None,
        clock: Clock,
        log: FilteringBoundLogger,
        period_seconds: float,
    ) -> None:
        self._policies, self._pods = informers.of(RESIZE_POLICY), informers.of(POD)
        self._pods.add_index(IN_NAMESPACE, lambda pod: (namespace_of(pod),))
        self._monitoring, self._source, self._queries = monitoring, source, queries
        self._clock, self._log, self._period = clock, log, period_seconds
        self._broken: set[str] = set()

    async def run(self) -> None:
        """Once a period, until cancelled."""
        while True:
            began = self._clock.monotonic()
            try:
                await self.sample()
            except Exception as error:  # a fault in one round must not stop the next
                self._log.error("round failed", exc_info=error)
            await self._clock.sleep(max(0.0, self._period - (self._clock.monotonic() - began)))

    async def sample(self) -> None:
        """One round. What fails is told once, and in the policies that it concerns, until it is mended."""
        policies = [each for each in self._policies if each["spec"].get("mode") != "Off"]
        for gone in self._broken - {key_of(each) for each in policies}:
            self._tell("", gone)
        if not policies:
            return
        self._tell(await _failure(self._usage(policies)))
        limit = asyncio.Semaphore(AT_ONCE)

        async def ask(policy: Object) -> None:
            async with limit:
                self._tell(await _failure(self._ask(policy)), key_of(policy))

        await asyncio.gather(*(ask(each) for each in policies if self._questions(each) or self._is_broken(each)))

    def _is_broken(self, policy: Object) -> bool:
        """Its question may have been taken out since it failed."""
        return key_of(policy) in self._broken

    async def _usage(self, policies: list[Object]) -> None:
        namespaces = {namespace_of(each) for each in policies}
        for id, usage in await self._source.usage(namespaces, self._clock.wall()):
            pod = self._pods.get(id.rpartition("/")[0])
            if pod is not None and any(selects(each, pod) for each in policies):
                self._monitoring.measured(id, usage)

    async def _ask(self, policy: Object) -> None:
        for question in self._questions(policy):
            if self._queries is None:
                raise Unmeasured(f"metric {question.metric} has a query, but no Prometheus is given (--prometheus)")
            for series in await self._queries.ask(question.query):
                for id in question.workloads:
                    if series.points and _is_about(series, id):
                        at, value = series.points[-1]
                        self._monitoring.valued(id, question.metric, value, at)

    def _questions(self, policy: Object) -> list[Question]:
        asking = [each for each in policy["spec"].get("triggers") or () if each.get("query")]
        ids = self._workloads(policy) if asking else []
        return [Question(str(each["metric"]), str(each["query"]), ids) for each in asking]

    def _workloads(self, policy: Object) -> list[str]:
        names = policy["spec"].get("containers")
        return [
            workload.workload_id(pod, str(each["name"]))
            for pod in self._pods.indexed(IN_NAMESPACE, namespace_of(policy))
            if selects(policy, pod)
            for each in pod["spec"]["containers"]
            if not names or each["name"] in names
        ]

    def _tell(self, outage: str, policy: str = "") -> None:
        if policy and outage:
            self._broken.add(policy)
        else:
            self._broken.discard(policy)
        if self._monitoring.cannot_measure(outage, policy):
            if outage:
                self._log.warning("not measured", policy=policy or "all", error=outage)
            else:
                self._log.info("measured again", policy=policy or "all")


async def _failure(asking: Coroutine[Any, Any, None]) -> str:
    """Why there was no answer, or nothing."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await asking
    except (Unmeasured, TimeoutError) as error:
        return str(error) or f"no answer for {ANSWER_SECONDS:.0f} s"
    except Exception as error:  # told of the policy that it is about: the others are measured
        return f"cannot be measured: {error!r}"
    return ""


def _is_about(series: Series, id: str) -> bool:
    """A label that is not there names all."""
    told = zip(("namespace", "pod", "container"), id.split("/"), strict=True)
    return all(series.labels.get(name, part) == part for name, part in told)
