"""metrics.k8s.io as samples: rates over windows become counters, what is old or of the future makes none."""

import pytest

from headrace.api.times import to_time
from headrace.metrics.pod_metrics import Rate, Rates, rates

NOW = 1_800_000_000.0
MI = 1024**2


def item(cpu="250m", memory="64Mi", at=NOW, window="15s", name="web", **more):
    found = {"metadata": {"namespace": "default", "name": name}, "timestamp": to_time(at), "window": window}
    return found | {"containers": [{"name": "app", "usage": {"cpu": cpu, "memory": memory}}]} | more


@pytest.mark.parametrize(
    ("cpu", "cores"), [("250m", 0.25), ("156340n", 0.00015634), ("1", 1.0), ("0", 0.0), ("12u", 0.000012)]
)
def test_a_rate_is_read_in_every_unit_that_servers_write(cpu, cores):
    assert list(rates({"items": [item(cpu)]})) == [Rate("default/web/app", NOW, 15.0, cores, 64 * MI)]


@pytest.mark.parametrize(
    ("text", "seconds"), [("15s", 15.0), ("1m0s", 60.0), ("14.523s", 14.523), ("1h0m5s", 3605.0), ("500ms", 0.5)]
)
def test_a_window_is_a_duration_as_go_writes_it(text, seconds):
    assert [each.window for each in rates({"items": [item(window=text)]})] == [seconds]


@pytest.mark.parametrize(
    "broken",
    [item("much"), item(timestamp="soon"), item(containers=[{"name": "app"}]), item(metadata={}), {}],
    ids=["no quantity", "no time", "no usage", "no name", "nothing"],
)
def test_one_pod_that_cannot_be_read_takes_no_other_with_it(broken):
    assert [each.workload for each in rates({"items": [broken, item(name="db")]})] == ["default/db/app"]


def test_counters_grow_by_what_was_used_in_between():
    counters = Rates()
    found = [
        counters.taken(Rate("a/b/c", NOW + at, 15.0, cores, MI), NOW + at)
        for at, cores in ((0, 1.0), (15, 0.5), (45, 2))
    ]
    assert [each.cpu_seconds for each in found] == [0.0, 7.5, 67.5]
    assert [each.working_set_bytes for each in found] == [MI] * 3


@pytest.mark.parametrize(
    ("at", "window", "is_taken"),
    [
        (NOW, 15.0, True),
        (NOW - 59, 15.0, True),
        (NOW - 61, 15.0, False),
        (NOW - 200, 60.0, True),
        (NOW - 241, 60.0, False),
        (NOW + 59, 15.0, True),
        (NOW + 61, 15.0, False),
    ],
    ids=[
        "of now",
        "a minute is no age",
        "older than four windows",
        "with longer windows",
        "also too old then",
        "a clock that is a little ahead",
        "a clock that is wrong",
    ],
)
def test_only_what_is_of_now_makes_a_sample(at, window, is_taken):
    assert (Rates().taken(Rate("a/b/c", at, window, 1.0, MI), NOW) is not None) == is_taken


def test_what_was_told_before_makes_no_second_sample():
    counters, rate = Rates(), Rate("a/b/c", NOW, 15.0, 1.0, MI)
    assert counters.taken(rate, NOW) is not None
    assert counters.taken(rate, NOW + 5) is None
    assert counters.taken(Rate("a/b/c", NOW - 15, 15.0, 1.0, MI), NOW + 5) is None
