"""Who loses a device to a NoExecute taint, and when."""

import pytest

from headrace.devices.evictions import Seen, plan
from headrace.devices.taint_rule_status import Seen as RuleSeen
from headrace.devices.taint_rule_status import plan as plan_rule
from headrace.devices.taint_rules import selects, tainted
from headrace.runtime.actions import Again, Delete, Event, Patch

NOW = 1000.0
ADDED = "1970-01-01T00:16:40Z"
TAINT = {"key": "repair", "value": "fan", "effect": "NoExecute", "timeAdded": ADDED}


def pod(name="p", *, node="a", **meta):
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1", **meta}
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}, "status": {}}


def seen(*tolerations, taint=TAINT, pods=None):
    result = {"request": "r", "driver": "d", "pool": "p", "device": "x", "tolerations": list(tolerations)}
    claim = {"metadata": {"name": "c"}, "status": {"allocation": {"devices": {"results": [result]}}}}
    found = {each["metadata"]["uid"]: each for each in (pods or [pod()])}
    return Seen(claim, found, [[(taint, "DeviceTaintRule r")]])


TOLERATED = {"key": "repair", "operator": "Exists", "effect": "NoExecute"}


def test_a_pod_is_told_and_deleted_by_its_uid():
    event, condition, deletion = plan(seen(), NOW)
    assert isinstance(event, Event)
    assert "DeviceTaintRule r" in event.message
    assert isinstance(condition, Patch)
    assert condition.fields["status"]["conditions"][0]["type"] == "DisruptionTarget"
    assert isinstance(deletion, Delete)
    assert deletion.deletion.preconditions.uid == "uid-p"


@pytest.mark.parametrize(
    "quiet",
    [
        pytest.param(seen(TOLERATED), id="a toleration without seconds is for ever"),
        pytest.param(seen(taint={**TAINT, "effect": "NoSchedule"}), id="NoSchedule evicts nobody"),
        pytest.param(seen(pods=[pod(node="")]), id="a Pod that is nowhere yet is the scheduler's"),
        pytest.param(seen(pods=[pod(deletionTimestamp="t")]), id="a Pod that leaves already is left alone"),
    ],
)
def test_nobody_is_evicted(quiet):
    assert plan(quiet, NOW) == ()


def test_tolerated_for_some_seconds_the_shortest_counts_from_when_the_taint_was_added():
    tolerations = [{**TOLERATED, "tolerationSeconds": 30}, {**TOLERATED, "tolerationSeconds": 10}]
    assert plan(seen(*tolerations), NOW + 4) == (Again(6.0),)
    assert any(isinstance(each, Delete) for each in plan(seen(*tolerations), NOW + 10))


SLICE = {"spec": {"driver": "d", "pool": {"name": "p"}, "devices": [{"name": "x"}, {"name": "y", "taints": [TAINT]}]}}


@pytest.mark.parametrize(
    ("selector", "devices"),
    [
        pytest.param(None, [], id="no selector selects nothing"),
        pytest.param({}, ["x", "y"], id="an empty one everything"),
        pytest.param({"driver": "d", "pool": "p", "device": "x"}, ["x"], id="all parts must match"),
        pytest.param({"driver": "e"}, [], id="another driver"),
    ],
)
def test_a_rules_taint_comes_after_the_drivers_own(selector, devices):
    rule = {"spec": {"taint": {"key": "k", "effect": "NoSchedule"}}}
    if selector is not None:
        rule["spec"]["deviceSelector"] = selector
    found = tainted(SLICE, [rule])["spec"]["devices"]
    assert [each["name"] for each in found if rule["spec"]["taint"] in each.get("taints", ())] == devices
    assert all(each["taints"][0] == TAINT for each in found if each["name"] == "y")
    assert selects(rule, SLICE) is bool(devices)


RULE = {"metadata": {"name": "r", "generation": 2}, "spec": {"taint": {"key": "k", "effect": "NoExecute"}}}


def with_effect(effect):
    return {**RULE, "spec": {"taint": {"key": "k", "effect": effect}}}


@pytest.mark.parametrize(
    ("seen", "status", "reason", "words"),
    [
        pytest.param(
            RuleSeen(RULE, [pod("a"), pod("b")]),
            "True",
            "PodsPendingEviction",
            "2 pods need to be evicted in 1 namespace.",
            id="what is still to do",
        ),
        pytest.param(
            RuleSeen(RULE, evicted=1),
            "False",
            "Completed",
            "1 pod evicted since starting the controller.",
            id="what is done",
        ),
        pytest.param(RuleSeen(RULE), "False", "NotStarted", "", id="nothing to do yet"),
        pytest.param(
            RuleSeen(with_effect("NoSchedule")),
            "False",
            "OtherEffect",
            "Eviction only happens for the NoExecute effect.",
            id="an effect that evicts nobody",
        ),
        pytest.param(
            RuleSeen(with_effect("None"), [pod()], published=3, allocated=1),
            "False",
            "NoEffect",
            "3 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace",
            id="a rule that only asks",
        ),
    ],
)
def test_a_rule_tells_what_it_does(seen, status, reason, words):
    (patch,) = plan_rule(seen, NOW)
    [condition] = patch.fields["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == (status, reason)
    assert words in condition["message"]
    told = {**seen.rule, "status": patch.fields["status"]}
    assert plan_rule(RuleSeen(told, seen.pending, seen.evicted, seen.published, seen.allocated), NOW) == ()
