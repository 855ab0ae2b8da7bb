"""What is written into a Pod's status: phases as a kubelet finds them, and only what changed."""

import pytest

from headrace.node.containers import Memory, Problem, Setup
from headrace.node.pod import view
from headrace.node.pod_status import change, qos_class, wanted
from tests.node.agent.builders import NOW, a_pod, a_sidecar, after, exited, running, seen

NEVER, ON_FAILURE = {"restartPolicy": "Never"}, {"restartPolicy": "OnFailure"}


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        pytest.param(seen(), "Pending", id="nothing ran yet"),
        pytest.param(seen(None, running()), "Running", id="all run"),
        pytest.param(seen(a_pod("main", "other"), running()), "Pending", id="one never ran"),
        pytest.param(
            seen(a_pod("main", "other"), running(), exited("other", 0)), "Running", id="one runs, one has ended"
        ),
        pytest.param(seen(None, exited()), "Running", id="ended, but it is restarted"),
        pytest.param(seen(a_pod(**NEVER), exited(code=0)), "Succeeded", id="ended well, for good"),
        pytest.param(seen(a_pod(**NEVER), exited(code=1)), "Failed", id="ended badly, for good"),
        pytest.param(
            seen(a_pod("main", "other", **NEVER), exited(code=0), exited("other", 1)), "Failed", id="one of two failed"
        ),
        pytest.param(seen(a_pod(**ON_FAILURE), exited(code=1)), "Running", id="failed, and is restarted on failure"),
        pytest.param(seen(a_pod(**ON_FAILURE), exited(code=0)), "Succeeded", id="succeeded under OnFailure"),
        pytest.param(seen(a_pod(init=["first"]), running("first")), "Pending", id="an init container runs"),
        pytest.param(seen(a_pod(init=["first"]), exited("first", 1)), "Pending", id="an init container is restarted"),
        pytest.param(seen(a_pod(init=["first"], **NEVER), exited("first", 1)), "Failed", id="an init container failed"),
        pytest.param(
            seen(a_pod(init=[a_sidecar("side")], **NEVER), running("side"), exited(code=0)),
            "Running",
            id="a sidecar has still to end",
        ),
        pytest.param(
            seen(a_pod(init=[a_sidecar("side")], **NEVER), exited("side", 143), exited(code=0)),
            "Succeeded",
            id="a sidecar's end does not count",
        ),
        pytest.param(seen(a_pod(deleted=True), running()), "Running", id="deleted, but it runs"),
        pytest.param(seen(a_pod(deleted=True), exited(code=143)), "Failed", id="deleted, and killed"),
        pytest.param(seen(a_pod(deleted=True), exited(code=0)), "Succeeded", id="deleted, and ended well"),
        pytest.param(seen(a_pod(deleted=True)), "Pending", id="deleted before it ran"),
        pytest.param(
            seen(a_pod(status={"phase": "Failed"}), exited(code=0)), "Failed", id="what has failed stays failed"
        ),
    ],
)
def test_the_phase(state, phase):
    assert written(state)["phase"] == phase


@pytest.mark.parametrize(
    ("state", "told"),
    [
        pytest.param(seen(setup="needed"), {"reason": "ContainerCreating", "message": None}, id="volumes come first"),
        pytest.param(
            seen(setup=Setup("needed", Problem("FailedMount", 'secret "x" not found'))),
            {"reason": "ContainerCreating", "message": 'secret "x" not found'},
            id="what holds it up is said",
        ),
        pytest.param(
            seen(a_pod(init=["first"]), running("first")),
            {"reason": "PodInitializing", "message": None},
            id="init first",
        ),
        pytest.param(
            seen(memory={"main": Memory(problem=Problem("RunContainerError", "no such file"))}),
            {"reason": "RunContainerError", "message": "no such file"},
            id="what cannot be started says why",
        ),
        pytest.param(
            seen(None, exited(attempt=2), memory={"main": after(2)}),
            {
                "reason": "CrashLoopBackOff",
                "message": "back-off 20s restarting failed container=main pod=p_default(0000)",
            },
            id="a crash loop waits in Kubernetes' words",
        ),
    ],
)
def test_why_a_container_waits(state, told):
    [status] = written(state)["containerStatuses"]
    assert status["state"] == {"waiting": told, "running": None, "terminated": None}


