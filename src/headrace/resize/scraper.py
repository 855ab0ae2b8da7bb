"""Reads applications' metrics from their Prometheus endpoints, for the policies that name them.

A Pod opts in with the annotations that Prometheus' users know: `prometheus.io/scrape: "true"`, `prometheus.io/port`,
`prometheus.io/path` (/metrics). Of several series of one name the largest counts; one that is no number does not. A
failure is told once, and again when it changes.
"""

import asyncio
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families
from structlog.typing import FilteringBoundLogger

from headrace.api.kinds import POD, RESIZE_POLICY
from headrace.api.objects import Object, key_of, metadata
from headrace.client.aiohttp_import import aiohttp
from headrace.resize import workload
from headrace.resize.monitoring import BadMetrics, Monitoring
from headrace.resize.policy.spec import RESOURCES_OF, selects
from headrace.runtime.cache import Informers
from headrace.runtime.clock import Clock

SCRAPE, PORT, PATH = "prometheus.io/scrape", "prometheus.io/port", "prometheus.io/path"
PERIOD_SECONDS = 1.0
ANSWER_SECONDS = 1.0
ANSWER_BYTES = 1024 * 1024
SERIES = 1000  # of the metrics that are asked for
AT_ONCE = 16
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")

Odd = Callable[[str, Exception], None]


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
        async with self.session() as session:
            while True:
                began = self._clock.monotonic()
                await self.scrape(session)
                await self._clock.sleep(max(0.0, PERIOD_SECONDS - (self._clock.monotonic() - began)))

    @staticmethod
    def session(seconds: float = ANSWER_SECONDS) -> aiohttp.ClientSession:
        """Nothing is unpacked: a small answer might be a large one."""
        timeout = aiohttp.ClientTimeout(total=seconds)
        return aiohttp.ClientSession(timeout=timeout, auto_decompress=False, headers={"Accept-Encoding": "identity"})

    async def scrape(self, session: aiohttp.ClientSession) -> None:
        """One round over all targets."""
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(target: Target) -> None:
            async with limit:
                await self._read(session, target)

        odd: dict[str, Exception] = {}
        found = targets(list(self._policies), list(self._pods), odd.__setitem__)
        there = {each.workload for each in found} | odd.keys()
        self._failing = {id: said for id, said in self._failing.items() if id in there}
        for key, error in odd.items():
            self._tell(key, repr(error), exc_info=error)
        await asyncio.gather(*(one(target) for target in found))

    async def _read(self, session: aiohttp.ClientSession, target: Target) -> None:
        try:
            async with session.get(target.url, allow_redirects=False) as answer:
                if answer.status != 200:
                    raise BadMetrics(f"{target.url} answered {answer.status}")
                if (coding := answer.headers.get("Content-Encoding", "identity")) != "identity":
                    raise BadMetrics(f"{target.url} answered in {coding}, which was not asked for")
                body = await _body(answer)
            values = parsed(body.decode(errors="replace"), target.names)
            if values:
                self._monitoring.report(target.workload, values)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            said = str(error) or type(error).__name__
            if isinstance(error, TimeoutError):
                said = f"{target.url} did not answer within {ANSWER_SECONDS:g} s"
            self._tell(target.workload, said, url=target.url)
        except Exception as error:  # a fault about one target must not stop the others
            self._tell(target.workload, repr(error), url=target.url, exc_info=error)
        else:
            self._failing.pop(target.workload, None)

    def _tell(self, workload: str, said: str, **more: object) -> None:
        if self._failing.get(workload) != said:
            self._log.warning("metrics not read", workload=workload, error=said, **more)
        self._failing[workload] = said


async def _body(answer: aiohttp.ClientResponse) -> bytes:
    """All of it: half a text is none of its numbers."""
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > ANSWER_BYTES:
            raise BadMetrics(f"{answer.url} answers more than {ANSWER_BYTES} bytes")
    return bytes(body)


def targets(policies: Sequence[Object], pods: Iterable[Object], odd: Odd) -> list[Target]:
    """Pods that say where their metrics are, and that a policy with a trigger of their own metrics selects.

    `odd` is told of the Pods and policies that cannot be read; the others count.
    """
    found: dict[str, Target] = {}
    readable = [each for each in policies if _is_asking(each, odd)]
    for pod in pods:
        try:
            target = _target(pod, readable)
        except Exception as error:
            odd(key_of(pod), error)
            continue
        if target is not None:
            found[target.workload] = target
    return sorted(found.values(), key=lambda each: each.workload)


def _target(pod: Object, policies: Iterable[Object]) -> Target | None:
    annotations = metadata(pod).get("annotations") or {}
    address = (pod.get("status") or {}).get("podIP")
    port = str(annotations.get(PORT, ""))
    if annotations.get(SCRAPE) != "true" or not address or not port.isascii() or not port.isdigit():
        return None
    names: frozenset[str] = frozenset().union(*(_asked(each) for each in policies if selects(each, pod)))
    containers = pod["spec"]["containers"]
    if not names or not containers:
        return None
    host = f"[{address}]" if ":" in str(address) else address
    url = f"http://{host}:{port}/{str(annotations.get(PATH, '/metrics')).lstrip('/')}"
    return Target(workload.workload_id(pod, containers[0]["name"]), url, names)


def _is_asking(policy: Object, odd: Odd) -> bool:
    try:
        selects(policy, policy)  # whether it can be read
        return policy["spec"].get("mode") != "Off" and bool(_asked(policy))
    except Exception as error:
        odd(key_of(policy), error)
        return False


def _asked(policy: Object) -> frozenset[str]:
    asked = (each for each in policy["spec"].get("triggers") or () if not each.get("query"))
    return frozenset(str(each["metric"]) for each in asked).difference(RESOURCES_OF)


def parsed(text: str, names: frozenset[str]) -> Mapping[str, float]:
    """The named metrics of a Prometheus exposition. Only their lines are read. Raises BadMetrics."""
    lines = [line for line in text.splitlines() if (name := NAME.match(line)) and name[0] in names]
    if len(lines) > SERIES:
        raise BadMetrics(f"{len(lines)} series of {', '.join(sorted(names))}: at most {SERIES} are read")
    found: dict[str, float] = {}
    try:
        for family in text_string_to_metric_families("\n".join([*lines, ""])):
            for sample in family.samples:
                if sample.name in names and math.isfinite(sample.value):
                    found[sample.name] = max(found.get(sample.name, sample.value), sample.value)
    except Exception as error:  # the parser raises whatever it stumbles over: IndexError, KeyError, ValueError
        raise BadMetrics(f"the text cannot be read: {error!r}") from error
    return found
