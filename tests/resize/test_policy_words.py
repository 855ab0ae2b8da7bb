"""Numbers in events and messages: as people read them, without the noise of rates and shares."""

import json
import math

import pytest

from headrace.metrics.memory import MemoryMetrics
from headrace.resize.monitoring import Monitoring
from headrace.resize.policy.decision import Decision, words
from headrace.resize.policy.signals import shown, shown_threshold

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("value", "told"),
    [
        pytest.param(0.0, "0", id="nothing"),
        pytest.param(450.0, "450", id="a whole number has no point"),
        pytest.param(0.1 + 0.2, "0.3", id="the noise of a sum"),
        pytest.param(873.4923784, "873.5", id="four digits"),
        pytest.param(999.96, "1000", id="rounded up to a whole number"),
        pytest.param(1234567.89, "1234568", id="a large one is told in full"),
        pytest.param(0.000123456, "0.0001235", id="a small one is not taken for nothing"),
        pytest.param(-33.3333333, "-33.33", id="below nothing"),
        pytest.param(1e300, "1e+300", id="beyond what a float counts"),
    ],
)
def test_a_value_is_told_in_four_digits(value, told):
    assert json.dumps(shown(value)) == told


def test_what_is_no_number_is_left_as_it_is():
    assert shown(math.inf) == math.inf
    assert math.isnan(shown(math.nan))


@pytest.mark.parametrize(
    ("edge", "told"), [(0.55 * 1000, 550), (12345.5, 12345.5), (0.8 * 256 * MIB, 214748365), (0.12345, 0.12345)]
)
def test_a_threshold_is_told_as_somebody_has_written_it(edge, told):
    assert shown_threshold(edge) == told


@pytest.mark.parametrize(
    ("metric", "value", "threshold", "told"),
    [
        ("cpu", 873.4923784, 0.55 * 1000, "cpu 873.5m above 550m"),
        ("memory", 205.25 * MIB, 0.8 * 256 * MIB, "memory 205.2Mi above 204.8Mi"),
        ("latency", 1234567.89, 300000.0, "latency 1234568 above 300000"),
        ("throttling", 100 / 3, 25.0, "throttling 33.33 above 25"),
        ("goodput", 0.5, 0.95, "goodput 0.5 below 0.95"),
    ],
)
def test_a_decisions_cause_is_told_in_words(metric, value, threshold, told):
    decision = Decision("up", {"cpu": 2000}, "Degraded", metric, value, threshold)
    assert words(decision) == f"up to cpu 2: {told}"


def test_a_performance_event_is_told_so_too():
    monitoring = Monitoring(MemoryMetrics(10, 10), lambda: 0.0)
    monitoring.judged("default/web/app", "cpu", 873.4923784, 0.55 * 1000, is_degraded=True)
    [event] = monitoring.recent()
    assert (str(event["value"]), str(event["threshold"])) == ("873.5", "550")
