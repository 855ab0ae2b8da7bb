"""What kubectl prints of an object: cells under columns, in Kubernetes' words."""

from typing import Any

import pytest

from headrace.api import kinds
from headrace.api.kinds import Kind
from headrace.api.printers import human_duration
from headrace.api.tables import printer
from headrace.api.tables_custom import BadPath, custom_printer, find, parse_path
from headrace.api.tables_workloads import metrics_text
from headrace.api.times import to_time

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-0.5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (599, "9m59s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (10_860, "3h1m"),
        (28_799, "7h59m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (176_400, "2d1h"),
        (691_199, "7d23h"),
        (691_200, "8d"),
        (63_071_999, "729d"),
        (63_072_000, "2y"),
        (63_158_400, "2y1d"),
        (252_288_000, "8y"),
    ],
)
def test_a_span_of_time_has_two_units_at_most(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def pod(**status: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "a"}, {"name": "b"}], **status.pop("spec", {})}
    metadata = {"name": "p", "creationTimestamp": to_time(NOW - 65), **status.pop("metadata", {})}
    return {"metadata": metadata, "spec": spec, "status": status}


def running(name: str, ready: bool = True, **more: Any) -> dict[str, Any]:
    return {"name": name, "ready": ready, "state": {"running": {}}, **more}


def ended(name: str, code: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "state": {"terminated": {"exitCode": code, **more}}}


def waiting(name: str, reason: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "state": {"waiting": {"reason": reason}}, **more}


LAST = {"restartCount": 3, "lastState": {"terminated": {"finishedAt": to_time(NOW - 30)}}}
READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(pod(phase="Pending"), ["0/2", "Pending", "0"], id="nothing has begun"),
        pytest.param(
            pod(phase="Running", containerStatuses=[running("a"), running("b")]), ["2/2", "Running", "0"], id="all run"
        ),
        pytest.param(
            pod(phase="Running", containerStatuses=[running("a", **LAST), running("b", ready=False)]),
            ["1/2", "Running", "3 (30s ago)"],
            id="one has restarted and one is not ready",
        ),
        pytest.param(
            pod(phase="Running", containerStatuses=[running("a"), waiting("b", "CrashLoopBackOff")]),
            ["1/2", "CrashLoopBackOff", "0"],
            id="one waits for its back-off",
        ),
        pytest.param(
            pod(phase="Running", containerStatuses=[waiting("a", "CrashLoopBackOff"), ended("b", 1, reason="Error")]),
            ["0/2", "CrashLoopBackOff", "0"],
            id="of several reasons the first container's is told",
        ),
        pytest.param(
            pod(phase="Running", conditions=READY, containerStatuses=[ended("a", 0, reason="Completed"), running("b")]),
            ["1/2", "Running", "0"],
            id="one is done and the Pod is ready",
        ),
        pytest.param(
            pod(phase="Running", containerStatuses=[ended("a", 0, reason="Completed"), running("b")]),
            ["1/2", "NotReady", "0"],
            id="one is done and the Pod is not ready",
        ),
        pytest.param(
            pod(phase="Failed", containerStatuses=[ended("a", 137, reason="OOMKilled"), ended("b", 0)]),
            ["0/2", "OOMKilled", "0"],
            id="one was out of memory",
        ),
        pytest.param(
            pod(phase="Failed", containerStatuses=[ended("a", 3)]), ["0/2", "ExitCode:3", "0"], id="an exit code"
        ),
        pytest.param(
            pod(phase="Failed", containerStatuses=[ended("a", 0, signal=9)]), ["0/2", "Signal:9", "0"], id="a signal"
        ),
        pytest.param(
            pod(phase="Failed", reason="OutOfcpu", message="m"), ["0/2", "OutOfcpu", "0"], id="the Pod has a reason"
        ),
        pytest.param(
            pod(phase="Pending", spec={"initContainers": [{"name": "i"}]}, initContainerStatuses=[running("i")]),
            ["0/2", "Init:0/1", "0"],
            id="it initializes",
        ),
        pytest.param(
            pod(phase="Pending", spec={"initContainers": [{"name": "i"}]}, initContainerStatuses=[ended("i", 1)]),
            ["0/2", "Init:ExitCode:1", "0"],
            id="initializing failed",
        ),
        pytest.param(
            pod(
                phase="Running",
                spec={"initContainers": [{"name": "s", "restartPolicy": "Always"}]},
                initContainerStatuses=[running("s", started=True)],
                containerStatuses=[running("a"), running("b")],
            ),
            ["3/3", "Running", "0"],
            id="a sidecar counts",
        ),
        pytest.param(
            pod(phase="Pending", conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
            ["0/2", "SchedulingGated", "0"],
            id="it is held back",
        ),
        pytest.param(
            pod(phase="Running", metadata={"deletionTimestamp": to_time(NOW)}, containerStatuses=[running("a")]),
            ["1/2", "Terminating", "0"],
            id="it is going",
        ),
        pytest.param(
            pod(phase="Succeeded", metadata={"deletionTimestamp": to_time(NOW)}),
            ["0/2", "Succeeded", "0"],
            id="it is done and going",
        ),
    ],
)
def test_a_pods_line_sums_up_its_containers(given: dict[str, Any], expected: list[str]) -> None:
    cells = printer(kinds.POD).cells(given, NOW)
    assert cells[1:4] == expected
    assert cells[4] == "65s"


