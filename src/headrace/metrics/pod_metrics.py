"""What containers of a Kubernetes cluster use, as its metrics API (metrics.k8s.io, mostly metrics-server) tells it.

It tells rates over a window that ended at `timestamp`; `Rates` makes of them the growing counters that `Usage` has.
"""

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.api.quantity import NANO, InvalidQuantity, parse
from headrace.api.times import from_time
from headrace.client.errors import ApiError, Unreachable
from headrace.client.http import Client
from headrace.metrics.protocol import Unmeasured, Usage

ROOT = "/apis/metrics.k8s.io/v1beta1"
OLDEST_WINDOWS = 4  # a rate that ended more than so many of its windows ago is none of now
LEAST_SECONDS = 60.0
AHEAD_SECONDS = 60.0  # nor is one that ended so far in the future: a clock is wrong
WORKLOADS = 20_000

_DURATION = re.compile(r"([0-9.]+)(h|ms|m|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


@dataclass(frozen=True, slots=True)
class Rate:
    """CPU cores used on average over the `window` seconds up to `at` (wall seconds), and memory in use then."""

    workload: str
    at: float
    window: float
    cores: float
    memory_bytes: int

    def is_current(self, now: float) -> bool:
        return now - max(LEAST_SECONDS, OLDEST_WINDOWS * self.window) <= self.at <= now + AHEAD_SECONDS


def rates(answer: Mapping[str, Any]) -> Iterator[Rate]:
    """Of a PodMetricsList. What cannot be read is left out: another Pod's numbers are good all the same."""
    for item in answer.get("items") or ():
        meta = item.get("metadata") or {}
        try:
            at, window = from_time(str(item["timestamp"])), _seconds(str(item.get("window") or "0s"))
            for each in item.get("containers") or ():
                usage = each["usage"]
                cores, memory = parse(str(usage["cpu"])).nano / NANO, parse(str(usage["memory"])).nano // NANO
                yield Rate(f"{meta['namespace']}/{meta['name']}/{each['name']}", at, window, cores, int(memory))
        except (KeyError, TypeError, ValueError, InvalidQuantity):
            continue


class Rates:
    """The counters of each workload. A rate that was there before, or is none of now, makes no sample."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Usage] = OrderedDict()

    def taken(self, rate: Rate, now: float) -> Usage | None:
        before = self._known.get(rate.workload)
        if not rate.is_current(now) or (before is not None and rate.at <= before.at):
            return None
        used = before.cpu_seconds + rate.cores * (rate.at - before.at) if before is not None else 0.0
        usage = Usage(rate.at, used, 0, 0, rate.memory_bytes, rate.memory_bytes, None, None, 0)
        self._known[rate.workload] = usage
        self._known.move_to_end(rate.workload)
        if len(self._known) > WORKLOADS:
            self._known.popitem(last=False)
        return usage


class PodMetrics:
    """The metrics API of the cluster that the client speaks to."""

    def __init__(self, client: Client) -> None:
        self._client, self._rates = client, Rates()

    async def usage(self, namespaces: Iterable[str], now: float) -> list[tuple[str, Usage]]:
        """What is new since the last call, by workload. Raises Unmeasured."""
        found = []
        for namespace in sorted(namespaces):
            try:
                answer = await self._client.request("GET", f"{ROOT}/namespaces/{namespace}/pods")
            except (ApiError, Unreachable) as error:
                raise Unmeasured(f"metrics.k8s.io: {error}") from None
            except ValueError as error:
                raise Unmeasured(f"metrics.k8s.io: an answer that is no JSON: {error}") from None
            for rate in rates(answer if isinstance(answer, dict) else {}):
                usage = self._rates.taken(rate, now)
                if usage is not None:
                    found.append((rate.workload, usage))
        return found


def _seconds(text: str) -> float:
    """Of a duration as Go writes it: `15s`, `1m0s`, `14.5s`."""
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))
