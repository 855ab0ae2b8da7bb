"""The demo's steps, in order. Each shows what a person would type and checks what must be so afterwards."""

import json
from collections.abc import Callable

from headrace.api.kinds import NODE, RESOURCE_CLAIM, RESOURCE_SLICE
from headrace.cli.demo import growth
from headrace.cli.demo.enforced import MEBIBYTE, cpu_share, told
from headrace.cli.demo.looks import (
    actual,
    enforced_on,
    is_ready,
    is_running,
    is_unscheduled,
    pending_resize,
    process,
    waiting_message,
)
from headrace.cli.demo.stage import Stage

SERVER = ("up", "--detach", "--runtime", "process", "--node-name", "node-a", "--port", "0", "--agents-port", "0")
SHARE = ("--simulated-devices", "--cpus", "1", "--memory", "1Gi", "--system-reserved", "cpu=100m,memory=128Mi")
OFTEN = ("--sync-seconds", "1")
SLICE = "node-a-gpu.example.com-x7k2p"


def start(stage: Stage) -> None:
    stage.say("One command brings an API server on SQLite, the controllers and an agent for this machine.")
    stage.headrace(*SERVER, *SHARE, *OFTEN, shown=(*SERVER[:6], *SHARE, *OFTEN))
    stage.wait_for("node node-a is Ready", lambda: is_ready(stage, "node-a"))
    stage.wait_for("the driver's devices are published", lambda: stage.object(RESOURCE_SLICE, SLICE))
    stage.kube("get", "nodes,resourceslices", instead=("get", "nodes"))
    node = stage.object(NODE, "node-a")
    how = json.loads(node["metadata"]["annotations"]["headrace.dev/enforcement"])
    if how["cpu"] == "enforced":
        stage.check("limits are enforced by cgroups", how["memory"] == "enforced")
    else:
        stage.check(f"limits are approximate here: {how['detail']}", how["cpu"] == "approximate")


def declare(stage: Stage) -> None:
    stage.say("What the simulated driver published is exactly this manifest, so applying it changes nothing:")
    before = stage.object(RESOURCE_SLICE, SLICE)["spec"]
    stage.apply("resource-slice.yaml")
    stage.check("the slice is as it was", stage.object(RESOURCE_SLICE, SLICE)["spec"] == before)
    stage.say("A class of devices, a claim for a GPU with 64Gi, and a Pod that gets a GPU of its own from a template:")
    for name in ("device-class.yaml", "resource-claim.yaml", "trainer.yaml"):
        stage.apply(name)


def image_only(stage: Stage) -> None:
    stage.say("The Pod is scheduled with its device. It only names an image, which plain processes do not have:")
    stage.wait_for("Pod trainer says why it waits", lambda: waiting_message(stage, "trainer"))
    shown = stage.headrace("explain", "pod", "trainer")
    stage.check("it has its device and says what is missing", "gpu-0" in shown and "command" in shown)


def run(stage: Stage) -> None:
    stage.say("Its twin has a command. It runs, with the environment of its device:")
    stage.apply("trainer-with-command.yaml")
    stage.wait_for("Pod trainer-2 runs", lambda: is_running(stage, "trainer-2"))
    logs = stage.wait_for("it has printed its environment", lambda: stage.quiet("logs", "trainer-2"))
    stage.kube("logs", "trainer-2", instead=("logs", "trainer-2"))
    stage.check("the container sees its GPU", "GPU_DEVICE_1=gpu-1" in logs)
    stage.headrace("capacity")


def under_load(stage: Stage) -> None:
    found, used = enforced_on(stage, "trainer-2"), 0.0
    stage.say("It computes without end. What enforces its limits, read from the kernel:")
    stage.say(told(found))
    used = cpu_share(process(stage, "trainer-2"), 1.0)
    stage.say(f"it uses {used:.2f} CPU")
    if found.source.startswith("cgroup"):
        stage.check("250m of CPU are enforced", found.cpu_milli == 250 and used < 0.35)
        stage.check("64Mi of memory are enforced", found.memory_bytes == 64 * MEBIBYTE)
    else:
        stage.check("its address space is bounded by 64Mi", found.memory_bytes == 64 * MEBIBYTE)


