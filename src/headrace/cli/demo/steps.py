"""The demo's steps, in order. Each shows what a person would type and checks what must be so afterwards."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.cli.demo.enforced import Enforced, cpu_share, enforced, process_of
from headrace.cli.demo.stage import Stage, StepFailed

SERVER = ("up", "--detach", "--runtime", "process", "--node-name", "node-a", "--port", "0", "--agents-port", "0")
SHARE = ("--simulated-devices", "--cpus", "1", "--memory", "1Gi", "--system-reserved", "cpu=100m,memory=128Mi")
MANIFESTS = Path(__file__).parent / "manifests"
MEBIBYTE = 1024 * 1024
SLICE = "node-a-gpu.example.com-x7k2p"


def start(stage: Stage) -> None:
    stage.say("One command brings an API server on SQLite, the controllers and an agent for this machine.")
    stage.headrace(*SERVER, *SHARE, shown=(*SERVER[:6], *SHARE))
    stage.wait_for("node node-a is Ready", lambda: _ready(stage))
    stage.wait_for("the driver's devices are published", lambda: _exists(stage, "resourceslice", SLICE))
    stage.kube("get", "nodes,resourceslices", instead=("get", "nodes"))
    node = stage.object("node", "node-a")
    told = json.loads(node["metadata"]["annotations"]["headrace.dev/enforcement"])
    if told["cpu"] == "enforced":
        stage.check("limits are enforced by cgroups", told["memory"] == "enforced")
    else:
        stage.check(f"limits are approximate here: {told['detail']}", told["cpu"] == "approximate")


def declare(stage: Stage) -> None:
    stage.say("What the simulated driver published is exactly this manifest, so applying it changes nothing:")
    before = stage.object("resourceslice", SLICE)["spec"]
    stage.apply(MANIFESTS / "resource-slice.yaml")
    stage.check("the slice is as it was", stage.object("resourceslice", SLICE)["spec"] == before)
    stage.say("A class of devices, a claim for a GPU with 64Gi, and a Pod that gets a GPU of its own from a template:")
    for name in ("device-class.yaml", "resource-claim.yaml", "trainer.yaml"):
        stage.apply(MANIFESTS / name)


def image_only(stage: Stage) -> None:
    stage.say("The Pod is scheduled with its device. It only names an image, which plain processes do not have:")
    stage.wait_for("Pod trainer says why it waits", lambda: _waiting(stage, "trainer"))
    told = stage.headrace("explain", "pod", "trainer")
    stage.check("it has its device and says what is missing", "gpu-0" in told and "command" in told)


def run(stage: Stage) -> None:
    stage.say("Its twin has a command. It runs, with the environment of its device:")
    stage.apply(MANIFESTS / "trainer-with-command.yaml")
    stage.wait_for("Pod trainer-2 runs", lambda: _running(stage, "trainer-2"))
    logs = stage.wait_for("it has printed its environment", lambda: _logs(stage, "trainer-2"))
    stage.kube("logs", "trainer-2", instead=("logs", "trainer-2"))
    stage.check("the container sees its GPU", "GPU_DEVICE_1=gpu-1" in logs)
    stage.headrace("capacity")


def under_load(stage: Stage) -> None:
    found, used = _enforced(stage), 0.0
    stage.say("It computes without end. What enforces its limits, read from the kernel:")
    stage.say(_told(found))
    used = cpu_share(process_of(_uid(stage, "trainer-2")), 2.0)
    stage.say(f"it uses {used:.2f} CPU")
    if found.source.startswith("cgroup"):
        stage.check("250m of CPU are enforced", found.cpu_milli == 250 and used < 0.35)
        stage.check("64Mi of memory are enforced", found.memory_bytes == 64 * MEBIBYTE)
    else:
        stage.check("its address space is bounded by 64Mi", found.memory_bytes == 64 * MEBIBYTE)


def resize(stage: Stage) -> None:
    stage.say("More CPU and memory, in place: the process goes on, with the same pid.")
    pid = process_of(_uid(stage, "trainer-2"))
    _resize(stage, "500m", "128Mi")
    stage.wait_for("the new limits are enforced", lambda: _enforced(stage).memory_bytes == 128 * MEBIBYTE)
    stage.wait_for("the agent has read them back", lambda: _actual(stage).get("memory") == "128Mi")
    found = _enforced(stage)
    stage.say(_told(found))
    used = cpu_share(pid, 2.0)
    stage.say(f"it uses {used:.2f} CPU")
    if found.source.startswith("cgroup"):
        stage.check("500m of CPU are enforced", found.cpu_milli == 500 and used < 0.65)
    stage.check("no restart: the same process", process_of(_uid(stage, "trainer-2")) == pid)
    stage.headrace("explain", "pod", "trainer-2")
    stage.headrace("capacity")


def beyond(stage: Stage) -> None:
    stage.say("More than the node has: the wish is recorded, refused, and told in the ledger's own words.")
    _resize(stage, "8", "128Mi")
    told = stage.wait_for("the resize is Infeasible", lambda: _pending(stage))
    stage.say(f"PodResizePending, {told['reason']}: {told['message']}")
    stage.check("nothing was promised", told["reason"] == "Infeasible" and "insufficient cpu" in told["message"])
    stage.check("what it has stays", _actual(stage).get("cpu") == "500m")


def release(stage: Stage) -> None:
    stage.say("Deleting the Pods releases their devices and their capacity.")
    for name in ("trainer", "trainer-2"):
        stage.kube("delete", "pod", name, instead=("delete", "pod", name))
    stage.wait_for("the generated claims are gone", lambda: not _claims_of_pods(stage))
    told = stage.headrace("capacity")
    stage.check("everything is available again", "0 of 2 in use" in told and told.count("0 allocated") == 3)


def shared(stage: Stage) -> None:
    stage.say("The claim for 64Gi is given when a Pod needs it. Two Pods name it, so they share its device:")
    stage.apply(MANIFESTS / "big-gpu-pods.yaml")
    stage.wait_for("both Pods run", lambda: _running(stage, "worker-1") and _running(stage, "worker-2"))
    told = stage.headrace("explain", "claim", "big-gpu")
    stage.check("it has the GPU with 80Gi", "node-a/gpu-0" in told)
    stage.check("both Pods use it", "worker-1" in told and "worker-2" in told)


def impossible(stage: Stage) -> None:
    stage.say("Another claim for 64Gi cannot be met now. Who has what it needs, and what would do:")
    stage.apply(MANIFESTS / "another-big-gpu.yaml")
    stage.wait_for("Pod worker-3 says why it waits", lambda: _unscheduled(stage, "worker-3"))
    told = stage.headrace("explain", "claim", "another-big-gpu")
    stage.check("the holder of the GPU is named", "use by default/big-gpu" in told)
    stage.check("so is the selector that the other one fails", "64Gi" in told)


def handed_on(stage: Stage) -> None:
    stage.say("When the last of its Pods is gone, the device is free, and goes to the claim that waits.")
    for name in ("worker-1", "worker-2"):
        stage.kube("delete", "pod", name, instead=("delete", "pod", name))
    stage.wait_for("Pod worker-3 runs", lambda: _running(stage, "worker-3"))
    told = stage.headrace("explain", "claim", "another-big-gpu")
    stage.check("the GPU was handed on", "node-a/gpu-0" in told)
    stage.kube("delete", "pod", "worker-3", instead=("delete", "pod", "worker-3"))
    stage.wait_for("its device is free", lambda: "0 of 2 in use" in stage.quiet("capacity"))
    told = stage.headrace("explain", "claim", "another-big-gpu")
    stage.check("the claim is there, and would be met again", "would serve it" in told)


STEPS: tuple[tuple[str, Callable[[Stage], None]], ...] = (
    ("start", start),
    ("declare devices", declare),
    ("a Pod that only names an image", image_only),
    ("a Pod that runs", run),
    ("limits under load", under_load),
    ("resize in place", resize),
    ("beyond the node", beyond),
    ("release", release),
    ("a claim that Pods share", shared),
    ("a claim that cannot be met", impossible),
    ("released and handed on", handed_on),
)


def _resize(stage: Stage, cpu: str, memory: str) -> None:
    amounts = {"cpu": cpu, "memory": memory}
    container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    patch = json.dumps({"spec": {"containers": [container]}})
    stage.resize("trainer-2", patch)


def _told(found: Enforced) -> str:
    cpu = "no CPU limit" if found.cpu_milli is None else f"{found.cpu_milli}m CPU"
    memory = "no memory limit" if found.memory_bytes is None else f"{found.memory_bytes // MEBIBYTE}Mi memory"
    return f"{found.source}: {cpu}, {memory}"


def _enforced(stage: Stage) -> Enforced:
    pid = process_of(_uid(stage, "trainer-2"))
    if not pid:
        raise StepFailed("the process of Pod trainer-2 is not there")
    return enforced(pid)


def _exists(stage: Stage, kind: str, name: str) -> bool:
    try:
        return bool(stage.object(kind, name))
    except StepFailed:
        return False


def _ready(stage: Stage) -> bool:
    if not _exists(stage, "node", "node-a"):
        return False
    conditions = stage.object("node", "node-a").get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _status(stage: Stage, name: str) -> dict[str, Any]:
    found: dict[str, Any] = stage.object("pod", name).get("status") or {}
    return found


def _container(stage: Stage, name: str) -> dict[str, Any]:
    statuses = _status(stage, name).get("containerStatuses") or [{}]
    found: dict[str, Any] = statuses[0]
    return found


def _waiting(stage: Stage, name: str) -> str:
    return str(((_container(stage, name).get("state") or {}).get("waiting") or {}).get("message") or "")


def _running(stage: Stage, name: str) -> bool:
    return "running" in (_container(stage, name).get("state") or {})


def _unscheduled(stage: Stage, name: str) -> bool:
    return any(
        each["type"] == "PodScheduled" and each["status"] == "False"
        for each in _status(stage, name).get("conditions") or ()
    )


def _actual(stage: Stage) -> dict[str, str]:
    found: dict[str, str] = (_container(stage, "trainer-2").get("resources") or {}).get("limits") or {}
    return found


def _uid(stage: Stage, name: str) -> str:
    return str(stage.object("pod", name)["metadata"]["uid"])


def _logs(stage: Stage, name: str) -> str:
    return stage.quiet("logs", name)


def _pending(stage: Stage) -> dict[str, str]:
    for each in _status(stage, "trainer-2").get("conditions") or ():
        if each["type"] == "PodResizePending" and each["status"] == "True":
            found: dict[str, str] = each
            return found
    return {}


def _claims_of_pods(stage: Stage) -> list[str]:
    return [line for line in stage.quiet("get", "resourceclaims", "-o", "name").split() if "trainer" in line]
