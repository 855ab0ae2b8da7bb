"""`headrace resize` and `top`: what is there already is not asked for again, and what limits are worth is said."""

import json
from typing import Any

import pytest

from headrace.cli.resize import _has, _row, age
from headrace.cli.top import notes

LIMITS = {"cpu": "1", "memory": "1Gi"}


def pod(desired: dict[str, str], admitted: dict[str, str], actual: dict[str, str]) -> dict[str, Any]:
    allocated = {**admitted, **{f"limits.{name}": amount for name, amount in admitted.items()}}
    told = {"name": "app", "allocatedResources": allocated, "resources": {"limits": actual, "requests": actual}}
    resources = {"limits": desired, "requests": desired}
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"nodeName": "node-a", "containers": [{"name": "app", "resources": resources}]},
        "status": {"phase": "Running", "containerStatuses": [told]},
    }


@pytest.mark.parametrize(
    ("wanted", "has"),
    [
        ({"cpu": "1000m"}, True),
        ({"cpu": "1", "memory": "1024Mi"}, True),
        ({"cpu": "2"}, False),
        ({"cpu": "1", "memory": "2Gi"}, False),
        ({"cpu": "much"}, False),
        ({"cpu": "0"}, False),
    ],
)
def test_an_amount_is_compared_however_it_is_written(wanted: dict[str, str], has: bool) -> None:
    assert _has(pod(LIMITS, LIMITS, LIMITS), "app", wanted) == has


@pytest.mark.parametrize("state", range(3), ids=["desired", "admitted", "read back"])
def test_what_is_on_its_way_is_not_there_already(state: int) -> None:
    states = [LIMITS, LIMITS, LIMITS]
    states[state] = {**LIMITS, "cpu": "2"}
    assert not _has(pod(*states), "app", {"cpu": "1"})


@pytest.mark.parametrize(
    ("before", "current", "shown"),
    [
        ({}, {}, "cpu ?"),
        ({"cpu": "1"}, {}, "cpu 1"),
        ({"cpu": "1"}, {"cpu": "2000m"}, "cpu 2"),
        ({"cpu": "1"}, {"cpu": "0"}, "cpu 1"),
        ({"cpu": "1"}, {"memory": "1Gi"}, "cpu 1"),
        ({"cpu": "1"}, {"cpu": "much"}, "cpu ?"),
    ],
)
def test_the_history_says_what_an_action_would_give_back(
    before: dict[str, str], current: dict[str, str], shown: str
) -> None:
    meta = {"creationTimestamp": "2027-01-01T00:00:00Z", "namespace": "default", "name": "a"}
    spec = {"workload": "web/app", "current": current, "target": {"cpu": "4"}}
    assert _row({"metadata": meta, "spec": spec, "status": {"before": before}})[2] == shown


def node(**told: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {"headrace.dev/enforcement": json.dumps(told)}}}


def test_top_names_the_nodes_that_do_not_enforce_limits() -> None:
    nodes = {
        "a": node(cpu="enforced", memory="enforced", detail="cgroup v2"),
        "b": node(cpu="approximate", memory="approximate", detail="no cgroup"),
        "c": node(cpu="enforced", memory="none", detail="x"),
        "of-a-cluster": {"metadata": {}},
        "elsewhere": node(cpu="none", memory="none", detail=""),
    }
    rows = [[f"default/{name}/app", name] for name in ("a", "b", "b", "c", "of-a-cluster", "")]
    assert notes(rows, nodes) == ["b: limits approximate: no cgroup", "c: limits enforced and none: x"]


def test_actions_of_one_second_are_told_in_the_order_in_which_they_ran() -> None:
    """Their names are random, and times have whole seconds."""

    def action(second: int, version: str) -> dict[str, Any]:
        return {"metadata": {"creationTimestamp": f"2027-01-15T08:00:0{second}Z", "resourceVersion": version}}

    told = [action(1, "90"), action(1, "101"), action(2, "100")]
    assert sorted(reversed(told), key=age) == told
