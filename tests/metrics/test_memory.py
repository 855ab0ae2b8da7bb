"""The memory home of Metrics: bounded, in the order of time."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.metrics.memory import MemoryMetrics
from headrace.metrics.protocol import Metrics, Usage


def usage(at: float) -> Usage:
    return Usage(at, at, 0, 0, 0, 0, None, None, 0)


def test_it_is_metrics() -> None:
    metrics: Metrics = MemoryMetrics()
    assert metrics.latest("a") is None
    assert metrics.samples("a", 0) == ()


@given(moments=st.lists(st.integers(0, 50)), since=st.integers(0, 50), size=st.integers(1, 10))
def test_it_keeps_the_latest_samples_in_order(moments: list[int], since: int, size: int) -> None:
    metrics = MemoryMetrics(samples=size)
    taken: list[int] = []
    for at in moments:
        metrics.record("a", usage(at))
        if not taken or at > taken[-1]:
            taken.append(at)
    kept = taken[-size:]
    assert [sample.at for sample in metrics.samples("a", since)] == [at for at in kept if at >= since]
    latest = metrics.latest("a")
    assert (latest.at if latest else None) == (taken[-1] if taken else None)


def test_the_workload_not_heard_of_for_the_longest_goes_first() -> None:
    metrics = MemoryMetrics(workloads=2)
    for workload in ("a", "b", "a", "c"):
        metrics.record(workload, usage(1))
    assert metrics.latest("b") is None
    assert metrics.latest("a") is not None
    assert metrics.latest("c") is not None


def test_a_forgotten_workload_has_no_samples() -> None:
    metrics = MemoryMetrics()
    metrics.record("a", usage(1))
    metrics.forget("a")
    metrics.forget("a")
    assert metrics.latest("a") is None


def test_what_is_told_twice_counts_once() -> None:
    metrics = MemoryMetrics()
    for at in (1, 1, 2, 2):
        metrics.record("a", usage(at))
        metrics.record_value("a", "latency", float(at), at)
    assert [each.at for each in metrics.samples("a", 0)] == [1, 2]
    assert [each.at for each in metrics.values("a", "latency", 0)] == [1, 2]


def test_a_clock_that_was_set_back_begins_anew() -> None:
    metrics = MemoryMetrics()
    for at in (1000, 1001, 940, 941):
        metrics.record("a", usage(at))
        metrics.record_value("a", "latency", 1.0, at)
    assert [each.at for each in metrics.samples("a", 0)] == [940, 941]
    assert [each.at for each in metrics.values("a", "latency", 0)] == [940, 941]


def test_an_applications_values_are_kept_by_name_bounded_and_forgotten_with_it() -> None:
    metrics = MemoryMetrics(samples=3)
    for at in range(5):
        metrics.record_value("a", "latency", float(at), float(at))
    metrics.record_value("a", "fps", 25.0, 1.0)
    assert [each.value for each in metrics.values("a", "latency", 3.0)] == [3.0, 4.0]
    assert len(metrics.values("a", "latency", 0)) == 3
    metrics.forget("a")
    assert metrics.values("a", "fps", 0) == []