def test_a_pod_that_ended_is_marked_so_that_lists_may_leave_it_out() -> None:
    conditions = printer(kinds.POD).conditions
    assert [entry["reason"] for entry in conditions(pod(phase="Succeeded"))] == ["Succeeded"]
    assert conditions(pod(phase="Running")) == []


DEVICE_TAINT_RULE = Kind("resource.k8s.io", "v1", "DeviceTaintRule", "devicetaintrules", namespaced=False)
BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
EVENTS_EVENT = Kind("events.k8s.io", "v1", "Event", "events")
AT = {"name": "x", "creationTimestamp": to_time(NOW - 90)}
TEMPLATE = {
    "selector": {"matchLabels": {"b": "2", "a": "1"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]},
    "template": {"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]}},
}


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        pytest.param(kinds.NAMESPACE, {"status": {"phase": "Active"}}, ["x", "Active", "90s"], id="a namespace"),
        pytest.param(
            kinds.NODE,
            {
                "metadata": {**AT, "labels": {"node-role.kubernetes.io/edge": "", "kubernetes.io/role": "a"}},
                "spec": {"unschedulable": True},
                "status": {
                    "conditions": [{"type": "Ready", "status": "False"}],
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                    "nodeInfo": {"kubeletVersion": "v1", "kernelVersion": "6.1", "architecture": "arm64"},
                },
            },
            [
                "x",
                "NotReady,SchedulingDisabled",
                "a,edge",
                "90s",
                "v1",
                "10.0.0.1",
                "<none>",
                "<unknown>",
                "6.1 (arm64)",
                "<unknown>",
            ],
            id="a node",
        ),
        pytest.param(kinds.NODE, {}, ["x", "Unknown", "<none>", "90s", ""], id="a node that has not reported"),
        pytest.param(
            kinds.CONFIG_MAP, {"data": {"a": ""}, "binaryData": {"b": ""}}, ["x", 2, "90s"], id="a config map"
        ),
        pytest.param(kinds.SECRET, {"type": "Opaque", "data": {"a": ""}}, ["x", "Opaque", 1, "90s"], id="a secret"),
        pytest.param(kinds.SERVICE_ACCOUNT, {}, ["x", "90s"], id="a service account"),
        pytest.param(
            kinds.SERVICE,
            {
                "spec": {
                    "type": "NodePort",
                    "clusterIPs": ["10.1.1.1"],
                    "selector": {"a": "b"},
                    "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
                }
            },
            ["x", "NodePort", "10.1.1.1", "<none>", "80:30080/TCP,53/UDP", "90s", "a=b"],
            id="a service",
        ),
        pytest.param(
            kinds.ENDPOINTS,
            {"subsets": [{"addresses": [{"ip": f"10.0.0.{n}"} for n in range(5)], "ports": [{"port": 80}]}]},
            ["x", "10.0.0.0:80,10.0.0.1:80,10.0.0.2:80 + 2 more...", "90s"],
            id="endpoints beyond three",
        ),
        pytest.param(
            kinds.DEPLOYMENT,
            {"spec": {"replicas": 3, **TEMPLATE}, "status": {"readyReplicas": 1, "updatedReplicas": 2}},
            ["x", "1/3", 2, 0, "90s", "c,d", "i,j", "a=1,b=2,c"],
            id="a deployment",
        ),
        pytest.param(
            kinds.REPLICA_SET,
            {"spec": {"replicas": 3, **TEMPLATE}, "status": {"replicas": 2, "readyReplicas": 1}},
            ["x", 3, 2, 1, "90s", "c,d", "i,j", "a=1,b=2,c"],
            id="a replica set",
        ),
        pytest.param(
            kinds.HORIZONTAL_POD_AUTOSCALER,
            {
                "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "minReplicas": 0, "maxReplicas": 9},
                "status": {"currentReplicas": 2},
            },
            ["x", "Deployment/d", "<none>", "0", 9, 2, "90s"],
            id="an autoscaler",
        ),
        pytest.param(
            BUDGET, {"spec": {"minAvailable": "50%"}}, ["x", "50%", "N/A", 0, "90s"], id="a disruption budget"
        ),
        pytest.param(kinds.LEASE, {"spec": {"holderIdentity": "me"}}, ["x", "me", "90s"], id="a lease"),
        pytest.param(
            kinds.PRIORITY_CLASS,
            {"value": 7, "preemptionPolicy": "Never"},
            ["x", 7, False, "90s", "Never"],
            id="a priority class",
        ),
        pytest.param(
            kinds.PERSISTENT_VOLUME_CLAIM,
            {
                "spec": {"volumeName": "v", "storageClassName": "fast", "volumeMode": "Block"},
                "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
            },
            ["x", "Bound", "v", "1Gi", "RWO", "fast", "<unset>", "90s", "Block"],
            id="a volume claim",
        ),
        pytest.param(kinds.DEVICE_CLASS, {}, ["x", "90s"], id="a device class"),
        pytest.param(kinds.RESOURCE_CLAIM, {}, ["x", "pending", "90s"], id="a claim that waits"),
        pytest.param(
            kinds.RESOURCE_CLAIM,
            {"status": {"allocation": {}, "reservedFor": [{}]}},
            ["x", "allocated,reserved", "90s"],
            id="a claim in use",
        ),
        pytest.param(
            kinds.RESOURCE_CLAIM,
            {"metadata": {**AT, "deletionTimestamp": to_time(NOW)}, "status": {"allocation": {}}},
            ["x", "deleted,allocated", "90s"],
            id="a claim that is going",
        ),
        pytest.param(
            kinds.RESOURCE_SLICE,
            {"spec": {"nodeName": "n", "driver": "d", "pool": {"name": "p"}}},
            ["x", "n", "d", "p", "90s"],
            id="a slice",
        ),
        pytest.param(
            DEVICE_TAINT_RULE,
            {"spec": {"taint": {"key": "k", "effect": "NoExecute", "timeAdded": to_time(NOW - 10)}}},
            ["x", "k", "", "NoExecute", "10s", "90s"],
            id="a taint rule",
        ),
        pytest.param(
            BINDING,
            {
                "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [
                    {"kind": "User", "name": "u"},
                    {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
                    {"kind": "User", "name": "v"},
                ],
            },
            ["x", "Role/r", "90s", "u, v", "", "n/s"],
            id="a role binding",
        ),
        pytest.param(
            kinds.EVENT,
            {
                "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
                "type": "Normal",
                "reason": "Started",
                "message": " began \n",
                "source": {"component": "agent", "host": "n"},
                "firstTimestamp": to_time(NOW - 50),
                "lastTimestamp": to_time(NOW - 5),
                "count": 4,
            },
            ["5s", "Normal", "Started", "pod/p", "spec", "agent, n", "began", "50s", 4, "x"],
            id="an event",
        ),
        pytest.param(
            EVENTS_EVENT,
            {
                "regarding": {"kind": "Pod"},
                "type": "Warning",
                "reason": "R",
                "note": "n",
                "reportingController": "c",
                "eventTime": to_time(NOW - 50),
            },
            ["50s", "Warning", "R", "pod", "", "c", "n", "50s", 1, "x"],
            id="an event of the newer group",
        ),
        pytest.param(
            kinds.CUSTOM_RESOURCE_DEFINITION,
            {
                "spec": {
                    "group": "example.com",
                    "scope": "Namespaced",
                    "names": {"kind": "Widget", "shortNames": ["wd", "wg"]},
                    "versions": [
                        {"name": "v2", "served": True, "storage": True},
                        {"name": "v1", "served": True},
                        {"name": "v0", "served": False},
                    ],
                },
                "status": {"conditions": [{"type": "Established", "status": "True"}]},
            },
            [
                *("x", "Namespaced", "v1,v2(storage)", to_time(NOW - 90)),
                *("example.com", "Widget", "wd,wg", True),
            ],
            id="a definition with the versions that are served",
        ),
        pytest.param(
            Kind("example.com", "v1", "Plain", "plains"), {}, ["x", to_time(NOW - 90)], id="a kind without own columns"
        ),
    ],
)
def test_cells_are_what_users_know(kind: Kind, given: dict[str, Any], expected: list[Any]) -> None:
    found = printer(kind)
    cells = found.cells({"metadata": AT, **given}, NOW)
    assert cells[: len(expected)] == expected
    assert len(cells) == len(found.columns)


