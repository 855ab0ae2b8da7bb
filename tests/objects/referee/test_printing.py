"""What `kubectl get` prints of each kind: the columns and cells of both servers, side by side."""

import copy
from typing import Any

import pytest

from headrace.api import kinds
from headrace.api.kinds import Kind
from headrace.client.http import Client
from headrace.client.paths import collection_path, object_path
from tests.objects.referee.samples import NAMESPACE, SAMPLES, Servers, kind_of, named

pytestmark = pytest.mark.cluster

AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
# Cells that tell of the moment or of what only a cluster network gives out.
OF_THE_MOMENT = {"Age", "Last Seen", "First Seen", "Created At"}
DELIBERATE = {("Service", "Cluster-IP"): "no addresses are given out"}

STATUSES: dict[str, dict[str, Any]] = {
    "Deployment": {"replicas": 3, "readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1},
    "ReplicaSet": {"replicas": 2, "readyReplicas": 1},
    "PodDisruptionBudget": {"disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 2},
    "HorizontalPodAutoscaler": {
        "currentReplicas": 2,
        "desiredReplicas": 3,
        "currentMetrics": [
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 50}}},
            {"type": "Pods", "pods": {"metric": {"name": "rps"}, "current": {"averageValue": "500m"}}},
        ],
    },
    "Pod": {
        "phase": "Running",
        "podIP": "10.0.0.9",
        "podIPs": [{"ip": "10.0.0.9"}],
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [
            {
                "name": "main",
                "image": "app:1",
                "imageID": "",
                "ready": False,
                "restartCount": 2,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            }
        ],
    },
}


async def table(client: Client, kind: Kind, name: str) -> dict[str, Any]:
    path = object_path(kind, NAMESPACE if kind.namespaced else "", name)
    answer: dict[str, Any] = await client.request("GET", path, accept=AS_TABLE)
    return answer


def shown(answer: dict[str, Any], kind: str) -> tuple[list[Any], dict[str, Any]]:
    """The columns as kubectl lays them out, and the cells under their names."""
    columns = [
        tuple(each[part] for part in ("name", "type", "format", "priority")) for each in answer["columnDefinitions"]
    ]
    cells = dict(zip([each[0] for each in columns], answer["rows"][0]["cells"], strict=True))
    for name in cells.keys() & OF_THE_MOMENT:
        cells[name] = bool(cells[name])
    return columns, {name: cell for name, cell in cells.items() if (kind, name) not in DELIBERATE}


async def differences(servers: Servers, stage: str) -> list[str]:
    found = []
    for sample in SAMPLES:
        kind, name = kind_of(sample), named(copy.deepcopy(sample))["metadata"]["name"]
        ours, theirs = [shown(await table(each, kind, name), kind.kind) for each in (servers.ours, servers.theirs)]
        if ours != theirs:
            found.append(f"{kind.kind} {name} ({stage}):\n  ours    {ours}\n  theirs  {theirs}")
    return found


async def test_each_kind_is_printed_alike(servers: Servers) -> None:
    for sample in SAMPLES:
        kind, obj = kind_of(sample), named(copy.deepcopy(sample))
        for client in (servers.ours, servers.theirs):
            await client.request("POST", collection_path(kind, NAMESPACE if kind.namespaced else ""), body=obj)
    found = await differences(servers, "new")
    for sample in SAMPLES:
        kind, name = kind_of(sample), named(copy.deepcopy(sample))["metadata"]["name"]
        if kind.kind in STATUSES:
            for client in (servers.ours, servers.theirs):
                path = object_path(kind, NAMESPACE if kind.namespaced else "", name, "status")
                body = {"status": STATUSES[kind.kind]}
                await client.request("PATCH", path, body=body, content_type="application/merge-patch+json")
    found += await differences(servers, "with a status")
    assert not found, "\n".join(found)


def test_the_kinds_with_a_status_are_among_the_samples() -> None:
    assert STATUSES.keys() <= {kind_of(each).kind for each in SAMPLES}
    assert kinds.POD.kind in STATUSES
