"""Health answers and metrics of the API server itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from headrace.apiserver.answers import Answer, text_answer
from headrace.apiserver.lanes import LANES, Lanes, Streams

BUCKETS = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

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


class Observations:
    """Counts of requests; children are kept, since finding one by its labels costs more than counting."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "apiserver_request",
            "Requests by verb, resource and answer.",
            ("verb", "resource", "code"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "apiserver_request_duration_seconds",
            "Time from a request's headers to the end of its answer; watches are left out.",
            ("verb",),
            registry=self.registry,
            buckets=BUCKETS,
        )
        self._in_flight = Gauge(
            "apiserver_current_inflight_requests", "Requests under way, by lane.", ("lane",), registry=self.registry
        )
        self._streams = Gauge("apiserver_longrunning_requests", "Open watches and logs.", registry=self.registry)
        self._counts: dict[tuple[str, str, int], Counter] = {}
        self._times: dict[str, Histogram] = {}

    def watch(self, lanes: Lanes, streams: Streams) -> None:
        """What is under way is looked up when somebody asks, not counted twice."""
        for lane in LANES:
            self._in_flight.labels(lane).set_function(partial(lanes.count, lane))
        self._streams.set_function(lambda: float(len(streams.open)))

    def record(self, verb: str, resource: str, code: int, seconds: float | None) -> None:
        """`seconds` None: a stream, whose length says nothing about the server."""
        key = (verb, resource, code)
        count = self._counts.get(key)
        if count is None:
            count = self._counts[key] = self._requests.labels(verb, resource, str(code))
        count.inc()
        if seconds is not None:
            times = self._times.get(verb)
            if times is None:
                times = self._times[verb] = self._seconds.labels(verb)
            times.observe(seconds)

    def answer(self) -> Answer:
        return Answer(200, generate_latest(self.registry), b"text/plain; version=0.0.4; charset=utf-8")