@pytest.mark.parametrize(
    ("spec", "status", "text"),
    [
        pytest.param(
            {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}},
            {"type": "Resource", "resource": {"current": {"averageUtilization": 45}}},
            "cpu: 45%/80%",
            id="a utilization",
        ),
        pytest.param(
            {"type": "Resource", "resource": {"name": "memory", "target": {"averageValue": "1Gi"}}},
            None,
            "memory: <unknown>/1Gi",
            id="a value that is not measured yet",
        ),
        pytest.param(
            {"type": "External", "external": {"target": {"averageValue": "30"}}},
            {"external": {"current": {"averageValue": "20"}}},
            "20/30 (avg)",
            id="an external average",
        ),
        pytest.param(
            {"type": "Object", "object": {"target": {"value": "10k"}}},
            {"object": {"current": {"value": "5k"}}},
            "5k/10k",
            id="a value of an object",
        ),
        pytest.param(
            {"type": "Pods", "pods": {"target": {"averageValue": "100m"}}}, None, "<unknown>/100m", id="of Pods"
        ),
    ],
)
def test_an_autoscalers_targets_are_told(spec: dict[str, Any], status: dict[str, Any] | None, text: str) -> None:
    assert metrics_text([spec], [status]) == text
    assert metrics_text([spec] * 4, [status]).endswith(" + 2 more...")


