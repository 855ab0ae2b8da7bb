import pytest

from headrace.api.kinds import POD
from headrace.resize.plan import Candidate, Seen, is_settled, plan
from headrace.runtime.actions import Event, Patch
from tests.resize.pods import ledger, pending, pod

NOW = 1_800_000_000.0


def look(*pods, refused=None, unenforced=None, completed=(), **of_node):
    candidates = [
        Candidate(each, (refused or {}).get(each["metadata"]["name"]), each["metadata"]["name"] in completed)
        for each in pods
    ]
    return plan(Seen(ledger(*pods, **of_node), tuple(candidates), unenforced or {}), NOW)


def told(actions):
    """What became of each Pod, in order: `name: admitted cpu memory`, `name: Deferred …`, `name: cleared`."""
    words = []
    for action in actions:
        if not isinstance(action, Patch):
            continue
        assert (action.kind, action.version, action.subresource, action.strategic) == (POD, "7", "status", True)
        status = action.fields["status"]
        for container in status.get("containerStatuses", ()):
            record = container["allocatedResources"]
            words.append(f"{action.name}: admitted {record['cpu']} {record['memory']}")
        for condition in status.get("conditions", ()):
            if "$patch" in condition:
                words.append(f"{action.name}: cleared")
            else:
                words.append(f"{action.name}: {condition['reason']}")
    return words


def events(actions):
    return [action.reason for action in actions if isinstance(action, Event)]


SMALL, LARGE, HUGE = (500, 256), (3000, 256), (9000, 256)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([pod(desired=SMALL)], [], id="nothing was ever resized"),
        pytest.param([pod(desired=SMALL, admitted=SMALL, actual=SMALL)], [], id="all is as desired"),
        pytest.param(
            [pod(desired=LARGE, admitted=SMALL, actual=SMALL)], ["web: admitted 3000m 256Mi"], id="a growth that fits"
        ),
        pytest.param(
            [pod(desired=SMALL, admitted=LARGE, actual=LARGE)], ["web: admitted 500m 256Mi"], id="a shrink, at once"
        ),
        pytest.param(
            [pod(desired=HUGE, admitted=SMALL, actual=SMALL)], ["web: Infeasible"], id="more than the node has"
        ),
        pytest.param(
            [pod(desired=LARGE, admitted=SMALL, actual=SMALL), pod("db", desired=(2000, 256))],
            ["web: Deferred"],
            id="more than is left now",
        ),
        pytest.param(
            [
                pod("big", desired=LARGE, admitted=SMALL, actual=SMALL),
                pod("small", desired=(1000, 256), admitted=SMALL, actual=SMALL),
                pod("db", desired=(2000, 256)),
            ],
            ["small: admitted 1000m 256Mi", "big: Deferred"],
            id="a deferred big one does not block a small one",
        ),
        pytest.param(
            [
                pod("grows", desired=(2500, 256), admitted=SMALL, actual=SMALL),
                pod("shrinks", desired=SMALL, admitted=LARGE, actual=LARGE),
            ],
            ["shrinks: admitted 500m 256Mi", "grows: Deferred"],
            id="shrinks come first, and release only when the node has told",
        ),
        pytest.param(
            [
                pod("low", desired=(2500, 256), admitted=SMALL, actual=SMALL),
                pod("high", desired=(2500, 256), admitted=SMALL, actual=SMALL, priority=10),
            ],
            ["high: admitted 2500m 256Mi", "low: Deferred"],
            id="priority before name",
        ),
        pytest.param(
            [
                pod("burstable", desired=(2500, 256), admitted=SMALL, actual=SMALL, qos="Burstable"),
                pod("guaranteed", desired=(2500, 256), admitted=SMALL, actual=SMALL),
            ],
            ["guaranteed: admitted 2500m 256Mi", "burstable: Deferred"],
            id="QoS class before name",
        ),
        pytest.param(
            [
                pod("a-new", desired=(2500, 256), admitted=SMALL, actual=SMALL),
                pod("b-old", desired=(2500, 256), admitted=SMALL, actual=SMALL, conditions=[pending()]),
            ],
            ["b-old: admitted 2500m 256Mi", "b-old: cleared", "a-new: Deferred"],
            id="who waits longest before name",
        ),
        pytest.param(
            [pod(desired=SMALL, admitted=SMALL, actual=SMALL, conditions=[pending()])],
            ["web: cleared"],
            id="a wish that was taken back waits no more",
        ),
        pytest.param(
            [pod(desired=SMALL, admitted=LARGE)], ["web: Deferred"], id="no shrink before the node has told anything"
        ),
        pytest.param(
            [pod(desired=SMALL, admitted=LARGE, actual=(1000, 256))],
            ["web: Deferred"],
            id="no shrink while the node is still growing it",
        ),
        pytest.param(
            [pod(desired=SMALL, admitted=LARGE, actual=(1000, 256), seen=1)],
            ["web: Deferred"],
            id="no shrink while the node has seen an older wish alone",
        ),
        pytest.param(
            [pod(desired=SMALL, admitted=LARGE, actual=(1000, 256), seen=2)],
            ["web: admitted 500m 256Mi"],
            id="a growth that was taken back before it was applied is given back once the node has seen so",
        ),
        pytest.param(
            [pod(desired=SMALL, admitted=(1000, 256), actual=LARGE)],
            ["web: admitted 500m 256Mi"],
            id="a further shrink while the first is still under way",
        ),
        pytest.param(
            [
                pod(
                    desired=SMALL,
                    admitted=LARGE,
                    actual=(1000, 256),
                    restart_policy="Never",
                    state={"terminated": {"exitCode": 1}},
                )
            ],
            ["web: admitted 500m 256Mi"],
            id="a shrink of what has ended for good",
        ),
    ],
)
def test_what_is_admitted_and_what_waits(pods, expected):
    assert told(look(*pods)) == expected


