"""What a kubelet tells, as the decisions of resizing read it: the states of KEP-1287 as kubelet 1.37 tells them."""

import pytest

from headrace.api.kinds import POD
from headrace.api.objects import key_of
from headrace.api.times import to_time
from headrace.resize.actions_plan import Seen, plan, refused
from headrace.resize.cluster_pods import as_decided, left_alone
from headrace.resize.controller import ledger_of
from headrace.resize.workload import admitted_limits, judge
from headrace.runtime.actions import Patch
from tests.resize.test_actions_plan import NOW, action, states

MI = 1024**2
RUNNING = {"running": {"startedAt": "2027-01-15T08:00:00Z"}}
NO_ROOM = "Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000"
STATIC = 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
IN_USE = (
    'cannot decrease memory limits: attempting to set container "app" memory limit (67108864) below current usage '
    "(100000000)"
)


def amounts(cpu, memory):
    return {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}


def condition(type, reason="", message="", generation=2):
    found = {"type": type, "status": "True", "observedGeneration": generation}
    return found | ({"reason": reason, "message": message} if reason else {})


def pod(
    wants=(1000, 256),
    allocated=(1000, 256),
    actual=(1000, 256),
    *conditions,
    name="web",
    request_cpu=None,
    generation=2,
    seen=2,
    state=None,
    labels=None,
    **spec,
):
    """cpu in millicores and memory in MiB of limits; `allocated` are the requests that the kubelet holds."""
    limits = amounts(*wants)
    requests = limits | ({"cpu": f"{request_cpu}m"} if request_cpu else {})
    told = {"name": "app", "state": state or RUNNING, "allocatedResources": amounts(*allocated)}
    had = amounts(*actual)
    told["resources"] = {"limits": had, "requests": had | ({"cpu": f"{request_cpu}m"} if request_cpu else {})}
    container = {"name": "app", "resources": {"limits": limits, "requests": requests}}
    status = {"phase": "Running", "containerStatuses": [told], "conditions": list(conditions)}
    if seen:
        status["observedGeneration"] = seen
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "7", "generation": generation}
    metadata["labels"] = labels or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": "node-a", "containers": [container], **spec},
        "status": status,
    }


def node(cpu=4000, memory=4096, ready="True"):
    size = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": "110"}
    conditions = [{"type": "Ready", "status": ready}]
    return {"metadata": {"name": "node-a"}, "status": {"capacity": size, "allocatable": size, "conditions": conditions}}


@pytest.mark.parametrize(
    ("found", "sync", "reason", "admitted_cpu"),
    [
        (pod(), "SYNCHRONIZED", "", 1000),
        (pod((2000, 256), generation=3), "PENDING", "", 1000),
        (
            pod((2000, 256), (1000, 256), (1000, 256), condition("PodResizePending", "Deferred", NO_ROOM)),
            "PENDING",
            "Deferred",
            1000,
        ),
        (
            pod((2000, 256), (1000, 256), (1000, 256), condition("PodResizePending", "Infeasible", STATIC)),
            "PENDING",
            "Infeasible",
            1000,
        ),
        (
            pod(
                (3000, 256), (1000, 256), (1000, 256), condition("PodResizePending", "Deferred", NO_ROOM), generation=3
            ),
            "PENDING",
            "",
            1000,
        ),
        (
            pod((2000, 256), (2000, 256), (1000, 256), condition("PodResizeInProgress")),
            "APPLYING",
            "",
            2000,
        ),
        (
            pod((1000, 64), (1000, 64), (1000, 256), condition("PodResizeInProgress", "Error", IN_USE)),
            "FAILED",
            "MemoryInUse",
            1000,
        ),
        (
            pod((2000, 256), (2000, 256), (1000, 256), condition("PodResizeInProgress", "Error", "runtime said no")),
            "FAILED",
            "RuntimeUpdateFailure",
            2000,
        ),
        (pod((2000, 256), (1000, 256), (1000, 256), seen=None), "PENDING", "", 1000),
        (pod((2000, 256), (500, 256), (1000, 256), request_cpu=500, generation=3), "PENDING", "", 1000),
        (pod((2000, 256), (500, 256), (2000, 256), request_cpu=500), "SYNCHRONIZED", "", 2000),
        (pod((2000, 256), (2000, 256), (1000, 256), state={"waiting": {}}), "PENDING", "NotRunning", 2000),
    ],
    ids=[
        "what was desired is in force",
        "the kubelet has not seen the new generation",
        "deferred",
        "infeasible",
        "a condition about an older generation says nothing about this one",
        "admitted and on its way",
        "memory in use is above the smaller limit",
        "the runtime refuses",
        "a kubelet that tells no generation, and holds other requests",
        "a limit alone, which the kubelet has not seen",
        "a limit alone, in force",
        "a container that is being started again",
    ],
)
def test_a_kubelet_s_pod_is_judged(found, sync, reason, admitted_cpu):
    seen = as_decided(found)
    judged = judge(seen, "app", node())
    assert (judged.sync, judged.reason) == (sync, reason)
    assert admitted_limits(seen, "app")["cpu"] == admitted_cpu


