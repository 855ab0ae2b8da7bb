"""Laws of a policy's decisions, on any trace: never beyond bounds, never twice within a cooldown, at last nothing."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.api.amounts import amount
from headrace.api.selectors import from_label_selector
from headrace.api.times import to_micro_time
from headrace.metrics.protocol import Usage
from headrace.resize.policy.decision import Container, Record, judge
from headrace.resize.policy.replay import replay
from headrace.resize.policy.spec import Policy, Threshold, Trigger

MI = 1024**2
FIRST = {"cpu": 1000, "memory": 256 * MI}
cpus = st.integers(0, 9000)
phases = st.lists(
    st.tuples(st.integers(1, 30), cpus, st.integers(1, 3000), st.integers(0, 900)), min_size=1, max_size=5
)


def policy(**more):
    fields = {
        "name": "p",
        "mode": "Auto",
        "selector": from_label_selector({}),
        "containers": (),
        "triggers": (
            Trigger("cpu", ("cpu",), Threshold("above", 0.8, True), Threshold("below", 0.3, True), 3, 5),
            Trigger("memory", ("memory",), Threshold("above", 0.8, True), Threshold("below", 0.3, True), 3, 5),
            Trigger("latency", ("cpu", "memory"), Threshold("above", 300.0), None, 2, 3),
        ),
        "up_factor": 2.0,
        "down_factor": 0.5,
        "least": {"cpu": 200, "memory": 64 * MI},
        "most": {"cpu": 4000, "memory": 1024 * MI},
        "quota": {},
        "up_cooldown_seconds": 5.0,
        "down_cooldown_seconds": 20.0,
        "stabilization_seconds": 20.0,
        "tolerance": 0.1,
        "on_insufficient": "Reject",
        "oom_factor": 1.2,
        "oom_step_bytes": 100 * MI,
        "stop_after_ups": 2,
        "retry": {"count": 3, "seconds": 5},
        "priority": 0,
    }
    return Policy(**(fields | more))


def trace(phases, quiet=0):
    at = 0
    for seconds, cpu, memory, latency in phases:
        for _ in range(seconds):
            at += 1
            yield {"at": at, "cpu": f"{cpu}m", "memory": f"{memory}Mi", "latency": latency}
    for _ in range(quiet):
        at += 1
        yield {"at": at, "cpu": "10m", "memory": "16Mi", "latency": 1}


def decisions(of, phases, quiet=0):
    return [each for each in replay(of, FIRST, trace(phases, quiet)) if "direction" in each]


def test_a_clock_that_is_set_back_by_a_day_makes_no_cooldown_of_a_day():
    resources = {"limits": {"cpu": "1", "memory": "256Mi"}}
    pod = {
        "metadata": {"name": "web", "namespace": "default", "uid": "web"},
        "spec": {"containers": [{"name": "app", "resources": resources}]},
        "status": {},
    }
    grown = {
        "metadata": {"name": "before"},
        "spec": {"workload": "web/app", "current": {"cpu": "500m"}, "target": {"cpu": "1"}},
        "status": {"state": "Succeeded", "finishTime": to_micro_time(86_400.0)},
    }
    usage = [Usage(at, at * 0.95, 0, 0, MI, MI, None, None, 0) for at in map(float, range(1, 21))]
    answer = judge(Container(pod, "app", "Pod/web", usage, {}, (grown,)), policy(), Record(first=FIRST), {}, 20.0)
    assert answer.decision is not None
    assert answer.decision.target == {"cpu": 2000}


@given(phases, st.floats(1.1, 8), st.floats(0.1, 0.9))
@settings(max_examples=25, deadline=None)
def test_no_target_leaves_the_bounds(phases, up, down):
    of = policy(up_factor=up, down_factor=down)
    for told in decisions(of, phases, quiet=60):
        for name, text in told["to"].items():
            target, before = amount(name, text), amount(name, told["from"][name])
            assert target <= of.most[name]
            assert target >= min(of.least[name], before)
            assert (target > before) == (told["direction"] in ("up", "oom"))
            assert abs(target - before) > 0


@given(phases)
@settings(max_examples=25, deadline=None)
def test_each_direction_keeps_its_cooldown(phases):
    told = decisions(policy(), phases, quiet=60)
    for before, after in pairwise(told):
        pause = after["at"] - before["at"]
        assert pause >= 2  # readings before a resize count no more
        if before["direction"] == after["direction"] == "up":
            assert pause >= 5
        if after["direction"] == "down":
            assert pause >= 17  # a whole quiet window since the last change, within the slack of its samples


@given(phases)
@settings(max_examples=20, deadline=None)
def test_what_idles_for_long_ends_at_the_minimum_and_stays_there(phases):
    of = policy(down_cooldown_seconds=0.0, stabilization_seconds=10.0)
    told = decisions(of, phases, quiet=150)
    limits = dict(FIRST)
    for each in told:
        limits |= {name: amount(name, text) for name, text in each["to"].items()}
    assert all(of.least[name] <= limits[name] <= of.least[name] * 1.2 for name in FIRST)


@given(phases, st.integers(0, 6000))
@settings(max_examples=20, deadline=None)
def test_a_quota_bounds_every_growth(phases, more):
    """(The replay took the whole quota for what is still to be given, whatever the container had of it.)"""
    quota = FIRST["cpu"] - 500 + more
    for told in decisions(policy(quota={"cpu": quota}), phases):
        if told["direction"] == "up" and "cpu" in told["to"]:
            assert amount("cpu", told["to"]["cpu"]) <= quota


def successor(limits, **more):
    """A Pod that has just come in place of one that was resized."""
    metadata = {"name": "web", "namespace": "default", "creationTimestamp": "2027-01-15T08:00:00Z"}
    container = {"name": "app", "resources": {"limits": limits}}
    return Container({"metadata": metadata, "spec": {"containers": [container]}}, "app", "ReplicaSet/web", **more)


@pytest.mark.parametrize(
    ("limits", "left", "target", "flags"),
    [
        pytest.param({"cpu": "1"}, {"cpu": 3000}, {"cpu": 4000}, (), id="the quota has room for all of it"),
        pytest.param({"cpu": "1"}, {"cpu": 500}, {"cpu": 1500}, {"QuotaReached"}, id="for a part of it"),
        pytest.param({"cpu": "1"}, {"cpu": -500}, None, {"QuotaReached"}, id="for nothing"),
        pytest.param({"cpu": "5"}, {"cpu": -500}, {"cpu": 4000}, (), id="less than it has is no matter of quotas"),
        pytest.param({"memory": "256Mi"}, {}, None, (), id="a limit that it has not is not set"),
    ],
)
def test_a_successor_starts_with_what_its_predecessor_had_within_the_quota(limits, left, target, flags):
    record = Record(FIRST, target={"cpu": 4000}, at=1.0)
    answer = judge(successor(limits), policy(), record, left, 1_800_000_010.0)
    assert (answer.decision.target if answer.decision else None) == target
    assert answer.flags == frozenset(flags)


@pytest.mark.parametrize(
    ("told", "grows"),
    [
        pytest.param(
            {"before": {"cpu": "2"}}, True, id="what shrank is no growth, whose cooldown would hold up the next"
        ),
        pytest.param({}, True, id="nor is what nothing is known of: it had not to be changed"),
        pytest.param({"before": {"cpu": "500m"}}, False, id="a growth has its cooldown"),
    ],
)
def test_an_action_that_does_not_say_what_was_there_is_judged_by_what_was_seen(told, grows):
    resized = {
        "metadata": {"name": "by-hand"},
        "spec": {"workload": "web/app", "target": {"cpu": "1"}},
        "status": {"state": "Succeeded", "finishTime": to_micro_time(10.0), **told},
    }
    usage = [Usage(at, at * 0.95, 0, 0, MI, MI, None, None, 0) for at in map(float, range(11, 21))]
    container = successor({"cpu": "1"}, usage=usage, history=(resized,))
    answer = judge(container, policy(up_cooldown_seconds=60.0), Record(first=FIRST), {}, 20.0)
    assert (answer.decision is not None) == grows
