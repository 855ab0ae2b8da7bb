"""From samples to readings of a metric, and whether enough of the latest readings are beyond a threshold."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headrace.api.amounts import CPU, MEMORY
from headrace.metrics.protocol import Usage, Value
from headrace.resize.policy.spec import PRESSURE_CPU, PRESSURE_MEMORY, THROTTLING, Threshold, Trigger

EXACT = 2**53  # beyond it a float is no whole number that JSON would keep
Rate = Callable[[Usage, Usage], float | None]


@dataclass(frozen=True, slots=True)
class Reading:
    """`at` in wall seconds."""

    at: float
    value: float


def readings(metric: str, usage: Sequence[Usage], values: Mapping[str, Sequence[Value]]) -> list[Reading]:
    """Oldest first. What cannot be told from a sample (across a restart, no such counter) is left out."""
    match metric:
        case "cpu":
            return _rates(usage, lambda a, b: (b.cpu_seconds - a.cpu_seconds) / (b.at - a.at) * 1000)
        case "memory":
            return [Reading(each.at, float(each.working_set_bytes)) for each in usage]
        case _ if metric == THROTTLING:
            return _rates(usage, _throttled)
        case _ if metric == PRESSURE_CPU:
            return [Reading(each.at, each.pressure_cpu) for each in usage if each.pressure_cpu is not None]
        case _ if metric == PRESSURE_MEMORY:
            return [Reading(each.at, each.pressure_memory) for each in usage if each.pressure_memory is not None]
    return [Reading(each.at, each.value) for each in values.get(metric, ())]


def _rates(usage: Sequence[Usage], rate: Rate) -> list[Reading]:
    return [
        Reading(after.at, value)
        for before, after in pairwise(usage)
        if after.at > before.at
        and after.cpu_seconds >= before.cpu_seconds
        and (value := rate(before, after)) is not None
    ]


def _throttled(before: Usage, after: Usage) -> float | None:
    periods = after.periods - before.periods
    return (after.throttled_periods - before.throttled_periods) / periods * 100 if periods > 0 else None


def holds(found: Sequence[Reading], threshold: Threshold | None, trigger: Trigger, limit: float) -> bool:
    """N of M: `matching` of the latest `of` readings are beyond the threshold."""
    if threshold is None:
        return False
    latest = found[-trigger.of :]
    return sum(threshold.is_crossed(each.value, limit) for each in latest) >= trigger.matching


def shown(value: float, digits: int = 4) -> int | float:
    """For people: so many digits, and what stands before the point whole. The noise of rates and shares is left out."""
    if not abs(value) < EXACT:
        return value
    rounded = round(value) if abs(value) >= 10 ** (digits - 1) else float(f"{value:.{digits}g}")
    return int(rounded) if rounded == int(rounded) else rounded


def shown_threshold(edge: float) -> int | float:
    """What somebody has written, in full."""
    return shown(edge, 9)


def limit_for(metric: str, limits: Mapping[str, int]) -> float:
    """What a share is a share of; 0 where the metric has none."""
    return float(limits.get(metric, 0)) if metric in (CPU, MEMORY) else 0.0
