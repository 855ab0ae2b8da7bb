"""What an agent may touch: its own node's things, and nothing else."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from headrace.api.kinds import (
    CONFIG_MAP,
    DEVICE_CLASS,
    EVENT,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    SECRET,
    Kind,
)
from headrace.client.errors import ApiError
from headrace.client.http import MERGE_PATCH, STRATEGIC_PATCH
from headrace.objects.local import Caller
from headrace.store.kubernetes import KubernetesStore
from headrace.store.protocol import Deletion, Forbidden, NotFound
from tests.apiserver.joined import joined
from tests.apiserver.serving import Serving

MINE, THEIRS = "node-a", "node-b"
LABEL = "node-restriction.kubernetes.io/team"
TAINT = {"key": "quarantine", "effect": "NoExecute"}


def pod(name: str, node: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "i", **spec.pop("container", {})}]
    return {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": containers, **spec}}


@pytest.fixture
async def agent(server: Serving) -> AsyncIterator[KubernetesStore]:
    store = server.store
    for node in (MINE, THEIRS):
        await store.create(NODE, {"metadata": {"name": node}})
    for name in ("wanted", "mounted", "unrelated"):
        await store.create(CONFIG_MAP, {"metadata": {"name": name}}, "default")
        await store.create(SECRET, {"metadata": {"name": name}}, "default")
    environment = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "wanted", "key": "k"}}}]
    volumes = [
        {"name": "v", "configMap": {"name": "mounted"}},
        {"name": "w", "projected": {"sources": [{"secret": {"name": "mounted"}}]}},
    ]
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    container = {"env": environment, "envFrom": [{"configMapRef": {"name": "wanted"}}]}
    mine = pod("mine", MINE, container=container, volumes=volumes, resourceClaims=claims)
    await store.create(POD, mine, "default")
    await store.create(POD, pod("theirs", THEIRS), "default")
    async with server.remote(cluster=await joined(server, MINE)) as opened:
        yield opened


@pytest.mark.parametrize(
    ("kind", "name", "namespace"),
    [
        pytest.param(NODE, MINE, "", id="its own Node"),
        pytest.param(POD, "mine", "default", id="a Pod bound to it"),
        pytest.param(CONFIG_MAP, "wanted", "default", id="a ConfigMap in envFrom of its Pod"),
        pytest.param(CONFIG_MAP, "mounted", "default", id="a ConfigMap mounted by its Pod"),
        pytest.param(SECRET, "wanted", "default", id="a Secret in env of its Pod"),
        pytest.param(SECRET, "mounted", "default", id="a Secret projected into its Pod"),
    ],
)
async def test_it_reads(agent: KubernetesStore, kind: Kind, name: str, namespace: str) -> None:
    found = await agent.get(kind, name, namespace)
    assert found["metadata"]["name"] == name


@pytest.mark.parametrize(
    ("kind", "name", "namespace"),
    [
        pytest.param(NODE, THEIRS, "", id="another Node"),
        pytest.param(POD, "theirs", "default", id="a Pod of another node"),
        pytest.param(POD, "ghost", "default", id="a Pod that is not there, without telling so"),
        pytest.param(CONFIG_MAP, "unrelated", "default", id="a ConfigMap that no Pod of it names"),
        pytest.param(SECRET, "unrelated", "default", id="a Secret that no Pod of it names"),
        pytest.param(SECRET, "ghost", "default", id="a Secret that is not there, without telling so"),
        pytest.param(DEVICE_CLASS, "gpu", "", id="a kind that agents do not need"),
        pytest.param(RESOURCE_CLAIM, "other", "default", id="a claim that no Pod of it has"),
        pytest.param(LEASE, THEIRS, "kube-node-lease", id="another node's Lease"),
    ],
)
async def test_it_does_not_read(agent: KubernetesStore, kind: Kind, name: str, namespace: str) -> None:
    with pytest.raises(Forbidden, match='User "system:node:node-a" cannot get'):
        await agent.get(kind, name, namespace)


async def test_it_lists_and_watches_pods_of_its_own_node_only(agent: KubernetesStore) -> None:
    listing = await agent.list(POD, fields=f"spec.nodeName={MINE}")
    assert [item["metadata"]["name"] for item in listing.items] == ["mine"]
    for fields in ("", f"spec.nodeName={THEIRS}", f"spec.nodeName!={MINE}"):
        with pytest.raises(Forbidden):
            await agent.list(POD, fields=fields)
    for trick in (f"metadata.name!=\\,spec.nodeName={MINE}", f"spec.nodeName={MINE}x", f"spec.nodeName={MINE}\\,"):
        with pytest.raises(Forbidden):
            await agent.list(POD, fields=trick)
    for kind in (SECRET, CONFIG_MAP, RESOURCE_CLAIM):
        with pytest.raises(Forbidden):
            await agent.list(kind, "default")


async def test_it_reports_its_pods_by_strategic_merge_and_never_writes_what_is_admitted(
    agent: KubernetesStore,
) -> None:
    report = {"status": {"phase": "Running", "containerStatuses": [{"name": "main", "ready": True}]}}
    written = await agent.patch(POD, "mine", "default", fields=report, subresource="status", strategic=True)
    assert written["status"]["phase"] == "Running"
    with pytest.raises(Forbidden, match="strategic merge patch"):
        await agent.patch(POD, "mine", "default", fields=report, subresource="status")
    grown = {"status": {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "4"}}]}}
    with pytest.raises(Forbidden, match="allocatedResources: what is admitted is not a node's to write"):
        await agent.patch(POD, "mine", "default", fields=grown, subresource="status", strategic=True)
    with pytest.raises(Forbidden):
        await agent.patch(POD, "theirs", "default", fields=report, subresource="status", strategic=True)
    with pytest.raises(Forbidden):
        await agent.patch(POD, "mine", "default", fields={"spec": {"activeDeadlineSeconds": 5}})


async def test_a_watch_of_one_secret_shows_no_other(agent: KubernetesStore) -> None:
    client = agent._client
    query = {"watch": "1", "fieldSelector": "metadata.name=unrelated", "timeoutSeconds": "1"}
    documents = client.documents("/api/v1/namespaces/default/secrets/wanted", query=query)
    assert [document async for document in documents] == []
    query["fieldSelector"] = "metadata.name=wanted"
    async with aclosing(client.documents("/api/v1/namespaces/default/secrets", query=query)) as documents:
        assert (await anext(documents))["object"]["metadata"]["name"] == "wanted"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"status": {"resourceClaimStatuses": []}}, id="which claims a Pod has"),
        pytest.param({"status": {"allocatedResources": {"cpu": "1"}}}, id="what the Pod is admitted"),
        pytest.param({"metadata": {"labels": {"a": "b"}}}, id="labels through the status"),
        pytest.param({"metadata": {"ownerReferences": []}}, id="owners through the status"),
        pytest.param(
            {"status": {"ephemeralContainerStatuses": [{"name": "x", "allocatedResources": {}}]}},
            id="what any container is admitted",
        ),
    ],
)
async def test_it_may_not_write_into_a_pods_status(agent: KubernetesStore, fields: dict[str, Any]) -> None:
    with pytest.raises(Forbidden):
        await agent.patch(POD, "mine", "default", fields=fields, subresource="status", strategic=True)


async def test_its_final_delete_removes_a_pod_and_may_be_repeated(agent: KubernetesStore) -> None:
    now = Deletion(grace_seconds=0)
    await agent.delete(POD, "mine", "default", now)
    with pytest.raises(NotFound):
        await agent.delete(POD, "mine", "default", now)
    with pytest.raises(Forbidden):
        await agent.delete(POD, "theirs", "default", now)
    with pytest.raises(Forbidden):
        await agent.create(POD, pod("made", MINE), "default")


async def test_its_node_is_its_own_but_for_what_could_harm(agent: KubernetesStore) -> None:
    await agent.patch(NODE, MINE, fields={"status": {"capacity": {"cpu": "4"}}}, subresource="status")
    await agent.patch(NODE, MINE, fields={"metadata": {"annotations": {"headrace.dev/strays": "{}"}}})
    owner = [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y"}]
    for fields, why in (
        ({"ownerReferences": owner}, "could delete it"),
        ({"labels": {"node-restriction.kubernetes.io/team": "a"}}, "for administrators only"),
    ):
        with pytest.raises(Forbidden, match=why):
            await agent.patch(NODE, MINE, fields={"metadata": fields})
    with pytest.raises(Forbidden, match="may not change its taints"):
        await agent.patch(NODE, MINE, fields={"spec": {"taints": [TAINT]}})
    with pytest.raises(Forbidden):
        await agent.patch(NODE, THEIRS, fields={"spec": {"unschedulable": True}})
    with pytest.raises(Forbidden):
        await agent.delete(NODE, MINE)


async def test_it_publishes_its_own_devices(agent: KubernetesStore, server: Serving) -> None:
    def devices(node: str) -> dict[str, Any]:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        return {
            "metadata": {"name": f"slice-{node}"},
            "spec": {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": [{"name": "d0"}]},
        }

    await agent.create(RESOURCE_SLICE, devices(MINE))
    with pytest.raises(Forbidden, match="publishes its own devices only"):
        await agent.create(RESOURCE_SLICE, devices(THEIRS))
    await server.store.create(RESOURCE_SLICE, devices(THEIRS))
    with pytest.raises(Forbidden):
        await agent.delete(RESOURCE_SLICE, f"slice-{THEIRS}")
    with pytest.raises(Forbidden):
        await agent.list(RESOURCE_SLICE)
    listing = await agent.list(RESOURCE_SLICE, fields=f"spec.nodeName={MINE}")
    assert len(listing.items) == 1
    await agent.delete(RESOURCE_SLICE, f"slice-{MINE}")


async def test_it_tells_events(agent: KubernetesStore) -> None:
    about = {"kind": "Pod", "name": "mine", "namespace": "default"}
    await agent.create(EVENT, {"metadata": {"name": "e"}, "involvedObject": about, "reason": "Started"}, "default")
    with pytest.raises(Forbidden):
        await agent.list(EVENT, "default")


async def test_it_reads_and_reports_the_claims_of_its_pods(agent: KubernetesStore, server: Serving) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    claim = {"metadata": {"name": "gpu"}, "spec": {"devices": {"requests": [request]}}}
    await server.store.create(RESOURCE_CLAIM, claim, "default")
    status = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "gpu"}]}}
    await server.store.patch(POD, "mine", "default", fields=status, subresource="status")
    assert (await agent.get(RESOURCE_CLAIM, "gpu", "default"))["metadata"]["name"] == "gpu"
    with pytest.raises(Forbidden):
        await agent.patch(RESOURCE_CLAIM, "gpu", "default", fields={"metadata": {"labels": {"a": "b"}}})
    fields = {"status": {"allocation": None}}
    with pytest.raises(Forbidden, match=r"status\.allocation: a node writes only devices here"):
        await agent.patch(RESOURCE_CLAIM, "gpu", "default", fields=fields, subresource="status")


@pytest.mark.parametrize("kind", [pytest.param(SECRET, id="Secrets"), pytest.param(CONFIG_MAP, id="ConfigMaps")])
async def test_what_has_a_name_that_its_pod_uses_stays_hidden_in_other_namespaces(
    agent: KubernetesStore, server: Serving, kind: Kind
) -> None:
    await server.store.create(NAMESPACE, {"metadata": {"name": "other"}})
    await server.store.create(kind, {"metadata": {"name": "wanted"}}, "other")
    assert len((await agent.list(kind, "default", fields="metadata.name=wanted")).items) == 1
    for namespace in ("", "other"):
        with pytest.raises(Forbidden, match=f'cannot list resource "{kind.plural}"'):
            await agent.list(kind, namespace, fields="metadata.name=wanted")


async def test_claims_are_read_in_the_namespace_of_its_pod_only(agent: KubernetesStore, server: Serving) -> None:
    status = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "gpu"}]}}
    await server.store.patch(POD, "mine", "default", fields=status, subresource="status")
    assert (await agent.list(RESOURCE_CLAIM, "default", fields="metadata.name=gpu")).items == []
    with pytest.raises(Forbidden):
        await agent.list(RESOURCE_CLAIM, fields="metadata.name=gpu")


STATUS = "/api/v1/namespaces/default/pods/mine/status"


@pytest.mark.parametrize(
    ("content_type", "document"),
    [
        pytest.param(MERGE_PATCH, {"status": None}, id="no status"),
        pytest.param(MERGE_PATCH, {"status": {"containerStatuses": None}}, id="no container statuses"),
        pytest.param(STRATEGIC_PATCH, {"status": {"containerStatuses": None}}, id="none, strategically"),
        pytest.param(STRATEGIC_PATCH, {"status": {"$patch": "replace", "phase": "Running"}}, id="a status replaced"),
        pytest.param(STRATEGIC_PATCH, {"$patch": "replace", "metadata": {"name": "mine"}}, id="a Pod replaced"),
        pytest.param(
            STRATEGIC_PATCH,
            {"status": {"containerStatuses": [{"name": "main", "$patch": "delete"}]}},
            id="a container's status deleted",
        ),
        pytest.param(
            STRATEGIC_PATCH,
            {"status": {"containerStatuses": [{"$patch": "replace"}, {"name": "main", "ready": True}]}},
            id="container statuses replaced",
        ),
        pytest.param("application/json", {"status": {"phase": "Running"}}, id="a status put without it"),
    ],
)
async def test_what_is_admitted_is_not_taken_away_unnamed(
    agent: KubernetesStore, server: Serving, content_type: str, document: dict[str, Any]
) -> None:
    room = {"status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}}
    await server.store.patch(NODE, MINE, fields=room, subresource="status")
    admitted = {"status": {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "1"}}]}}
    stored = await server.store.patch(POD, "mine", "default", fields=admitted, subresource="status", strategic=True)
    method = "PATCH"
    if content_type == "application/json":
        method, document = "PUT", {**document, "metadata": {"name": "mine"}}
    with pytest.raises(ApiError) as refused:
        await agent._client.request(method, STATUS, body=document, content_type=content_type)
    assert refused.value.code == 403
    assert await server.store.get(POD, "mine", "default") == stored


@pytest.mark.parametrize(
    ("method", "part", "content_type", "document"),
    [
        pytest.param("PATCH", "", MERGE_PATCH, {"spec": None}, id="no spec"),
        pytest.param("PATCH", "", STRATEGIC_PATCH, {"spec": {"$patch": "replace"}}, id="a spec replaced"),
        pytest.param("PATCH", "", MERGE_PATCH, {"metadata": {"labels": None}}, id="no labels"),
        pytest.param("PATCH", "/status", MERGE_PATCH, {"metadata": {"labels": None}}, id="no labels, in the status"),
        pytest.param("PUT", "", "application/json", {"metadata": {"labels": {LABEL: "a"}}}, id="put without taints"),
        pytest.param(
            "PUT", "", "application/json", {"spec": {"taints": [TAINT]}, "metadata": {}}, id="put without labels"
        ),
    ],
)
async def test_its_node_keeps_what_administrators_gave_it(
    agent: KubernetesStore, server: Serving, method: str, part: str, content_type: str, document: dict[str, Any]
) -> None:
    given = {"metadata": {"labels": {LABEL: "a"}}, "spec": {"taints": [TAINT]}}
    stored = await server.store.patch(NODE, MINE, fields=given)
    document = {**document, "metadata": {"name": MINE, **document.get("metadata", {})}}
    with pytest.raises(ApiError) as refused:
        await agent._client.request(method, f"/api/v1/nodes/{MINE}{part}", body=document, content_type=content_type)
    assert refused.value.code == 403
    assert await server.store.get(NODE, MINE) == stored


async def test_it_puts_its_node_as_it_read_it(agent: KubernetesStore, server: Serving) -> None:
    given = {"metadata": {"labels": {LABEL: "a"}}, "spec": {"taints": [TAINT]}}
    await server.store.patch(NODE, MINE, fields=given)
    read = await agent.get(NODE, MINE)
    read["metadata"]["labels"]["zone"] = "b"
    written = await agent._client.request("PUT", f"/api/v1/nodes/{MINE}", body=read)
    assert written["metadata"]["labels"] == {LABEL: "a", "zone": "b"}


async def test_a_pod_of_the_same_name_on_another_node_is_not_the_one_that_was_asked_about(server: Serving) -> None:
    """The right is judged before the body has come, which may take as long as the sender likes."""
    await server.store.create(POD, pod("late", THEIRS), "default")
    store = server.store.acting_as(Caller(user=f"system:node:{MINE}", node=MINE))
    with pytest.raises(Forbidden, match="does not belong to node 'node-a'"):
        await store.patch(POD, "late", "default", fields={"status": {"phase": "Failed"}}, subresource="status")
    with pytest.raises(Forbidden, match="does not belong to node 'node-a'"):
        await store.delete(POD, "late", "default", Deletion(grace_seconds=0))
