"""What Prometheus knows: containers' counters as cAdvisor exposes them, and whatever a policy asks for in PromQL.

Usage is asked for as ranges of raw samples, which carry the time at which they were taken; an answer's own time says
only when it was asked.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.client.errors import ApiError, Unreachable
from headrace.client.http import Client
from headrace.metrics.protocol import Unmeasured, Usage

QUERY_PATH = "/api/v1/query"
RANGE_SECONDS = 120  # a container without a sample for so long is not measured
CPU, MEMORY = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
PERIODS, THROTTLED = "container_cpu_cfs_periods_total", "container_cpu_cfs_throttled_periods_total"
OOM_KILLS = "container_oom_events_total"
NAMES = (CPU, MEMORY, PERIODS, THROTTLED, OOM_KILLS)

Point = tuple[float, float]
"""Wall seconds, and the value."""


@dataclass(frozen=True, slots=True)
class Series:
    """Points oldest first."""

    labels: Mapping[str, str]
    points: tuple[Point, ...]

    @property
    def workload(self) -> str:
        """namespace/pod/container by the labels that kubelets' metrics have; empty where one is missing."""
        names = [self.labels.get(name, "") for name in ("namespace", "pod", "container")]
        return "/".join(names) if all(names) else ""


def series(answer: Mapping[str, Any]) -> Iterator[Series]:
    """Of an answer of the query API: a vector, a matrix or a scalar. Raises Unmeasured."""
    if answer.get("status") != "success":
        raise Unmeasured(f"Prometheus: {answer.get('errorType', 'error')}: {answer.get('error', 'no reason given')}")
    data = answer.get("data") or {}
    if data.get("resultType") == "scalar":
        yield Series({}, tuple(_points([data["result"]])))
        return
    for each in data.get("result") or ():
        found = each.get("values") or ([each["value"]] if "value" in each else [])
        yield Series(dict(each.get("metric") or {}), tuple(_points(found)))


def usages(found: Iterable[Series]) -> dict[str, list[Usage]]:
    """Samples of each workload, from its series of NAMES: one for each time at which cpu was told, oldest first."""
    by_workload: dict[str, dict[str, Sequence[Point]]] = {}
    for each in found:
        if each.workload and each.points:
            named = by_workload.setdefault(each.workload, {})
            name = each.labels.get("__name__", "")
            # Of a container that was started again there are two: the one with the newer samples is running.
            if name not in named or named[name][-1][0] < each.points[-1][0]:
                named[name] = each.points
    return {
        workload: [_usage(at, cpu, named) for at, cpu in named[CPU] if _at(named[MEMORY], at) is not None]
        for workload, named in by_workload.items()
        if CPU in named and MEMORY in named
    }


class Prometheus:
    """`path` is what stands before the API's own path, for servers behind a prefix."""

    def __init__(self, client: Client, path: str = "") -> None:
        self._client, self._path = client, path.rstrip("/") + QUERY_PATH
        self._newest: dict[str, float] = {}

    async def usage(self, namespaces: Iterable[str], now: float) -> list[tuple[str, Usage]]:
        """What is new since the last call, by workload. Raises Unmeasured."""
        names, places = "|".join(NAMES), "|".join(sorted(namespaces))
        found = await self.ask(
            f'{{__name__=~"{names}",namespace=~"{places}",container!="",container!="POD"}}[{RANGE_SECONDS}s]'
        )
        answer = []
        for workload, samples in usages(found).items():
            newest = self._newest.get(workload, 0.0)
            answer += [(workload, each) for each in samples if each.at > newest]
            self._newest[workload] = max(newest, samples[-1].at) if samples else newest
        self._newest = {workload: at for workload, at in self._newest.items() if at > now - 10 * RANGE_SECONDS}
        return answer

    async def ask(self, query: str) -> list[Series]:
        """An instant query. Raises Unmeasured."""
        try:
            return list(series(await self._client.request("GET", self._path, query={"query": query})))
        except (ApiError, Unreachable) as error:
            raise Unmeasured(f"Prometheus: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Unmeasured(f"Prometheus: an answer that is none of its API's: {error}") from None


def _usage(at: float, cpu: float, named: Mapping[str, Sequence[Point]]) -> Usage:
    def count(name: str) -> int:
        return int(_at(named.get(name, ()), at) or 0)

    memory = count(MEMORY)
    return Usage(at, cpu, count(PERIODS), count(THROTTLED), memory, memory, None, None, count(OOM_KILLS))


def _at(points: Sequence[Point], at: float) -> float | None:
    """The latest value that is not newer, or else the oldest: series of one scrape differ in time by little."""
    before = [value for when, value in points if when <= at]
    return before[-1] if before else (points[0][1] if points else None)


def _points(found: Iterable[Any]) -> Iterator[Point]:
    for at, text in found:
        value = float(text)
        if math.isfinite(value):
            yield float(at), value