AMOUNTS = {"requests": {"cpu": "250m"}, "limits": {"cpu": "500m", "memory": "64Mi"}}
SMALLER = {"cpu": "100m", "limits.cpu": "200m", "memory": "32Mi", "limits.memory": "32Mi"}


@pytest.mark.parametrize(
    ("status", "told"),
    [
        pytest.param(
            {},
            {"limits": AMOUNTS["limits"], "requests": {"cpu": "250m", "memory": "64Mi"}},
            id="the spec, while nothing else is admitted",
        ),
        pytest.param(
            {"allocatedResources": SMALLER},
            {"limits": {"cpu": "200m", "memory": "32Mi"}, "requests": {"cpu": "100m", "memory": "32Mi"}},
            id="what is admitted",
        ),
    ],
)
def test_a_container_that_waits_tells_what_it_will_be_started_with(status, told):
    main = {"name": "main", "command": ["run"], "resources": AMOUNTS}
    pod = a_pod(main, status={"containerStatuses": [{"name": "main", **status}]})
    [found] = written(seen(pod, setup=Setup("needed", Problem("FailedPrepareDynamicResources", "no driver"))))[
        "containerStatuses"
    ]
    assert found["resources"] == told


def test_what_was_told_before_the_start_stays_until_the_run_is_read():
    """A container that was started while its node was behind has that much, though less is admitted by now: taken back,
    nobody would be charged for it."""
    waited = {"name": "main", "containerID": "", "resources": AMOUNTS}
    pod = a_pod({"name": "main", "command": ["run"], "resources": AMOUNTS}, status={"containerStatuses": [waited]})
    [found] = written(seen(pod, running()))["containerStatuses"]
    assert "resources" not in found


def test_an_end_tells_all_a_kubelet_tells():
    [status] = written(seen(a_pod(**NEVER), exited(code=137, oom=True, ran=2.0)))["containerStatuses"]
    assert status["state"]["terminated"] == {
        "exitCode": 137,
        "reason": "OOMKilled",
        "signal": None,
        "startedAt": "1970-01-01T02:46:37Z",
        "finishedAt": "1970-01-01T02:46:39Z",
        "containerID": "process://0000_main_0",
    }


def test_what_is_told_once_is_not_told_again():
    state = seen(None, exited(attempt=1, at=NOW - 60), running(attempt=2))
    status = written(state)
    assert change(told(status), status, NOW + 100) is None


def test_only_what_changed_is_told_and_its_time_moves_with_it():
    before = told(written(seen(None, running())))
    status = written(seen(before, exited(attempt=0)))
    patch = change(before, status, NOW + 100)
    assert set(patch) == {"containerStatuses", "conditions"}
    assert {each["type"] for each in patch["conditions"]} == {"Ready", "ContainersReady"}
    assert {each["lastTransitionTime"] for each in patch["conditions"]} == {"1970-01-01T02:48:20Z"}
    assert "allocatedResources" not in patch["containerStatuses"][0]


def test_a_resize_that_is_done_takes_its_condition_along():
    pod = told({**written(seen(None, running()), Problem("Error", "in use"))})
    patch = change(pod, written(seen(pod, running())), NOW)
    assert patch == {"conditions": [{"type": "PodResizeInProgress", "$patch": "delete"}]}


@pytest.mark.parametrize(
    ("containers", "quality"),
    [
        ([{}], "BestEffort"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1"}}], "Burstable"),
        ([{"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable"),
    ],
)
def test_the_quality_of_service(containers, quality):
    named = [{"name": f"c{number}", "resources": each} for number, each in enumerate(containers)]
    assert qos_class(a_pod(*named)) == quality


def written(state, resizing=None):
    return wanted(state, {}, resizing, "127.0.0.1", NOW, NOW)


def told(status):
    """The Pod after a merge of this status into nothing."""
    kept = strip(status)
    for each in kept["conditions"]:
        each["lastTransitionTime"] = "1970-01-01T00:00:00Z"
    pod = a_pod()
    return view({**pod.object, "status": kept})


def strip(value):
    if isinstance(value, dict):
        return {name: strip(part) for name, part in value.items() if part is not None}
    return [strip(each) for each in value] if isinstance(value, list) else value