def resize(stage: Stage) -> None:
    stage.say("More CPU and memory, in place: the process goes on, with the same pid.")
    pid = process(stage, "trainer-2")
    _resize(stage, "500m", "128Mi")
    stage.wait_for(
        "the new limits are enforced", lambda: enforced_on(stage, "trainer-2").memory_bytes == 128 * MEBIBYTE
    )
    stage.wait_for("the agent has read them back", lambda: actual(stage, "trainer-2").get("memory") == "128Mi")
    found = enforced_on(stage, "trainer-2")
    stage.say(told(found))
    used = cpu_share(pid, 1.0)
    stage.say(f"it uses {used:.2f} CPU")
    if found.source.startswith("cgroup"):
        stage.check("500m of CPU are enforced", found.cpu_milli == 500 and used < 0.65)
    stage.check("no restart: the same process", process(stage, "trainer-2") == pid)
    stage.headrace("explain", "pod", "trainer-2")
    stage.headrace("capacity")


def beyond(stage: Stage) -> None:
    stage.say("More than the node has: the wish is recorded, refused, and told in the ledger's own words.")
    _resize(stage, "8", "128Mi")
    waits = stage.wait_for("the resize is Infeasible", lambda: pending_resize(stage, "trainer-2"))
    stage.say(f"PodResizePending, {waits['reason']}: {waits['message']}")
    stage.check("nothing was promised", waits["reason"] == "Infeasible" and "insufficient cpu" in waits["message"])
    stage.check("what it has stays", actual(stage, "trainer-2").get("cpu") == "500m")


def release(stage: Stage) -> None:
    stage.say("Deleting the Pods releases their devices and their capacity.")
    for name in ("trainer", "trainer-2"):
        stage.kube("delete", "pod", name, instead=("delete", "pod", name))
    stage.wait_for("the generated claims are gone", lambda: not _claims_of_trainers(stage))
    shown = stage.headrace("capacity")
    stage.check("everything is available again", "0 of 2 in use" in shown and shown.count("0 allocated") == 3)


def shared(stage: Stage) -> None:
    stage.say("The claim for 64Gi is given when a Pod needs it. Two Pods name it, so they share its device:")
    stage.apply("big-gpu-pods.yaml")
    stage.wait_for("both Pods run", lambda: is_running(stage, "worker-1") and is_running(stage, "worker-2"))
    shown = stage.headrace("explain", "claim", "big-gpu")
    stage.check("it has the GPU with 80Gi", "node-a/gpu-0" in shown)
    stage.check("both Pods use it", "worker-1" in shown and "worker-2" in shown)


def impossible(stage: Stage) -> None:
    stage.say("Another claim for 64Gi cannot be met now. Who has what it needs, and what would do:")
    stage.apply("another-big-gpu.yaml")
    stage.wait_for("Pod worker-3 says why it waits", lambda: is_unscheduled(stage, "worker-3"))
    shown = stage.headrace("explain", "claim", "another-big-gpu")
    stage.check("the holder of the GPU is named", "use by default/big-gpu" in shown)
    stage.check("so is the selector that the other one fails", "64Gi" in shown)


def handed_on(stage: Stage) -> None:
    stage.say("When the last of its Pods is gone, the device is free, and goes to the claim that waits.")
    for name in ("worker-1", "worker-2"):
        stage.kube("delete", "pod", name, instead=("delete", "pod", name))
    stage.wait_for("Pod worker-3 runs", lambda: is_running(stage, "worker-3"))
    shown = stage.headrace("explain", "claim", "another-big-gpu")
    stage.check("the GPU was handed on", "node-a/gpu-0" in shown)
    stage.kube("delete", "pod", "worker-3", instead=("delete", "pod", "worker-3"))
    stage.wait_for("its device is free", lambda: "0 of 2 in use" in stage.quiet("capacity"))
    shown = stage.headrace("explain", "claim", "another-big-gpu")
    stage.check("the claim is there, and would be met again", "would serve it" in shown)


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
    *growth.STEPS,
)


def _resize(stage: Stage, cpu: str, memory: str) -> None:
    amounts = {"cpu": cpu, "memory": memory}
    container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    patch = json.dumps({"spec": {"containers": [container]}})
    stage.resize("trainer-2", patch)


def _claims_of_trainers(stage: Stage) -> list[str]:
    names = [str(each["metadata"]["name"]) for each in stage.objects(RESOURCE_CLAIM)]
    return [name for name in names if "trainer" in name]
