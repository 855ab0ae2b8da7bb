"""What kubectl shows: tables, other outputs, selectors, sorting, watches, descriptions, explanations."""

import asyncio
import json
from pathlib import Path

from headrace.api.kinds import CONFIG_MAP, EVENT, LEASE, NODE, POD
from tests.apiserver.serving import Serving
from tests.e2e.kubectl.conftest import Kubectl
from tests.e2e.kubectl.manifests import OTHER, SETTINGS, SHOP, SIDE, WEB


def words(text: str) -> list[list[str]]:
    """A table's lines as words, without the age, which depends on when it was asked for."""
    return [
        [word for word in line.split() if not word.endswith("s") or not word[:-1].isdigit()]
        for line in text.splitlines()
    ]


async def test_tables_have_the_columns_that_users_know(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", kubectl.file("all.yaml", "---".join([SETTINGS, OTHER, WEB, SHOP])))
    assert words(await kubectl("get", "cm")) == [["NAME", "DATA", "AGE"], ["other", "2"], ["settings", "1"]]
    assert words(await kubectl("get", "pods")) == [
        ["NAME", "READY", "STATUS", "RESTARTS", "AGE"],
        ["web", "0/1", "Pending", "0"],
    ]
    assert words(await kubectl("get", "pod", "web", "-o", "wide"))[1][-4:] == ["<none>"] * 4
    assert words(await kubectl("get", "deploy", "-o", "wide")) == [
        ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"],
        ["shop", "0/2", "0", "0", "till", "till:1", "app=shop"],
    ]
    assert [row[0] for row in words(await kubectl("get", "ns"))] == [
        "NAME", "default", "kube-node-lease", "kube-public", "kube-system",
    ]  # fmt: skip
    across = words(await kubectl("get", "cm", "-A"))
    assert across[0][0] == "NAMESPACE"
    assert ["default", "settings", "1"] in across
    both = await kubectl("get", "cm,pods")
    assert "configmap/settings" in both
    assert "pod/web" in both


async def test_every_other_output_is_there(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", kubectl.file("all.yaml", "---".join([SETTINGS, OTHER])))
    assert (await kubectl("get", "cm", "-o", "name")).split() == ["configmap/other", "configmap/settings"]
    assert await kubectl("get", "cm", "settings", "-o", "jsonpath={.data.color}") == "blue"
    found = json.loads(await kubectl("get", "cm", "settings", "-o", "json"))
    assert (found["kind"], found["apiVersion"], found["data"]) == ("ConfigMap", "v1", {"color": "blue"})
    listed = json.loads(await kubectl("get", "cm", "-o", "json"))
    assert [item["metadata"]["name"] for item in listed["items"]] == ["other", "settings"]
    assert "color: blue" in await kubectl("get", "cm", "settings", "-o", "yaml")
    columns = await kubectl("get", "cm", "-o", "custom-columns=N:.metadata.name,C:.data.color")
    assert words(columns) == [["N", "C"], ["other", "<none>"], ["settings", "blue"]]


async def test_selectors_choose_and_sorting_orders(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", kubectl.file("all.yaml", "---".join([SETTINGS, OTHER, WEB, SIDE])))
    assert (await kubectl("get", "cm", "-l", "app in (web, x),tier", "-o", "name")).split() == ["configmap/settings"]
    assert (await kubectl("get", "cm", "-l", "app!=web", "-o", "name")).split() == ["configmap/other"]
    named = await kubectl("get", "cm", "--field-selector", "metadata.name=other", "-o", "name")
    assert named.split() == ["configmap/other"]
    pods = await kubectl("get", "pods", "--field-selector", "status.phase=Pending,metadata.name!=web", "-o", "name")
    assert pods.split() == ["pod/side"]
    ordered = words(await kubectl("get", "cm", "--sort-by", ".metadata.creationTimestamp"))
    assert {row[0] for row in ordered[1:]} == {"other", "settings"}
    backwards = words(await kubectl("get", "pods", "--sort-by", "{.metadata.labels.app}"))
    assert [row[0] for row in backwards[1:]] == ["side", "web"]
    assert "No resources found" in (await kubectl.run("get", "cm", "-l", "app=none")).err
    assert "unable to parse requirement" in await kubectl("get", "cm", "-l", "app=(", code=1)


async def test_what_is_absent_is_said_in_kubernetes_words(kubectl: Kubectl) -> None:
    assert await kubectl("get", "cm", "ghost", code=1) == (
        'Error from server (NotFound): configmaps "ghost" not found\n'
    )
    assert 'the server doesn\'t have a resource type "ghosts"' in await kubectl("get", "ghosts", code=1)
    missing = await kubectl("create", "-n", "nowhere", "-f", kubectl.file("cm.yaml", SETTINGS), code=1)
    assert missing.rstrip().endswith('namespaces "nowhere" not found')


async def test_a_watch_shows_what_happens(kubectl: Kubectl, server: Serving) -> None:
    await kubectl("create", "-f", kubectl.file("all.yaml", SETTINGS))
    process = await kubectl.start("get", "cm", "-w", "--no-headers")
    assert process.stdout is not None
    async with asyncio.timeout(15):
        assert (await process.stdout.readline()).split()[:2] == [b"settings", b"1"]
        fields = {"data": {"size": "big"}}
        await server.store.patch(CONFIG_MAP, "settings", "default", fields=fields)
        assert (await process.stdout.readline()).split()[:2] == [b"settings", b"2"]
        await server.store.create(CONFIG_MAP, {"metadata": {"name": "new"}}, "default")
        assert (await process.stdout.readline()).split()[:2] == [b"new", b"0"]


async def test_describe_tells_a_pod_with_its_events(kubectl: Kubectl, server: Serving) -> None:
    await kubectl("create", "-f", kubectl.file("all.yaml", "---".join([WEB, SETTINGS, SHOP])))
    pod = await server.store.get(POD, "web", "default")
    about = {"kind": "Pod", "name": "web", "namespace": "default", "uid": pod["metadata"]["uid"], "apiVersion": "v1"}
    event = {
        "metadata": {"name": "web.1"},
        "involvedObject": about,
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": "0/1 nodes are available",
        "count": 1,
        "firstTimestamp": pod["metadata"]["creationTimestamp"],
        "lastTimestamp": pod["metadata"]["creationTimestamp"],
        "source": {"component": "scheduler"},
    }
    await server.store.create(EVENT, event, "default")
    told = await kubectl("describe", "pod", "web")
    assert "Image:      nginx:1" in told
    assert "FailedScheduling" in told
    assert "QoS Class:" in told
    assert "color:\n----\nblue" in await kubectl("describe", "cm", "settings")
    assert "Replicas:               2 desired" in await kubectl("describe", "deploy", "shop")
    assert words(await kubectl("get", "events"))[1][:3] == ["Warning", "FailedScheduling", "pod/web"]
    assert "0/1 nodes are available" in await kubectl("events", "--for", "pod/web")


async def test_explain_knows_every_field(kubectl: Kubectl) -> None:
    told = await kubectl("explain", "pod.spec.containers.resources")
    assert "FIELD: resources <ResourceRequirements>" in told
    assert "limits" in told
    assert "GROUP:      resource.k8s.io" in await kubectl("explain", "resourceclaims.spec.devices.requests")
    assert "replicas" in await kubectl("explain", "deploy.spec", "--recursive")
    assert 'field "ghost" does not exist' in await kubectl("explain", "pod.ghost", code=1)


async def test_discovery_lists_what_is_served(kubectl: Kubectl, server: Serving) -> None:
    resources = words(await kubectl("api-resources", "--no-headers"))
    kinds = {(row[-3], row[-1]) for row in resources}
    assert {
        ("v1", "Pod"),
        ("apps/v1", "Deployment"),
        ("resource.k8s.io/v1", "ResourceClaim"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    } <= kinds
    assert "autoscaling/v2" in (await kubectl("api-versions")).split()
    assert "Server Version: v1.37" in await kubectl("version")
    assert f"is running at {server.running.url}" in (await kubectl("cluster-info")).replace("\x1b[0m", "").replace(
        "\x1b[0;33m", ""
    ).replace("\x1b[0;32m", "")
    assert (await kubectl("get", "--raw", "/readyz")) == "ok"
    assert json.loads(await kubectl("get", "--raw", "/version"))["major"] == "1"


async def test_the_schemas_are_read_once_and_not_the_older_document(kubectl: Kubectl, home: Path) -> None:
    told = await kubectl.run("create", "-f", kubectl.file("cm.yaml", SETTINGS), "-v=6")
    assert "/openapi/v3/api/v1?hash=" in told.err
    assert "/openapi/v2" not in told.err


async def test_a_node_is_described_with_its_lease_and_its_pods(kubectl: Kubectl, server: Serving) -> None:
    store = server.store
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    await store.create(NODE, {"metadata": {"name": "node-a"}})
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
    await store.patch(NODE, "node-a", fields={"status": status}, subresource="status")
    lease = {"metadata": {"name": "node-a"}, "spec": {"holderIdentity": "node-a", "leaseDurationSeconds": 40}}
    await store.create(LEASE, lease, "kube-node-lease")
    await kubectl("create", "-f", "-", stdin=WEB.replace("spec:", "spec:\n  nodeName: node-a", 1))
    told = await kubectl("describe", "node", "node-a")
    assert "HolderIdentity:  node-a" in told
    assert "web" in told.partition("Non-terminated Pods:")[2]
    assert "cpu                100m (2%)" in told
    assert words(await kubectl("get", "nodes"))[1][:3] == ["node-a", "Ready", "<none>"]
    assert await kubectl("cordon", "node-a") == "node/node-a cordoned\n"
    assert "Ready,SchedulingDisabled" in await kubectl("get", "nodes")
    assert await kubectl("taint", "node", "node-a", "a=b:NoSchedule") == "node/node-a tainted\n"
