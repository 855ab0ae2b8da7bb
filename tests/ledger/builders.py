"""Objects as tests need them: only what the books read, and only states that exist."""

from typing import Any

POD_KEY = ("pods", "default")


def node(name: str = "node-a", *, cpu: str = "4", memory: str = "8Gi", pods: str | None = None, **more: Any) -> dict:
    capacity = {"cpu": cpu, "memory": memory} | ({"pods": pods} if pods else {}) | more.get("extended", {})
    annotations = {f"headrace.dev/{key}": str(value) for key, value in more.get("annotations", {}).items()}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "status": {"capacity": capacity, "allocatable": more.get("allocatable", capacity)},
    }


def container(name: str = "main", *, limits: dict | None = None, **requests: str) -> dict:
    return {"name": name, "resources": {"requests": requests} | ({"limits": limits} if limits else {})}


def pod(
    name: str = "web",
    *containers: dict,
    node: str = "node-a",
    phase: str = "Running",
    statuses: list[dict] | None = None,
    labels: dict | None = None,
    **spec: Any,
) -> dict:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels or {}},
        "spec": {"nodeName": node, "containers": list(containers)} | spec,
        "status": {"phase": phase} | ({"containerStatuses": statuses} if statuses else {}),
    }


def status(name: str = "main", *, allocated: dict | None = None, actual: dict | None = None) -> dict:
    """`actual` are requests as read back."""
    found: dict[str, Any] = {"name": name}
    if allocated is not None:
        found["allocatedResources"] = allocated
    if actual is not None:
        found["resources"] = {"requests": actual}
    return found


def result(device: str, *, pool: str = "node-a", driver: str = "gpu.example.com", **more: Any) -> dict:
    return {"request": "gpu", "driver": driver, "pool": pool, "device": device} | more


def claim(name: str, *results: dict, node: str = "node-a", users: tuple[str, ...] = ()) -> dict:
    """`users` are names of Pods of `pod`."""
    found: dict[str, Any] = {"metadata": {"name": name, "namespace": "default"}, "spec": {}}
    if results:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        selector = {"nodeSelectorTerms": [term]}
        found["status"] = {"allocation": {"devices": {"results": list(results)}, "nodeSelector": selector}}
        if users:
            found["status"]["reservedFor"] = [{"resource": "pods", "name": n, "uid": f"uid-{n}"} for n in users]
    return found


def resource_slice(
    name: str, *devices: dict, pool: str = "node-a", node: str = "node-a", generation: int = 1, **more: Any
) -> dict:
    return {
        "metadata": {"name": name},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": node,
            "pool": {"name": pool, "generation": generation},
            "devices": list(devices),
        }
        | more,
    }


def key_of(obj: dict) -> tuple[str, str, str]:
    """The key an object of these builders is stored under."""
    metadata = obj["metadata"]
    if "containers" in obj.get("spec", {}):
        resource = "pods"
    elif "capacity" in obj.get("status", {}):
        resource = "nodes"
    elif "driver" in obj.get("spec", {}):
        resource = "resourceslices.resource.k8s.io"
    else:
        resource = "resourceclaims.resource.k8s.io"
    return (resource, metadata.get("namespace", ""), metadata["name"])