def test_a_pod_that_no_container_of_runs_yet_is_as_its_spec():
    found = pod()
    del found["status"]["containerStatuses"]
    assert admitted_limits(as_decided(found), "app") == {"cpu": 1000, "memory": 256 * MI}


def test_a_kubelet_charges_requests_whatever_the_limits_and_labels_are():
    found = pod((2000, 256), (500, 256), (2000, 256), request_cpu=500, labels={"headrace.dev/managed": "true"})
    ledger = ledger_of(node(), [as_decided(found)])
    assert ledger.room("cpu") == 3500


def test_a_deferred_wish_is_charged_to_nobody():
    waits = condition("PodResizePending", "Deferred", NO_ROOM)
    ledger = ledger_of(node(), [as_decided(pod((3500, 256), (1000, 256), (1000, 256), waits))])
    assert ledger.room("cpu") == 3000


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (pod(), ""),
        ({**pod(), "metadata": {"name": "web", "namespace": "kube-system"}}, "kube-system"),
        ({**pod(), "metadata": {"name": "web", "annotations": {"kubernetes.io/config.mirror": "x"}}}, "static"),
        (pod(os={"name": "windows"}), "Windows"),
        (pod(os={"name": "linux"}), ""),
        (pod(resources={"requests": {"cpu": "1"}}), "resources of their own"),
    ],
    ids=["an ordinary one", "of the system", "static", "Windows", "Linux", "with resources of the Pod"],
)
def test_pods_that_are_left_alone(found, why):
    assert why in left_alone(found)
    assert bool(why) == bool(left_alone(found))


def look(pods, actions, cpu=4000, unfit=None, most=None):
    seen = {key_of(each): as_decided(each) for each in pods}
    here = node(cpu)
    bound = most if most is not None else {"cpu": cpu, "memory": 4096 * MI}
    return Seen(here, ledger_of(here, seen.values()), seen, tuple(actions), bound, unfit or {})


def desires(found):
    return [
        each.fields["spec"]["containers"][0]["resources"]
        for each in found
        if isinstance(each, Patch) and each.kind == POD and each.subresource == "resize"
    ]


def told(found):
    statuses = [each.fields["status"] for each in found if isinstance(each, Patch) and "status" in each.fields]
    return [(each["state"], each["reason"]) for each in statuses]


def test_a_guaranteed_pod_is_asked_for_in_requests_and_limits_together():
    [resources] = desires(plan(look([pod()], [action("a", cpu="2")]), NOW))
    assert resources["limits"] == resources["requests"] == {"cpu": "2", "memory": "256Mi"}


def test_a_burstable_pod_keeps_its_smaller_request():
    found = pod((1000, 256), (500, 256), (1000, 256), request_cpu=500)
    [resources] = desires(plan(look([found], [action("a", cpu="2")]), NOW))
    assert (resources["limits"]["cpu"], resources["requests"]["cpu"]) == ("2", "500m")


def test_what_would_make_a_pod_guaranteed_is_never_sent():
    found = pod((1000, 256), (500, 256), (1000, 256), request_cpu=500)
    actions = plan(look([found], [action("a", cpu="500m")]), NOW)
    assert desires(actions) == []
    assert told(actions) == [("Failed", "ResourceValidationFailed")]


@pytest.mark.parametrize(
    ("how", "state", "wants"),
    [("Reject", ("Failed", "InsufficientCPU"), []), ("Clamp", ("Running", "Started"), ["4"])],
)
def test_no_limit_grows_beyond_the_node_even_where_only_requests_are_charged(how, state, wants):
    found = pod((3000, 256), (500, 256), (3000, 256), request_cpu=500)
    actions = plan(look([found], [action("a", cpu="6", onInsufficient=how)]), NOW)
    assert told(actions) == [state]
    assert [each["limits"]["cpu"] for each in desires(actions)] == wants


def test_a_limit_that_is_beyond_the_node_already_may_shrink():
    found = pod((6000, 256), (500, 256), (6000, 256), request_cpu=500)
    assert told(plan(look([found], [action("a", cpu="5")]), NOW)) == [("Running", "Started")]