def test_a_shrink_fits_on_an_overfull_node():
    overfull = [pod(desired=SMALL, admitted=LARGE, actual=LARGE), pod("db", desired=LARGE)]
    assert told(look(*overfull, cpu=2000)) == ["web: admitted 500m 256Mi"]


def test_a_condition_carries_the_shortfalls_words_and_the_generation():
    actions = look(pod(desired=LARGE, admitted=SMALL, actual=SMALL), pod("db", desired=(2000, 256)))
    (condition,) = actions[0].fields["status"]["conditions"]
    assert condition == {
        "type": "PodResizePending",
        "status": "True",
        "reason": "Deferred",
        "message": "node node-a: insufficient cpu: 2500m more wanted, 1500m available of 4 "
        "(most is held by Pod default/db 2, Pod default/web 500m)",
        "observedGeneration": 2,
        "lastTransitionTime": "2027-01-15T08:00:00Z",
    }
    assert events(actions) == ["ResizeDeferred"]


def test_an_infeasible_wish_says_what_the_node_could_ever_give():
    actions = look(pod(desired=HUGE, admitted=SMALL, actual=SMALL))
    (condition,) = actions[0].fields["status"]["conditions"]
    assert condition["message"] == "node node-a: insufficient cpu: 9 wanted, 4 allocatable of 4"
    assert events(actions) == ["ResizeInfeasible"]


def test_what_waits_is_told_once_and_waits_since_it_was_first_told():
    first = look(pod(desired=HUGE, admitted=SMALL, actual=SMALL))
    (condition,) = first[0].fields["status"]["conditions"]
    assert look(pod(desired=HUGE, admitted=SMALL, actual=SMALL, conditions=[condition])) == ()
    older = {**condition, "message": "something else", "observedGeneration": 1}
    (patch,) = look(pod(desired=HUGE, admitted=SMALL, actual=SMALL, conditions=[older]))
    assert "lastTransitionTime" not in patch.fields["status"]["conditions"][0]


def test_a_wish_that_the_ledger_refused_is_not_asked_for_again():
    waiting = pod(desired=LARGE, admitted=SMALL, actual=SMALL)
    actions = look(waiting, refused={"web": "node node-a: a machine holds it"})
    assert told(actions) == ["web: Deferred"]
    assert actions[0].fields["status"]["conditions"][0]["message"] == "node node-a: a machine holds it"


def test_a_limit_that_the_node_cannot_set_is_infeasible():
    wish = pod(desired=(500, 512), admitted=SMALL, actual=SMALL)
    actions = look(wish, unenforced={"memory": "no cgroup here"})
    assert told(actions) == ["web: Infeasible"]
    assert actions[0].fields["status"]["conditions"][0]["message"] == (
        "container app: node node-a cannot change the memory limit: no cgroup here"
    )
    only_cpu = pod(desired=(600, 256), admitted=SMALL, actual=SMALL)
    assert told(look(only_cpu, unenforced={"memory": "no cgroup here"})) == ["web: admitted 600m 256Mi"]


def test_an_admission_records_all_four_amounts_and_drops_what_is_desired_no_more():
    wish = pod(desired=SMALL, admitted=LARGE, actual=LARGE)
    wish["status"]["containerStatuses"][0]["allocatedResources"]["limits.ephemeral"] = "1"
    (container,) = look(wish)[0].fields["status"]["containerStatuses"]
    assert container == {
        "name": "app",
        "allocatedResources": {
            "cpu": "500m",
            "memory": "256Mi",
            "limits.cpu": "500m",
            "limits.memory": "256Mi",
            "limits.ephemeral": None,
        },
    }


def test_an_unmanaged_pod_is_charged_its_request_however_large_its_limit():
    wish = pod(desired=(1000, 256, 64_000, 256), admitted=SMALL, actual=SMALL, managed=False)
    assert told(look(wish)) == ["web: admitted 1000m 256Mi"]


def test_a_completed_resize_is_told_in_an_event():
    assert events(look(pod(desired=SMALL, admitted=SMALL, actual=SMALL), completed=["web"])) == ["ResizeCompleted"]


def test_the_end_of_a_resize_is_told_although_another_s_admission_conflicts():
    """The look ended at the conflict, and the next had forgotten the end."""
    waiting = pod("db", desired=LARGE, admitted=SMALL, actual=SMALL)
    first, *others = look(waiting, pod(desired=SMALL, admitted=SMALL, actual=SMALL), completed=["web"])
    assert (first.name, first.reason) == ("web", "ResizeCompleted")
    assert told(others) == ["db: admitted 3000m 256Mi"]


@pytest.mark.parametrize(
    ("pod", "settled"),
    [
        pytest.param(pod(desired=SMALL), True, id="never resized"),
        pytest.param(pod(desired=SMALL, admitted=SMALL, actual=SMALL), True, id="as desired"),
        pytest.param(pod(desired=LARGE, admitted=SMALL, actual=SMALL), False, id="not admitted"),
        pytest.param(pod(desired=LARGE, admitted=LARGE, actual=SMALL), False, id="not in force"),
        pytest.param(
            pod(
                desired=SMALL,
                admitted=SMALL,
                actual=SMALL,
                conditions=[{"type": "PodResizeInProgress", "status": "True", "reason": "Error"}],
            ),
            False,
            id="the agent says that it goes on",
        ),
    ],
)
def test_settled_is_desired_admitted_and_actual(pod, settled):
    assert is_settled(pod) is settled
