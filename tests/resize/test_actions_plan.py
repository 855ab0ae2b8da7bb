"""The plan of a node's actions as a table: who is asked first, and that acting on a plan leaves nothing to do."""

import copy

import pytest

from headrace.api.objects import key_of
from headrace.resize.actions_plan import Seen, in_order, plan
from headrace.resize.workload import judge
from headrace.runtime.actions import Patch
from tests.resize.pods import ledger, node, pod

NOW = 1_800_000_000.0


def action(name, workload="web/app", cpu="2", *, priority=0, created="2027-01-15T08:00:00Z", state=None, **spec):
    obj = {
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1", "generation": 1},
        "spec": {"workload": workload, "target": {"cpu": cpu}, "priority": priority, **spec},
    }
    obj["metadata"]["creationTimestamp"] = created
    return obj | ({"status": {"state": state}} if state else {})


def a_pod(name, cpu=1000):
    running = {"running": {"startedAt": "2027-01-15T08:00:00Z"}}
    return pod(name, (cpu, 256), (cpu, 256), (cpu, 256), state=running)


def look(pods, actions, cpu=4000):
    return plan(Seen(node(cpu), ledger(*pods, cpu=cpu), {key_of(each): each for each in pods}, tuple(actions)), NOW)


def states(found):
    """By action: the state that the plan gives it."""
    return {
        each.name: each.fields["status"]["state"]
        for each in found
        if isinstance(each, Patch) and "status" in each.fields
    }


@pytest.mark.parametrize(
    ("actions", "order"),
    [
        ([action("a"), action("b", priority=5)], ["b", "a"]),
        ([action("a", created="2027-01-15T08:00:01Z"), action("b")], ["b", "a"]),
        ([action("a", priority=9), action("b", state="Running")], ["b", "a"]),
        ([action("b"), action("a")], ["a", "b"]),
    ],
    ids=["the higher priority first", "then the older", "what runs already goes before all", "the name last"],
)
def test_the_order_in_which_actions_are_asked(actions, order):
    assert [each["metadata"]["name"] for each in in_order(actions)] == order


def test_the_last_room_of_a_node_goes_to_the_higher_priority():
    pods = [a_pod("web"), a_pod("db")]
    found = look(pods, [action("low", "web/app", "3"), action("high", "db/app", "3", priority=1)])
    assert states(found) == {"high": "Running", "low": "Failed"}


def test_what_one_is_given_is_not_promised_to_the_next_and_a_deferred_one_takes_nothing():
    pods = [a_pod("web"), a_pod("db"), a_pod("job")]
    actions = [
        action("big", "web/app", "9", priority=9, onInsufficient="Defer"),
        action("first", "db/app", "2", priority=2),
        action("second", "job/app", "2", priority=1),
    ]
    assert states(look(pods, actions)) == {"big": "Pending", "first": "Running", "second": "Failed"}


def test_of_one_workload_only_the_first_is_started():
    found = look([a_pod("web")], [action("a"), action("b", cpu="3", created="2027-01-15T08:00:01Z")])
    assert states(found) == {"a": "Running"}


def test_one_that_waited_for_room_and_starts_lets_no_other_of_its_workload_start_beside_it():
    waited = action("waited", cpu="3", state="Pending", onInsufficient="Defer")
    waited["status"]["reason"] = "Deferred"
    other = action("other", cpu="2", created="2027-01-15T08:00:01Z")
    assert states(look([a_pod("web")], [waited, other])) == {"waited": "Running"}
    assert states(look([a_pod("web")], [waited, other], cpu=2000)) == {"waited": "Pending", "other": "Running"}


def test_what_a_plan_has_told_it_does_not_tell_again():
    pods, actions = (
        [a_pod("web"), a_pod("db")],
        [action("a", cpu="9", onInsufficient="Defer"), action("b", "db/app", "9")],
    )
    found = look(pods, actions)
    told = copy.deepcopy(actions)
    for each in found:
        if isinstance(each, Patch):
            for obj in told:
                if obj["metadata"]["name"] == each.name:
                    obj["status"] = (obj.get("status") or {}) | dict(each.fields["status"])
    assert look(pods, told) == ()


@pytest.mark.parametrize(
    ("created", "ends"),
    [
        pytest.param("2027-01-15T07:59:59Z", {}, id="just made: its Pod may not have been heard of yet"),
        pytest.param("2027-01-15T07:59:00Z", {"a": "Failed"}, id="a minute ago"),
        pytest.param("2027-01-16T08:00:00Z", {"a": "Failed"}, id="by a clock that was set back by a day since"),
    ],
)
def test_how_long_an_action_waits_for_a_pod_that_nobody_knows(created, ends):
    assert states(look([], [action("a", "ghost/app", created=created)])) == ends


def test_a_container_without_limits_is_as_it_was_wished_to_be():
    """`headrace top` called it UNKNOWN for as long as it ran: nothing is told of it, since nothing was asked for."""
    bare = a_pod("web")
    bare["spec"]["containers"][0]["resources"] = {}
    [told] = bare["status"]["containerStatuses"]
    del told["resources"], told["allocatedResources"]
    assert judge(bare, "app", node()).sync == "SYNCHRONIZED"
    del told["state"]
    assert judge(bare, "app", node()).sync == "UNKNOWN"