@pytest.mark.parametrize(
    ("message", "reason", "how", "state", "restored"),
    [
        (NO_ROOM, "Deferred", "Reject", ("Failed", "InsufficientCPU"), ["1"]),
        (NO_ROOM, "Deferred", "Defer", ("Running", "Deferred"), []),
        (NO_ROOM.replace("cpu", "memory"), "Deferred", "Reject", ("Failed", "InsufficientMemory"), ["1"]),
        (STATIC, "Infeasible", "Reject", ("Failed", "Infeasible"), ["1"]),
        (STATIC, "Infeasible", "Defer", ("Failed", "Infeasible"), ["1"]),
    ],
    ids=[
        "no room now ends it where that is rejected",
        "and waits where that is deferred",
        "memory is named",
        "what the kubelet never gives ends it",
        "also where a shortage would be waited for",
    ],
)
def test_what_a_kubelet_answers_ends_an_action_or_keeps_it(message, reason, how, state, restored):
    found = pod((2000, 256), (1000, 256), (1000, 256), condition("PodResizePending", reason, message))
    actions = plan(
        look([found], [action("a", cpu="2", onInsufficient=how, current={"cpu": "1"}, state="Running")]), NOW
    )
    assert told(actions) == [state]
    assert [each["limits"]["cpu"] for each in desires(actions)] == restored


def test_memory_in_use_is_tried_again_for_a_while_and_then_put_back():
    problem = condition("PodResizeInProgress", "Error", IN_USE)
    found = pod((1000, 64), (1000, 64), (1000, 256), problem)
    waits = action("a", state="Running", current={"memory": "256Mi"}, retry={"count": 1, "seconds": 5})
    waits["spec"]["target"] = {"memory": "64Mi"}
    actions = plan(look([found], [waits]), NOW)
    assert told(actions) == [("Running", "MemoryInUse")]
    waits["status"]["failingSince"] = "2027-01-16T08:00:00Z"  # by a clock that was set back by a day since
    actions = plan(look([found], [waits]), NOW)
    assert told(actions) == [("Running", "MemoryInUse")]
    assert actions[0].fields["status"]["failingSince"] == to_time(NOW)
    waits["status"]["failingSince"] = "2027-01-15T07:59:50Z"
    actions = plan(look([found], [waits]), NOW)
    assert told(actions) == [("Failed", "MemoryInUse")]
    assert [each["limits"]["memory"] for each in desires(actions)] == ["256Mi"]


def test_another_s_desire_supersedes_and_is_not_fought():
    found = pod((1500, 256), (1500, 256), (1500, 256))
    actions = plan(look([found], [action("a", cpu="2", state="Running", current={"cpu": "1"})]), NOW)
    assert told(actions) == [("Failed", "Superseded")]
    assert desires(actions) == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            "node didn't have enough allocatable resources: memory, requested: 1073741824000, allocatable: 25275461632",
            "InsufficientMemory",
        ),
        ('pods "web" is forbidden: exceeded quota: small, requested: limits.cpu=1', "ResourceValidationFailed"),
        (
            'Pod "web" is invalid: spec: Pod QOS Class may not change as a result of resizing',
            "ResourceValidationFailed",
        ),
    ],
    ids=["more than the node has", "a quota", "the QoS class"],
)
def test_what_the_api_server_refuses_ends_the_action_in_its_words(words, reason):
    seen = look([pod()], [action("a"), action("b", "other/app")])
    [patch] = [each for each in plan(seen, NOW) if isinstance(each, Patch) and each.kind == POD]
    found = refused(seen, patch, words, NOW)
    assert states(found) == {"a": "Failed"}
    assert told(found) == [("Failed", reason)]
    [status] = [each.fields["status"] for each in found if isinstance(each, Patch)]
    assert words in status["message"]


def test_an_action_that_is_not_to_be_carried_out_fails_and_stands_in_nobody_s_way():
    actions = [action("bad", cpu="much", priority=9), action("good", "other/app")]
    found = plan(look([pod(), pod(name="other")], actions, unfit={"bad": "spec.target.cpu: Invalid value"}), NOW)
    assert states(found) == {"bad": "Failed", "good": "Running"}


def test_a_node_s_shortage_and_a_bound_are_one_answer():
    found = [pod(), pod((2500, 256), (2500, 256), (2500, 256), name="other")]
    actions = plan(look(found, [action("a", cpu="6", onInsufficient="Clamp")]), NOW)
    assert [each["limits"]["cpu"] for each in desires(actions)] == ["1500m"]
