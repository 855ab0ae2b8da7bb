"""Builders of Pods that can exist: a record is complete, an actual belongs to a container that was started."""

from headrace.ledger.node import Ledger
from headrace.resize.controller import ledger_of

MEBIBYTE = 1024 * 1024


def resources(cpu, memory, limit_cpu=None, limit_memory=None):
    limits = {"cpu": f"{limit_cpu or cpu}m", "memory": f"{limit_memory or memory}Mi"}
    return {"requests": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}, "limits": limits}


def record(cpu, memory):
    amounts = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    return amounts | {f"limits.{name}": amount for name, amount in amounts.items()}


def pod(
    name="web",
    desired=(1000, 256),
    admitted=None,
    actual=None,
    *,
    managed=True,
    priority=0,
    qos="Guaranteed",
    conditions=(),
    restart_policy="Always",
    state=None,
    generation=2,
    seen=0,
):
    """cpu in millicores, memory in MiB. `admitted=None`: no record; `actual=None`: the node has told nothing yet.

    `seen`: the generation that the node says it has seen.
    """
    status = {"phase": "Running", "qosClass": qos}
    if seen:
        status["observedGeneration"] = seen
    told = {"name": "app"}
    if admitted is not None:
        told["allocatedResources"] = record(*admitted)
    if actual is not None:
        told["resources"] = resources(*actual)
    if state is not None:
        told["state"] = state
    if len(told) > 1:
        status["containerStatuses"] = [told]
    if conditions:
        status["conditions"] = list(conditions)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "generation": generation,
            "labels": {"headrace.dev/managed": "true"} if managed else {},
        },
        "spec": {
            "nodeName": "node-a",
            "priority": priority,
            "restartPolicy": restart_policy,
            "containers": [{"name": "app", "image": "app", "resources": resources(*desired)}],
        },
        "status": status,
    }


def node(cpu=4000, memory=4096, annotations=None):
    amounts = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": "110"}
    meta = {"name": "node-a", "resourceVersion": "3", "annotations": annotations or {}}
    return {"metadata": meta, "status": {"capacity": amounts, "allocatable": amounts}}


def ledger(*pods, cpu=4000, memory=4096) -> Ledger:
    return ledger_of(node(cpu, memory), pods)


def pending(reason="Deferred", message="not now", since="2027-01-15T07:00:00Z", generation=2):
    return {
        "type": "PodResizePending",
        "status": "True",
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": since,
    }
