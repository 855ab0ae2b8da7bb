"""Policies on a real Kubernetes: kube-apiserver, scheduler, controllers and kubelet 1.37 decide, headrace asks."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.api.amounts import read
from tests.kubernetes.metrics_api import metrics_api
from tests.resize.cluster.world import (
    MI,
    World,
    controllers,
    deployment,
    namespace,
    pod,
    policy,
    rights,
    world,
)

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(os.geteuid() != 0, reason="a kubelet runs as root only"),
]


VPA = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: verticalpodautoscalers.autoscaling.k8s.io
  annotations: {api-approved.kubernetes.io: unapproved}
spec:
  group: autoscaling.k8s.io
  scope: Namespaced
  names: {plural: verticalpodautoscalers, singular: verticalpodautoscaler, kind: VerticalPodAutoscaler}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


@pytest.fixture(scope="module")
def here(kubernetes_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world"), kubernetes_programs) as found:
        kubeconfig = rights(found)
        found.kubectl("create", "-f", "-", stdin=VPA)  # as clusters have it that run one
        found.kubectl("wait", "crd", "verticalpodautoscalers.autoscaling.k8s.io", "--for=condition=Established")
        with metrics_api(found.plane) as found.usages, controllers(found, kubeconfig):
            yield found


def room(here: World) -> int:
    """Millicores that the node has for Pods."""
    return read(here.get("node", "node-a")["status"]["allocatable"])["cpu"]


def test_a_pod_above_its_threshold_is_resized_by_the_kubelet(here: World) -> None:
    here.create("default", namespace("grown"))
    sidecar = {"name": "proxy", "image": "app:1", "restartPolicy": "Always"}
    sidecar["resources"] = {"limits": {"cpu": "50m", "memory": "16Mi"}, "requests": {"cpu": "50m", "memory": "16Mi"}}
    here.create(
        "grown",
        pod("web", "100m", "64Mi", "32Mi", more=(sidecar,)),
        pod("other", "100m", "64Mi", "32Mi", labels={"app": "other"}),
        policy(),
    )
    here.runs("grown", "web", "other")
    for name in ("web", "other"):
        here.uses(f"grown/{name}/app", 0.095, 10)
    here.until("grown", lambda: here.actions("grown", "Succeeded"))
    [action] = here.actions("grown")
    assert action["status"]["actual"] == {"cpu": "200m", "memory": "64Mi"}
    found = here.get("-n", "grown", "pod", "web")
    [container] = found["spec"]["containers"]
    assert container["resources"] == {
        "limits": {"cpu": "200m", "memory": "64Mi"},
        "requests": {"cpu": "200m", "memory": "32Mi"},
    }
    assert found["status"]["containerStatuses"][0]["resources"] == container["resources"]
    assert found["status"]["qosClass"] == "Burstable"
    assert found["status"]["containerStatuses"][0]["restartCount"] == 0
    assert found["spec"]["initContainers"][0]["resources"] == sidecar["resources"]
    asked = [
        each["details"]["resources"] for each in here.kubelet.asked() if each["call"] == "UpdateContainerResources"
    ]
    assert any(each.get("cpu_quota") == 20_000 for each in asked)
    # What no policy selects was never written, and nothing was marked.
    other = here.get("-n", "grown", "pod", "other")
    assert (other["metadata"]["generation"], other["metadata"]["labels"]) == (1, {"app": "other"})
    assert found["metadata"]["labels"] == {"app": "web"}
    here.until(
        "events of the Pod and of the action",
        lambda: (
            {"PerformanceDegraded", "ScalingSucceeded", "ResizeCompleted"}
            <= {each["reason"] for each in here.get("-n", "grown", "events")["items"]}
        ),
    )


def test_a_container_that_wants_to_be_started_again_is(here: World) -> None:
    here.create("default", namespace("restarted"))
    wanted = pod("web", "100m", "64Mi", "32Mi")
    wanted["spec"]["containers"][0]["resizePolicy"] = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    here.create("restarted", wanted, policy())
    here.runs("restarted", "web")
    here.uses("restarted/web/app", 0.01, 60)
    here.until("grown", lambda: here.actions("restarted", "Succeeded"))
    [status] = here.get("-n", "restarted", "pod", "web")["status"]["containerStatuses"]
    assert (status["restartCount"], status["resources"]["limits"]["memory"]) == (1, "128Mi")


def test_a_guaranteed_pod_grows_in_requests_and_limits_together(here: World) -> None:
    here.create("default", namespace("guaranteed"))
    here.create("guaranteed", pod("web", "100m", "64Mi"), policy())
    here.runs("guaranteed", "web")
    here.uses("guaranteed/web/app", 0.01, 60)
    here.until("grown", lambda: here.actions("guaranteed", "Succeeded"))
    found = here.get("-n", "guaranteed", "pod", "web")
    same = {"cpu": "100m", "memory": "128Mi"}
    assert found["status"]["containerStatuses"][0]["resources"] == {"limits": same, "requests": same}
    assert found["status"]["qosClass"] == "Guaranteed"


def test_what_the_kubelet_calls_infeasible_fails_and_the_old_desire_is_put_back(here: World) -> None:
    here.create("default", namespace("infeasible"))
    here.create("infeasible", pod("web", "100m", "64Mi"), policy(cooldownSeconds={"up": 3600}))
    here.runs("infeasible", "web")
    here.uses("infeasible/web/app", 0.099, 10)
    here.until("failed", lambda: here.actions("infeasible", "Failed"))
    [action] = here.actions("infeasible")
    assert action["status"]["reason"] == "Infeasible"
    assert "CPU Manager policy" in action["status"]["message"]
    found = here.until("put back", lambda: _quiet(here, "infeasible"))
    assert read(found["spec"]["containers"][0]["resources"]["limits"]) == {"cpu": 100, "memory": 64 * MI}
    here.until("told", lambda: here.condition("infeasible", "ScalingFailed")[0] == "True")


def _quiet(here: World, within: str) -> dict:
    """The Pod, once the kubelet says no more of a resize."""
    found = here.get("-n", within, "pod", "web")
    told = [each for each in found["status"]["conditions"] if each["type"].startswith("PodResize")]
    same = found["status"].get("observedGeneration") == found["metadata"]["generation"]
    return found if same and not told else {}


@pytest.mark.parametrize("how", ["Reject", "Clamp"])
def test_more_than_the_node_has_is_rejected_or_clamped(here: World, how: str) -> None:
    within = f"more-{how.lower()}"
    here.create("default", namespace(within))
    size = f"{room(here) * 6 // 10}m"
    here.create(within, pod("web", size, "64Mi", "32Mi"), policy(onInsufficient=how, cooldownSeconds={"up": 3600}))
    here.runs(within, "web")
    here.uses(f"{within}/web/app", room(here) * 6 / 10 / 1000, 10)
    state = "Failed" if how == "Reject" else "Succeeded"
    here.until(state, lambda: here.actions(within, state))
    action, *more = here.actions(within)
    assert not more
    wants, has = here.limits(within, "web")
    if how == "Reject":
        assert action["status"]["reason"] == "InsufficientCPU"
        assert wants["cpu"] == has["cpu"] == read({"cpu": size})["cpu"]
    else:
        assert read({"cpu": size})["cpu"] < wants["cpu"] == has["cpu"] <= room(here)
    here.kubectl("delete", "namespace", within, "--wait=true", "--timeout=60s")


def test_a_deferred_growth_waits_blocks_no_smaller_one_and_is_granted_when_room_appears(here: World) -> None:
    here.create("default", namespace("deferred"))
    used = sum(_request(each) for each in here.get("pods", "-A")["items"])
    filler = room(here) - used - 450
    here.create(
        "deferred",
        pod("filler", f"{filler}m", "16Mi", "8Mi", labels={"app": "filler"}),
        pod("web", "300m", "64Mi", "32Mi", labels={"app": "web", "size": "big"}),
        pod("small", "100m", "64Mi", "32Mi", labels={"app": "small"}),
    )
    here.runs("deferred", "filler", "web", "small")
    here.create("deferred", policy(onInsufficient="Defer"))
    here.uses("deferred/web/app", 0.29, 10)
    waits = here.until("deferred", lambda: [each for each in here.actions("deferred", "Pending") if each["status"]])
    assert (waits[0]["status"]["reason"], waits[0]["status"]["syncState"]) == ("Deferred", "PENDING")
    assert "insufficient cpu" in waits[0]["status"]["message"]
    assert here.limits("deferred", "web")[0]["cpu"] == 300, "what is not admitted is not desired either"
    small = policy(selector={"matchLabels": {"app": "small"}}, max={"cpu": "140m"})
    small["metadata"] = {"name": "small"}
    here.create("deferred", small)
    here.uses("deferred/small/app", 0.095, 10)
    here.until("the smaller one", lambda: here.limits("deferred", "small")[1]["cpu"] == 140)
    assert here.actions("deferred", "Pending")
    here.kubectl("-n", "deferred", "delete", "pod", "filler", "--timeout=60s")
    here.until("granted", lambda: here.limits("deferred", "web")[1]["cpu"] == 600)
    here.until("all done", lambda: not here.actions("deferred", "Pending"))
    here.kubectl("delete", "namespace", "deferred", "--wait=true", "--timeout=60s")


def test_what_the_kubelet_itself_defers_is_put_back_or_waited_for(here: World) -> None:
    here.create("default", namespace("waiting"))
    used = sum(_request(each) for each in here.get("pods", "-A")["items"])
    filler = pod("filler", f"{room(here) - used - 400}m", "16Mi", "8Mi", labels={"app": "filler"})
    here.create("waiting", filler, pod("web", "200m", "64Mi", "32Mi"))
    here.runs("waiting", "filler", "web")
    for how in ("Reject", "Defer"):
        # A hand desires it before the action does, so that it is the kubelet that is asked.
        resources = {"limits": {"cpu": "700m"}, "requests": {"cpu": "700m"}}
        patch = {"spec": {"containers": [{"name": "app", "resources": resources}]}}
        here.kubectl("-n", "waiting", "patch", "pod", "web", "--subresource=resize", "-p", json.dumps(patch))
        here.until("deferred by the kubelet", lambda: "Deferred" in _reasons(here.get("-n", "waiting", "pod", "web")))
        spec = {"workload": "web/app", "target": {"cpu": "700m"}, "current": {"cpu": "200m"}, "onInsufficient": how}
        action = {"apiVersion": "headrace.dev/v1alpha1", "kind": "ResourceScalingAction", "spec": spec}
        here.create("waiting", {**action, "metadata": {"name": how.lower()}})
        name = ("-n", "waiting", "resourcescalingaction", how.lower())
        status = here.until("told", lambda name=name: _deferred(here.get(*name)))
        assert "Node didn't have enough resource: cpu" in status["message"]
        if how == "Reject":
            assert (status["state"], status["reason"]) == ("Failed", "InsufficientCPU")
            here.until("put back", lambda: _quiet(here, "waiting"))
            assert here.limits("waiting", "web")[0]["cpu"] == 200
        else:
            assert (status["state"], status["syncState"]) == ("Running", "PENDING")
    here.kubectl("-n", "waiting", "delete", "pod", "filler", "--timeout=60s")
    here.until("granted", lambda: here.limits("waiting", "web")[1]["cpu"] == 700)
    here.until("done", lambda: here.actions("waiting", "Succeeded"))
    here.kubectl("delete", "namespace", "waiting", "--wait=true", "--timeout=60s")


def _reasons(found: dict) -> set[str]:
    return {each.get("reason", "") for each in found["status"]["conditions"]}


def _deferred(action: dict) -> dict:
    status = action.get("status") or {}
    return status if status.get("reason") in ("Deferred", "InsufficientCPU") else {}


def _request(found: dict) -> int:
    containers = found["spec"]["containers"] + [
        each for each in found["spec"].get("initContainers") or () if each.get("restartPolicy") == "Always"
    ]
    return sum(read(each["resources"].get("requests")).get("cpu", 0) for each in containers)


def test_an_hpa_on_cpu_has_the_cpu_and_memory_is_still_handled(here: World) -> None:
    here.create("default", namespace("hpa"))
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": target,
            "minReplicas": 1,
            "maxReplicas": 1,
            "metrics": [{"type": "ContainerResource", "containerResource": {**metric, "container": "app"}}],
        },
    }
    here.create("hpa", scaler, deployment("100m", "64Mi", "32Mi"), policy())
    name = here.until("a Pod", lambda: here.get("-n", "hpa", "pods", "-l", "app=web")["items"])[0]["metadata"]["name"]
    here.runs("hpa", name)
    here.uses(f"hpa/{name}/app", 0.099, 60)
    here.until("memory", lambda: here.limits("hpa", name)[1] == {"cpu": 100, "memory": 128 * MI})
    here.until("told", lambda: here.condition("hpa", "ConflictsWithHPA") == ("True", f"hpa/{name}/app"))
    assert here.limits("hpa", name)[0]["cpu"] == 100
    here.kubectl("-n", "hpa", "delete", "hpa", "web")
    here.until("not any more", lambda: here.condition("hpa", "ConflictsWithHPA")[0] == "False")
    here.until("cpu too", lambda: here.limits("hpa", name)[1]["cpu"] == 200)

    # A Pod that replaces it is given what this one had, once it runs.
    here.uses(f"hpa/{name}/app", 0.05, 30)
    here.until("kept", lambda: _kept(here) == {"cpu": "200m", "memory": "128Mi"})
    here.kubectl("-n", "hpa", "delete", "pod", name, "--timeout=60s")
    again = here.until("another", lambda: here.get("-n", "hpa", "pods", "-l", "app=web")["items"])[0]
    here.runs("hpa", again["metadata"]["name"])
    here.until(
        "as before", lambda: here.limits("hpa", again["metadata"]["name"])[1] == {"cpu": 200, "memory": 128 * MI}
    )


def _kept(here: World) -> dict:
    return here.get("-n", "hpa", "resizepolicy", "policy")["status"]["targets"]["Deployment/web/app"].get("target")


def test_a_vpa_on_memory_has_the_memory(here: World) -> None:
    here.create("default", namespace("vpa"))
    vpa = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "resourcePolicy": {"containerPolicies": [{"containerName": "*", "controlledResources": ["memory"]}]},
        },
    }
    here.create("vpa", vpa, deployment("100m", "64Mi", "32Mi"), policy())
    name = here.until("a Pod", lambda: here.get("-n", "vpa", "pods", "-l", "app=web")["items"])[0]["metadata"]["name"]
    here.runs("vpa", name)
    here.uses(f"vpa/{name}/app", 0.099, 60)
    here.until("cpu", lambda: here.limits("vpa", name)[1] == {"cpu": 200, "memory": 64 * MI})
    here.until("told", lambda: here.condition("vpa", "ConflictsWithVPA") == ("True", f"vpa/{name}/app"))
    here.kubectl("delete", "namespace", "vpa", "--wait=true", "--timeout=60s")


def headrace(here: World, *arguments: str) -> tuple[int, str]:
    """Its command, as the cluster's administrator."""
    done = subprocess.run(
        [sys.executable, "-m", "headrace.cli", *arguments, "--kubeconfig", str(here.plane.kubeconfig)],
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    return done.returncode, done.stdout + done.stderr


def test_people_resize_by_hand_and_see_what_is_so(here: World) -> None:
    here.create("default", namespace("people"))
    here.create("people", pod("web", "100m", "64Mi", "32Mi"))
    here.runs("people", "web")
    here.uses("people/web/app", 0.05, 16)
    code, said = headrace(here, "resize", "workload", "people/web/app", "--cpu", "150m")
    assert (code, said) == (0, "people/web/app resized: cpu 150m, memory 64Mi read back\n")
    code, said = headrace(here, "resize", "workload", "people/web/app", "--cpu", "1000")
    assert code == 1
    assert "insufficient cpu" in said
    code, said = headrace(here, "resize", "history", "people/web/app")
    assert [line.split()[2:6] for line in said.splitlines()[1:]] == [
        ["cpu", "100m", "cpu", "150m"],
        ["cpu", "150m", "cpu", "1000"],
    ]
    code, said = headrace(here, "top", "--once", "-n", "people")
    assert said.splitlines()[1].split()[:6] == ["people/web/app", "node-a", "50m", "33%", "150m", "16Mi"]
    assert "SYNCHRONIZED" in said


def test_a_quota_s_refusal_is_told_in_its_own_words(here: World) -> None:
    here.create("default", namespace("quota"))
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}}
    here.create("quota", {**quota, "spec": {"hard": {"limits.cpu": "150m"}}})
    here.until("counted", lambda: here.get("-n", "quota", "resourcequota", "small")["status"].get("used"))
    here.create("quota", pod("web", "100m", "64Mi", "32Mi"), policy(cooldownSeconds={"up": 3600}))
    here.runs("quota", "web")
    here.uses("quota/web/app", 0.099, 10)
    here.until("failed", lambda: here.actions("quota", "Failed"))
    [action] = here.actions("quota")
    assert action["status"]["reason"] == "ResourceValidationFailed"
    assert "exceeded quota: small" in action["status"]["message"]
    assert here.limits("quota", "web")[0]["cpu"] == 100


