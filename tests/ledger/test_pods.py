"""What a Pod holds. The formula's cases follow Kubernetes' own table of PodRequests."""

import pytest

from headrace.ledger.pods import charged, contribution
from tests.ledger.builders import container, pod, status

MEBI = 2**20


def cores(obj):
    found = charged(obj)
    return found and found.held().get("cpu", 0)


def sidecar(name, **requests):
    return container(name, **requests) | {"restartPolicy": "Always"}


FORMULA = [
    pytest.param([], [container("a", cpu="1"), container("b", cpu="500m")], {}, 1500, id="containers add up"),
    pytest.param(
        [container("i", cpu="3"), container("j", cpu="2")],
        [container("a", cpu="1")],
        {},
        3000,
        id="init containers run one after another, so the largest counts if it is more than all others",
    ),
    pytest.param(
        [sidecar("s", cpu="1")], [container("a", cpu="1")], {}, 2000, id="a sidecar stays, so it adds to the containers"
    ),
    pytest.param(
        [sidecar("s", cpu="1"), container("i", cpu="3")],
        [container("a", cpu="1")],
        {},
        4000,
        id="an init container runs beside the sidecars started before it",
    ),
    pytest.param(
        [container("i", cpu="3"), sidecar("s", cpu="1")],
        [container("a", cpu="1")],
        {},
        3000,
        id="an init container does not run beside the sidecars started after it",
    ),
    pytest.param([], [container("a", cpu="1")], {"overhead": {"cpu": "250m"}}, 1250, id="overhead is added at the end"),
    pytest.param(
        [],
        [container("a", cpu="1"), container("b", cpu="1")],
        {"resources": {"requests": {"cpu": "2500m"}}},
        2500,
        id="a request of the Pod as a whole is charged, of which its containers have a part",
    ),
    pytest.param(
        [],
        [container("a", cpu="1")],
        {"resources": {"requests": {"memory": "1Gi"}}},
        1000,
        id="a request of the Pod as a whole replaces only the resources it names",
    ),
]


@pytest.mark.parametrize(("init", "containers", "spec", "expected"), FORMULA)
def test_a_pod_holds_what_kube_scheduler_would_count(init, containers, spec, expected):
    assert cores(pod("web", *containers, initContainers=init, **spec)) == expected


def test_what_containers_still_have_is_charged_when_their_pod_asks_for_less_as_a_whole():
    told = [status(allocated={"cpu": "3"}, actual={"cpu": "3"})]
    assert cores(pod("web", container(cpu="1"), statuses=told, resources={"requests": {"cpu": "2"}})) == 3000


def test_a_managed_pod_holds_its_containers_limits_together_where_they_are_more_than_its_own():
    both = [container(name, limits={"cpu": "2"}, cpu="500m") for name in ("a", "b")]
    whole = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    assert cores(pod("web", *both, labels={"headrace.dev/managed": "true"}, resources=whole)) == 4000
    assert cores(pod("web", *both, resources=whole)) == 1000


RECORDS = [
    pytest.param(None, 1000, id="without a record the spec is what is admitted"),
    pytest.param(status(allocated={"cpu": "2", "limits.cpu": "3"}), 2000, id="the record replaces the spec"),
    pytest.param(status(allocated={"cpu": "500m"}, actual={"cpu": "1"}), 1000, id="what has not shrunk yet is charged"),
    pytest.param(status(allocated={"cpu": "2"}, actual={"cpu": "1"}), 2000, id="what may grow already is charged"),
    pytest.param(status(actual={"cpu": "1500m"}), 1500, id="drift is charged"),
    pytest.param(status(allocated={"memory": "1Gi"}), 0, id="a record without cpu admits no cpu"),
]


@pytest.mark.parametrize(("told", "expected"), RECORDS)
def test_a_pod_holds_the_larger_of_admitted_and_actual(told, expected):
    assert cores(pod("web", container(cpu="1"), statuses=[told] if told else None)) == expected


def test_the_record_of_a_container_leaves_other_resources_as_in_the_spec():
    card = container(cpu="1", **{"example.com/card": "2"})
    found = charged(pod("web", card, statuses=[status(allocated={"cpu": "1"})]))
    assert found.held() == {"cpu": 1000, "example.com/card": 2, "pods": 1}


def test_a_managed_pod_holds_its_limits():
    limited = container(limits={"cpu": "2", "memory": "64Mi"}, cpu="1", memory="128Mi")
    managed = pod("web", limited, labels={"headrace.dev/managed": "true"})
    assert charged(managed).held() == {"cpu": 2000, "memory": 128 * MEBI, "pods": 1}
    assert charged(pod("web", limited)).held() == {"cpu": 1000, "memory": 128 * MEBI, "pods": 1}


def test_containers_without_a_limit_are_listed_as_unbounded():
    half = container("half", limits={"cpu": "1"}, cpu="1")
    both = container("both", limits={"cpu": "1", "memory": "1Gi"}, cpu="1")
    assert charged(pod("web", half, both)).unbounded() == ("half",)


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(pod("web", container(cpu="1"), phase="Succeeded"), id="one that succeeded"),
        pytest.param(pod("web", container(cpu="1"), phase="Failed"), id="one that failed"),
        pytest.param(pod("web", container(cpu="1"), node="", phase="Pending"), id="one that is not bound"),
    ],
)
def test_a_pod_that_runs_nowhere_holds_nothing(obj):
    assert charged(obj) is None


def test_what_a_pod_would_hold_is_known_before_it_is_bound():
    waiting = pod("web", container(cpu="1", memory="1Mi"), node="", phase="Pending")
    assert contribution(waiting).admitted() == {"cpu": 1000, "memory": MEBI, "pods": 1}
