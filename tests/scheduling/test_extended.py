"""Extended resources that classes back, judged by kube-scheduler's rules for requests and mappings."""

import pytest

from headrace.ledger.pods import contribution
from headrace.scheduling.extended import IMPLICIT_PREFIX, asked, backing, claim_name, classes_by_resource, is_extended

GPU = "nvidia.com/gpu"


def container(name, count=None, resource=GPU, **more):
    requests = {"cpu": "1"} | ({resource: str(count)} if count is not None else {})
    return {"name": name, "resources": {"requests": requests}, **more}


def pod(*containers, init=()):
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"containers": list(containers), "initContainers": list(init)},
    }


def requests(pod, resources=None):
    found = backing(pod, resources or {GPU: "gpu"})
    return {each["name"]: each["exactly"]["count"] for each in found.requests}, {
        (each["containerName"], each["requestName"]) for each in found.mappings
    }


@pytest.mark.parametrize(
    ("seen", "counts", "mappings"),
    [
        pytest.param(
            pod(container("a", 1)),
            {"container-0-request-1": 1},
            {("a", "container-0-request-1")},
            id="one container, one request, numbered among its sorted requests",
        ),
        pytest.param(
            pod(container("a", 1), container("b", 2)),
            {"container-0-request-1": 1, "container-1-request-1": 2},
            {("a", "container-0-request-1"), ("b", "container-1-request-1")},
            id="containers that run together each have their own",
        ),
        pytest.param(
            pod(container("a", 2), init=[container("i", 1)]),
            {"container-1-request-1": 2},
            {("i", "container-1-request-1"), ("a", "container-1-request-1")},
            id="an init container uses what comes after it",
        ),
        pytest.param(
            pod(container("a", 1), init=[container("i", 3), container("j", 2)]),
            {"container-0-request-1": 2, "container-2-request-1": 1},
            {
                ("i", "container-2-request-1"),
                ("i", "container-0-request-1"),
                ("j", "container-2-request-1"),
                ("j", "container-0-request-1"),
                ("a", "container-2-request-1"),
            },
            id="of init containers that need more, the largest request serves all",
        ),
        pytest.param(
            pod(container("a", 1), init=[container("s", 1, restartPolicy="Always")]),
            {"container-0-request-1": 1, "container-1-request-1": 1},
            {("s", "container-0-request-1"), ("a", "container-1-request-1")},
            id="a sidecar runs as long as the others",
        ),
        pytest.param(pod(container("a", 0)), {}, set(), id="none is none"),
    ],
)
def test_requests_and_mappings(seen, counts, mappings):
    assert requests(seen) == (counts, mappings)


def test_of_classes_with_one_name_the_newest_counts_and_each_has_its_implicit_one():
    classes = [
        {
            "metadata": {"name": "old", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"extendedResourceName": GPU},
        },
        {
            "metadata": {"name": "new", "creationTimestamp": "2026-02-01T00:00:00Z"},
            "spec": {"extendedResourceName": GPU},
        },
        {"metadata": {"name": "a", "creationTimestamp": "2026-02-01T00:00:00Z"}, "spec": {"extendedResourceName": GPU}},
        {"metadata": {"name": "plain"}, "spec": {}},
    ]
    found = classes_by_resource(classes)
    assert found[GPU] == "a"
    assert found[f"{IMPLICIT_PREFIX}plain"] == "plain"


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        (GPU, True),
        (f"{IMPLICIT_PREFIX}gpu.example.com", True),
        ("cpu", False),
        ("requests.nvidia.com/gpu", False),
        ("kubernetes.io/x", False),
    ],
)
def test_which_names_a_class_may_stand_for(name, extended):
    assert is_extended(name) is extended


def test_the_same_pod_has_the_same_claim_and_asks_in_the_order_of_names():
    seen = pod(container("a", 1), container("b", 1, resource="amd.com/gpu"))
    assert list(asked(seen)) == ["amd.com/gpu", GPU]
    assert claim_name(seen) == claim_name({**seen, "status": {}})


def test_what_devices_serve_is_no_amount_of_the_node():
    seen = pod(container("a", 1)) | {
        "status": {"extendedResourceClaimStatus": {"requestMappings": [{"containerName": "a", "resourceName": GPU}]}}
    }
    assert GPU not in contribution(seen).admitted()
    assert GPU in contribution(pod(container("a", 1))).admitted()


def test_zero_of_a_resource_asks_for_no_device():
    assert not asked(pod(container("a", 0), init=[container("i", 0)]))
    assert list(asked(pod(container("a", 0), container("b", 1)))) == [GPU]
