"""Pods: what the server fills in, what may change, binding, resize, eviction."""

from typing import Any

import pytest

from headrace.api import kinds
from headrace.api.kinds import Kind
from headrace.store.protocol import Conflict, Invalid, NotFound, Store, StoreError
from tests.store.contract.samples import node, pod

BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")


async def test_a_pod_is_filled_in_as_kubernetes_does(store: Store, namespace: str) -> None:
    given = pod("a")
    given["spec"]["containers"][0] = {
        "name": "main",
        "image": "app",
        "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}},
    }
    given["spec"]["volumes"] = [{"name": "scratch"}, {"name": "config", "configMap": {"name": "c"}}]
    made = await store.create(kinds.POD, given, namespace)
    spec = made["spec"]
    assert spec["containers"][0] == {
        "name": "main",
        "image": "app",
        "imagePullPolicy": "Always",
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    assert spec["volumes"] == [
        {"name": "scratch", "emptyDir": {}},
        {"name": "config", "configMap": {"name": "c", "defaultMode": 420}},
    ]
    expected = {
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
    }
    assert {name: spec[name] for name in expected} == expected
    assert {each["key"]: each["tolerationSeconds"] for each in spec["tolerations"]} == {
        "node.kubernetes.io/not-ready": 300,
        "node.kubernetes.io/unreachable": 300,
    }
    assert made["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}


async def test_the_image_may_change_and_the_command_may_not(store: Store, namespace: str) -> None:
    await store.create(kinds.POD, pod("a"), namespace)
    newer = {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}
    changed = await store.patch(kinds.POD, "a", namespace, fields=newer, strategic=True)
    assert changed["spec"]["containers"][0]["image"] == "app:2"
    other = {"spec": {"containers": [{"name": "main", "command": ["sh"]}]}}
    with pytest.raises(Invalid, match=r"pod updates may not change fields other than `spec\.containers"):
        await store.patch(kinds.POD, "a", namespace, fields=other, strategic=True)
    more = {"spec": {"containers": [{"name": "second", "image": "app:1"}]}}
    with pytest.raises(Invalid, match="pod updates may not add or remove containers"):
        await store.patch(kinds.POD, "a", namespace, fields=more, strategic=True)


def binding(name: str) -> dict[str, Any]:
    return {"target": {"apiVersion": "v1", "kind": "Node", "name": name}}


async def test_a_pod_is_bound_once(store: Store, namespace: str) -> None:
    await node(store, f"{namespace}-node")
    await store.create(kinds.POD, pod("a"), namespace)
    await store.create_subresource(kinds.POD, "a", namespace, "binding", binding(f"{namespace}-node"))
    bound = await store.get(kinds.POD, "a", namespace)
    assert bound["spec"]["nodeName"] == f"{namespace}-node"
    scheduled = [each for each in bound["status"]["conditions"] if each["type"] == "PodScheduled"]
    assert [each["status"] for each in scheduled] == ["True"]
    words = rf'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "{namespace}-node"'
    with pytest.raises(Conflict, match=words):
        await store.create_subresource(kinds.POD, "a", namespace, "binding", binding(f"{namespace}-node"))


async def test_a_pod_with_gates_is_not_bound(store: Store, namespace: str) -> None:
    await store.create(kinds.POD, pod("a", schedulingGates=[{"name": "example.com/wait"}]), namespace)
    with pytest.raises(Conflict, match=r"has non-empty \.spec\.schedulingGates"):
        await store.create_subresource(kinds.POD, "a", namespace, "binding", binding("any"))


def resources(cpu: str, **limits: str) -> dict[str, Any]:
    wanted = {"requests": {"cpu": cpu}, **({"limits": limits} if limits else {})}
    return {"spec": {"containers": [{"name": "main", "resources": wanted}]}}


async def test_resources_change_by_resize_alone(store: Store, namespace: str) -> None:
    await store.create(kinds.POD, pod("a"), namespace)
    with pytest.raises(Invalid, match="pod updates may not change fields other than"):
        await store.patch(kinds.POD, "a", namespace, fields=resources("200m"), strategic=True)
    resized = await store.patch(
        kinds.POD, "a", namespace, fields=resources("200m"), strategic=True, subresource="resize"
    )
    assert resized["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "200m"}
    assert resized["metadata"]["generation"] == 2


async def test_a_resize_keeps_the_class_of_a_pod(store: Store, namespace: str) -> None:
    await store.create(kinds.POD, pod("a"), namespace)
    guaranteed = {
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "resources": {
                        "requests": {"cpu": "200m", "memory": "1Gi"},
                        "limits": {"cpu": "200m", "memory": "1Gi"},
                    },
                }
            ]
        }
    }
    with pytest.raises(Invalid, match="Pod QOS Class may not change as a result of resizing"):
        await store.patch(kinds.POD, "a", namespace, fields=guaranteed, strategic=True, subresource="resize")


