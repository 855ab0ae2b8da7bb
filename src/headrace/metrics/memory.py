"""The memory home of Metrics: one bounded ring of samples a workload, on the machine that measured them."""

from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Sequence

from headrace.metrics.protocol import Usage, Value

SAMPLES = 900  # a quarter of an hour at 1 Hz
WORKLOADS = 2000  # the one not heard of for the longest goes first
SET_BACK_SECONDS = 60.0
SERIES = 4000  # of applications' own metrics, all together


class MemoryMetrics:
    """Samples come in the order of time; one a little older than the latest is dropped, one of its moment replaces it
    (told twice, it would count twice), and a clock that was set back begins a workload's ring anew."""

    def __init__(self, samples: int = SAMPLES, workloads: int = WORKLOADS) -> None:
        self._samples, self._workloads = samples, workloads
        self._rings: OrderedDict[str, deque[Usage]] = OrderedDict()
        self._series: OrderedDict[tuple[str, str], deque[Value]] = OrderedDict()

    def record(self, workload: str, usage: Usage) -> None:
        ring = self._rings.get(workload)
        if ring is None:
            ring = self._rings[workload] = deque(maxlen=self._samples)
            if len(self._rings) > self._workloads:
                self._rings.popitem(last=False)
        else:
            self._rings.move_to_end(workload)
        if ring and usage.at < ring[-1].at - SET_BACK_SECONDS:
            ring.clear()
        if ring and usage.at == ring[-1].at:
            ring[-1] = usage
        elif not ring or usage.at > ring[-1].at:
            ring.append(usage)

    def samples(self, workload: str, since: float) -> Sequence[Usage]:
        """Those with `at` >= since, oldest first."""
        ring = self._rings.get(workload)
        if ring is None:
            return ()
        kept = list(ring)
        return kept[bisect_left(kept, since, key=lambda usage: usage.at) :]

    def latest(self, workload: str) -> Usage | None:
        ring = self._rings.get(workload)
        return ring[-1] if ring else None

    def record_value(self, workload: str, name: str, value: float, at: float) -> None:
        series = self._series.setdefault((workload, name), deque(maxlen=self._samples))
        self._series.move_to_end((workload, name))
        if len(self._series) > SERIES:
            self._series.popitem(last=False)
        if series and at < series[-1].at - SET_BACK_SECONDS:
            series.clear()
        if series and at == series[-1].at:
            series[-1] = Value(at, value)
        elif not series or at > series[-1].at:
            series.append(Value(at, value))

    def values(self, workload: str, name: str, since: float) -> Sequence[Value]:
        """Those with `at` >= since, oldest first."""
        return [each for each in self._series.get((workload, name), ()) if each.at >= since]

    def workloads(self) -> Sequence[str]:
        """Those with samples, in order."""
        return sorted(self._rings)

    def forget(self, workload: str) -> None:
        """The workload is gone for good."""
        self._rings.pop(workload, None)
        for key in [key for key in self._series if key[0] == workload]:
            del self._series[key]
