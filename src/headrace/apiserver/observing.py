"""Health answers and metrics of the API server itself."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.apiserver.answers import Answer, text_answer
from headrace.apiserver.lanes import LANES, Lanes, Streams

BUCKETS = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_BUCKET_NAMES = tuple(map(str, BUCKETS))

Check = Callable[[], str]
"""Empty when all is well, else what is wrong."""


@dataclass(slots=True)
class Health:
    """`ready` checks are asked by /readyz, `live` ones by /livez and /healthz too."""

    live: dict[str, Check] = field(default_factory=dict)
    ready: dict[str, Check] = field(default_factory=dict)

    def answer(self, path: str, verbose: bool) -> Answer:
        name = path.strip("/")
        checks: Mapping[str, Check] = {**self.live, **self.ready} if name == "readyz" else self.live
        results = {check: problem() for check, problem in checks.items()}
        failed = any(results.values())
        if not failed and not verbose:
            return text_answer("ok")
        lines = [f"[-]{check} failed: {why}" if why else f"[+]{check} ok" for check, why in results.items()]
        lines.append(f"{name} check {'failed' if failed else 'passed'}")
        return text_answer("\n".join(lines) + "\n", 500 if failed else 200)


@dataclass(slots=True)
class _Times:
    """How many requests took up to each of BUCKETS seconds (the last: longer), and how long all of them took."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    seconds: float = 0.0


class _Requests(Collector):
    """Plain numbers, made into metrics when somebody asks: every request counts, few ask."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str, int], int] = {}
        self.times: dict[str, _Times] = {}

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "apiserver_request", "Requests by verb, resource and answer.", labels=("verb", "resource", "code")
        )
        for (verb, resource, code), count in self.counts.items():
            requests.add_metric((verb, resource, str(code)), count)
        seconds = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "Time from a request's headers to the end of its answer; watches are left out.",
            labels=("verb",),
        )
        for verb, times in self.times.items():
            buckets = list(zip((*_BUCKET_NAMES, "+Inf"), map(float, accumulate(times.counts)), strict=True))
            seconds.add_metric((verb,), buckets, times.seconds)
        return (requests, seconds)


class Observations:
    """Counts of requests, and what else a scrape of /metrics shows."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = _Requests()
        self.registry.register(self._requests)
        self._in_flight = Gauge(
            "apiserver_current_inflight_requests", "Requests under way, by lane.", ("lane",), registry=self.registry
        )
        self._streams = Gauge("apiserver_longrunning_requests", "Open watches and logs.", registry=self.registry)

    def watch(self, lanes: Lanes, streams: Streams) -> None:
        """What is under way is looked up when somebody asks, not counted twice."""
        for lane in LANES:
            self._in_flight.labels(lane).set_function(partial(lanes.count, lane))
        self._streams.set_function(lambda: float(len(streams.open)))

    def record(self, verb: str, resource: str, code: int, seconds: float | None) -> None:
        """`seconds` None: a stream, whose length says nothing about the server."""
        key = (verb, resource, code)
        counts = self._requests.counts
        counts[key] = counts.get(key, 0) + 1
        if seconds is not None:
            times = self._requests.times.get(verb)
            if times is None:
                times = self._requests.times[verb] = _Times()
            times.counts[bisect_left(BUCKETS, seconds)] += 1
            times.seconds += seconds

    def answer(self) -> Answer:
        return Answer(200, generate_latest(self.registry), b"text/plain; version=0.0.4; charset=utf-8")
