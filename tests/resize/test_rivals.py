"""Which resources of a container other autoscalers decide about."""

import pytest

from headrace.resize.rivals import applied, judged

OWNERS = {("ReplicaSet", "web-1"), ("Deployment", "web")}


def hpa(*metrics, kind="Deployment", name="web"):
    return {"spec": {"scaleTargetRef": {"kind": kind, "name": name}, "metrics": list(metrics)}}


def resource(name):
    return {"type": "Resource", "resource": {"name": name}}


def of_container(name, container):
    return {"type": "ContainerResource", "containerResource": {"name": name, "container": container}}


@pytest.mark.parametrize(
    ("scalers", "found"),
    [
        ([], set()),
        ([hpa(resource("cpu"))], {"cpu"}),
        ([hpa(resource("cpu")), hpa(resource("memory"))], {"cpu", "memory"}),
        ([hpa(of_container("cpu", "app"))], {"cpu"}),
        ([hpa(of_container("cpu", "proxy"))], set()),
        ([hpa({"type": "Pods", "pods": {"metric": {"name": "rps"}}})], set()),
        ([hpa(resource("cpu"), name="db")], set()),
        ([hpa(resource("cpu"), kind="StatefulSet")], set()),
        ([hpa(resource("cpu"), kind="ReplicaSet", name="web-1")], {"cpu"}),
    ],
    ids=[
        "nobody",
        "cpu of all containers",
        "two of them",
        "cpu of this container",
        "cpu of another",
        "a metric that is no resource",
        "of something else",
        "of another kind with the same name",
        "of the ReplicaSet between",
    ],
)
def test_what_horizontal_autoscalers_judge(scalers, found):
    assert judged(scalers, OWNERS, "app") == found


def vpa(mode=None, *policies, name="web"):
    spec = {"targetRef": {"kind": "Deployment", "name": name}}
    if mode:
        spec["updatePolicy"] = {"updateMode": mode}
    return {"spec": spec | ({"resourcePolicy": {"containerPolicies": list(policies)}} if policies else {})}


@pytest.mark.parametrize(
    ("scalers", "found"),
    [
        ([vpa()], {"cpu", "memory"}),
        ([vpa("InPlaceOrRecreate")], {"cpu", "memory"}),
        ([vpa("Off")], set()),
        ([vpa("Initial")], set()),
        ([vpa(None, {"containerName": "*", "controlledResources": ["memory"]})], {"memory"}),
        ([vpa(None, {"containerName": "app", "mode": "Off"})], set()),
        ([vpa(None, {"containerName": "*", "mode": "Off"}, {"containerName": "app"})], {"cpu", "memory"}),
        ([vpa(name="db")], set()),
        ([{"spec": {}}], set()),
    ],
    ids=[
        "by default both",
        "in place too",
        "only recommended",
        "only at the start",
        "memory alone",
        "not of this container",
        "the container's own policy goes before that of all",
        "of something else",
        "of nothing",
    ],
)
def test_what_vertical_autoscalers_apply(scalers, found):
    assert applied(scalers, OWNERS, "app") == found