def test_a_hand_s_edit_is_told_and_not_fought(here: World) -> None:
    here.create("default", namespace("hand"))
    here.create("hand", pod("web", "100m", "64Mi", "32Mi"), policy())
    here.runs("hand", "web")
    here.uses("hand/web/app", 0.095, 10)
    here.until("grown", lambda: here.limits("hand", "web")[1]["cpu"] == 200)
    here.uses("hand/web/app", 0.05, 10)
    here.until("done", lambda: here.actions("hand", "Succeeded"))
    wanted = {"requests": {"cpu": "150m"}, "limits": {"cpu": "150m"}}
    patch = {"spec": {"containers": [{"name": "app", "resources": wanted}]}}
    here.kubectl("-n", "hand", "patch", "pod", "web", "--subresource=resize", "-p", json.dumps(patch))
    here.until("told", lambda: here.condition("hand", "ChangedByOthers")[0] == "True")
    assert here.limits("hand", "web")[0]["cpu"] == 150
    assert len(here.actions("hand")) == 1


def test_numbers_of_five_minutes_ago_cause_nothing(here: World) -> None:
    here.create("default", namespace("stale"))
    here.usages.lag_seconds = 300.0
    here.create("stale", pod("web", "100m", "64Mi", "32Mi"), policy())
    here.runs("stale", "web")
    here.uses("stale/web/app", 0.095, 10)
    before = here.usages.asked
    here.until("asked again and again", lambda: here.usages.asked > before + 40)
    assert here.actions("stale") == []
    here.usages.lag_seconds = 0.0
    here.until("grown", lambda: here.limits("stale", "web")[1]["cpu"] == 200)


def test_a_policy_that_cannot_be_followed_says_which_field_is_wrong(here: World) -> None:
    here.create("default", namespace("misspelt"))
    with pytest.raises(AssertionError, match=r"spec\.min\.cpu"):  # refused by the rules that its definition brings
        here.create("misspelt", policy(min={"cpu": "much"}))
    here.create("misspelt", policy(selector={"matchLabels": {"-app": "web"}}))
    here.until("told", lambda: "spec.selector.matchLabels" in here.condition("misspelt", "Active")[1])
    assert here.condition("misspelt", "Active")[0] == "False"


def test_pods_of_kube_system_are_left_alone(here: World) -> None:
    here.create("kube-system", pod("web", "100m", "64Mi", "32Mi"), policy())
    here.runs("kube-system", "web")
    here.uses("kube-system/web/app", 0.099, 60)
    here.until("looked at", lambda: here.condition("kube-system", "Active")[1] == "no Pod is selected")
    before = here.usages.asked
    here.until("asked again", lambda: here.usages.asked > before + 5)
    assert here.actions("kube-system") == []
