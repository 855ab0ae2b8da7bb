"""Measured usage, by workload and in time: what the jobs read instead of asking nodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Usage:
    """One sample of a container. Counters are cumulative; `at` is wall seconds.

    `cpu_seconds` used; `throttled_periods` of `periods`; `working_set_bytes` = memory in use - inactive file;
    `pressure_cpu`, `pressure_memory` = PSI some avg10 in %, None where the kernel has none.
    """

    at: float
    cpu_seconds: float
    periods: int
    throttled_periods: int
    memory_bytes: int
    working_set_bytes: int
    pressure_cpu: float | None
    pressure_memory: float | None
    oom_kills: int


@dataclass(frozen=True, slots=True)
class Value:
    """What an application says of itself at a moment (wall seconds): latency in ms, frames a second, anything named."""

    at: float
    value: float


class Unmeasured(Exception):
    """Whoever should tell usage did not; the message says who and why."""


class Recorder(Protocol):
    """Takes samples in."""

    def record(self, workload: str, usage: Usage) -> None:
        """`workload` is namespace/pod/container."""
        ...


class Metrics(Protocol):
    def record(self, workload: str, usage: Usage) -> None:
        """`workload` is namespace/pod/container."""
        ...

    def samples(self, workload: str, since: float) -> Sequence[Usage]: ...

    def latest(self, workload: str) -> Usage | None: ...

    def values(self, workload: str, name: str, since: float) -> Sequence[Value]:
        """An application's own metric, oldest first."""
        ...