OBJECT = {
    "metadata": {"name": "x", "creationTimestamp": to_time(NOW - 60), "labels": {"a.b/c": "dotted"}},
    "spec": {"size": 3, "on": True, "list": [{"n": 1}, {"n": 2}], "map": {"k": "v"}},
    "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.size", [3]),
        ("{.spec.size}", [3]),
        ("spec.size", [3]),
        (".spec.absent.deeper", []),
        (".spec.list[0].n", [1]),
        (".spec.list[-1].n", [2]),
        (".spec.list[7].n", []),
        (".spec.list[*].n", [1, 2]),
        (".spec.map.*", ["v"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type == 'Ready')].status", ["True"]),
        (".metadata.labels['a.b/c']", ["dotted"]),
        (r".metadata.labels.a\.b/c", ["dotted"]),
    ],
)
def test_a_path_of_a_custom_column_is_followed(path: str, expected: list[Any]) -> None:
    assert find(OBJECT, path) == expected


@pytest.mark.parametrize("path", [".spec[?(@.a>1)]", ".spec..size", ".spec[", ".spec.size)"])
def test_a_path_outside_the_subset_is_said_to_be_so(path: str) -> None:
    with pytest.raises(BadPath, match="cannot read"):
        parse_path(path)


def test_custom_columns_show_values_of_their_type() -> None:
    columns = [
        ("Size", "integer", ".spec.size", 0),
        ("On", "boolean", ".spec.on", 0),
        ("Age", "date", ".metadata.creationTimestamp", 0),
        ("List", "string", ".spec.list[*].n", 1),
        ("Map", "string", ".spec.map", 1),
        ("Wrong", "integer", ".spec.map", 0),
        ("Absent", "string", ".spec.absent", 0),
        ("Bad", "string", ".spec[", 0),
    ]
    found = custom_printer(columns)
    assert found.cells(OBJECT, NOW) == ["x", 3, True, "60s", "1,2", '{"k":"v"}', None, None, "<invalid>"]
    assert [column.priority for column in found.columns] == [0, 0, 0, 0, 1, 1, 0, 0, 0]
    assert custom_printer([]).cells(OBJECT, NOW) == ["x", "60s"]
