"""kube-scheduler's filters and sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api import node_selectors
from headrace.api.taints import tolerates, untolerated
from headrace.scheduling.filters import host_ports, matches_placement, ports_conflict, summary

NODE = {"metadata": {"name": "node-a", "labels": {"disk": "ssd", "gen": "3", "build": "1_0"}}, "spec": {}}


@pytest.mark.parametrize(
    ("toleration", "taint", "answer"),
    [
        pytest.param({"operator": "Exists"}, {"key": "a", "effect": "NoSchedule"}, True, id="Exists alone covers all"),
        pytest.param({"key": "a"}, {"key": "a", "effect": "NoSchedule"}, True, id="Equal is the default"),
        pytest.param({"key": "a", "value": "1"}, {"key": "a", "value": "2"}, False, id="values differ"),
        pytest.param({"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoSchedule"}, False, id="effects"),
        pytest.param({"key": "b", "operator": "Exists"}, {"key": "a"}, False, id="another key"),
        pytest.param({"key": "a", "operator": "Maybe"}, {"key": "a"}, False, id="an unknown operator never tolerates"),
    ],
)
def test_tolerations(toleration, taint, answer):
    assert tolerates(toleration, taint) is answer


def test_only_taints_that_keep_away_count():
    taints = [{"key": "a", "effect": "PreferNoSchedule"}, {"key": "b", "effect": "NoSchedule"}]
    assert untolerated(taints, []) == taints[1]
    assert untolerated(taints[:1], []) is None


@pytest.mark.parametrize(
    ("requirement", "answer"),
    [
        ({"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}, True),
        ({"key": "disk", "operator": "NotIn", "values": ["ssd"]}, False),
        ({"key": "gpu", "operator": "NotIn", "values": ["a"]}, True),
        ({"key": "gpu", "operator": "Exists"}, False),
        ({"key": "gpu", "operator": "DoesNotExist"}, True),
        ({"key": "gen", "operator": "Gt", "values": ["2"]}, True),
        ({"key": "gen", "operator": "Lt", "values": ["2"]}, False),
        ({"key": "disk", "operator": "Gt", "values": ["2"]}, False),
        ({"key": "build", "operator": "Gt", "values": ["5"]}, False),
        ({"key": "build", "operator": "Lt", "values": ["50"]}, False),
        ({"key": "gen", "operator": "Gt", "values": ["1_0"]}, False),
        ({"key": "gen", "operator": "Gt", "values": ["-" + "0" * 5000 + "2"]}, True),
        ({"key": "gen", "operator": "Lt", "values": ["9" * 5000]}, False),
        ({"key": "disk", "operator": "Like", "values": ["s"]}, False),
    ],
)
def test_node_selector_requirements(requirement, answer):
    assert node_selectors.matches({"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}, NODE) is answer


def test_terms_are_alternatives_and_an_empty_one_matches_nothing():
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}
    assert node_selectors.matches({"nodeSelectorTerms": [{}, by_name]}, NODE)
    assert not node_selectors.matches({"nodeSelectorTerms": [{}]}, NODE)


def test_node_selector_and_affinity_both_must_hold():
    assert matches_placement({"nodeSelector": {"disk": "ssd"}}, NODE)
    assert not matches_placement({"nodeSelector": {"disk": "hdd"}}, NODE)
    terms = [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["hdd"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    assert not matches_placement({"nodeSelector": {"disk": "ssd"}, "affinity": affinity}, NODE)


def test_a_host_port_on_every_address_conflicts_with_one_on_a_single_address():
    wide = host_ports({"containers": [{"ports": [{"hostPort": 80}]}]})
    narrow = host_ports({"containers": [{"ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}]}]})
    other = host_ports({"containers": [{"ports": [{"hostPort": 80, "protocol": "UDP"}]}]})
    assert ports_conflict(narrow, wide)
    assert ports_conflict(wide, narrow)
    assert not ports_conflict(other, wide)


def test_host_ports_are_those_of_containers_that_stay():
    init = [{"restartPolicy": "Always", "ports": [{"hostPort": 80}]}, {"ports": [{"hostPort": 81}]}]
    assert host_ports({"initContainers": init, "containers": [{}]}) == {("0.0.0.0", "TCP", 80)}


def test_the_summary_counts_reasons_in_text_order():
    refusals = {"a": ["Insufficient cpu", "Insufficient memory"], "b": ["Insufficient cpu"], "c": ["Too many pods"]}
    told = "0/3 nodes are available: 1 Insufficient memory, 1 Too many pods, 2 Insufficient cpu."
    assert summary(refusals) == told
    assert summary({}) == "no nodes available to schedule pods"


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from(["x", "y"]), min_size=1, max_size=2)))
def test_the_summary_names_each_reason_once(refusals):
    told = summary(refusals)
    for reason in {each for reasons in refusals.values() for each in reasons}:
        assert told.count(f" {reason}") == 1