async def test_a_resize_changes_cpu_and_memory_alone(store: Store, namespace: str) -> None:
    await store.create(kinds.POD, pod("a"), namespace)
    fields = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"ephemeral-storage": "1Gi"}}}]}}
    with pytest.raises(Invalid, match="only cpu and memory resources are mutable"):
        await store.patch(kinds.POD, "a", namespace, fields=fields, strategic=True, subresource="resize")


async def budget(store: Store, namespace: str, allowed: int) -> None:
    made = await store.create(
        BUDGET,
        {
            "metadata": {"name": "keep"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        },
        namespace,
    )
    status = {
        "observedGeneration": made["metadata"].get("generation", 0),
        "disruptionsAllowed": allowed,
        "currentHealthy": 1 + allowed,
        "desiredHealthy": 1,
        "expectedPods": 1 + allowed,
    }
    await store.patch(BUDGET, "keep", namespace, fields={"status": status}, subresource="status")


async def running(store: Store, namespace: str, name: str) -> None:
    given = pod(name, nodeName=f"{namespace}-node")
    given["metadata"]["labels"] = {"app": "web"}
    await store.create(kinds.POD, given, namespace)
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await store.patch(kinds.POD, name, namespace, fields={"status": ready}, subresource="status")


async def test_an_eviction_deletes_within_the_budget(store: Store, namespace: str) -> None:
    await node(store, f"{namespace}-node")
    await running(store, namespace, "a")
    await budget(store, namespace, allowed=1)
    await store.create_subresource(kinds.POD, "a", namespace, "eviction", {"metadata": {"name": "a"}})
    assert (await store.get(kinds.POD, "a", namespace))["metadata"]["deletionTimestamp"]
    assert (await store.get(BUDGET, "keep", namespace))["status"]["disruptionsAllowed"] == 0


async def test_an_eviction_beyond_the_budget_is_refused(store: Store, namespace: str) -> None:
    await node(store, f"{namespace}-node")
    await running(store, namespace, "a")
    await budget(store, namespace, allowed=0)
    with pytest.raises(StoreError, match="Cannot evict pod as it would violate the pod's disruption budget") as refused:
        await store.create_subresource(kinds.POD, "a", namespace, "eviction", {"metadata": {"name": "a"}})
    assert refused.value.code == 429
    assert "deletionTimestamp" not in (await store.get(kinds.POD, "a", namespace))["metadata"]


async def test_a_pod_that_waits_is_evicted_without_asking_the_budget(store: Store, namespace: str) -> None:
    given = pod("a")
    given["metadata"]["labels"] = {"app": "web"}
    await store.create(kinds.POD, given, namespace)
    await budget(store, namespace, allowed=0)
    await store.create_subresource(kinds.POD, "a", namespace, "eviction", {"metadata": {"name": "a"}})
    with pytest.raises(NotFound):
        await store.get(kinds.POD, "a", namespace)
