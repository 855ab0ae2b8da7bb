"""`headrace up` on Podman as people run it: an image with a claimed device, resized in place, ended by `down`."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.e2e.processes import UP, Headrace, headrace, wait_for
from tests.node.runtimes.podman_service import IMAGE, Service

pytestmark = [pytest.mark.podman, pytest.mark.xdist_group("podman")]
EXAMPLES = Path(__file__).parents[3] / "examples/devices"
PODS = f"""
apiVersion: v1
kind: Pod
metadata: {{name: trainer, labels: {{headrace.dev/managed: "true"}}}}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{{name: gpu, resourceClaimName: big-gpu}}]
  containers:
  - name: main
    image: {IMAGE}
    command: ["sh", "-c", "env; exec sleep 600"]
    resources: {{requests: {{cpu: 250m, memory: 32Mi}}, limits: {{cpu: 250m, memory: 32Mi}}, claims: [{{name: gpu}}]}}
"""


def pod(running: Headrace) -> dict:
    return json.loads(running.run("get", "pod", "trainer", "-o", "json"))


def state(running: Headrace) -> dict:
    return ((pod(running).get("status") or {}).get("containerStatuses") or [{}])[0]


def adopt(service: Service, running: Headrace) -> None:
    """Somebody's container becomes a Pod, is resized, and runs on when the Pod is deleted or headrace goes down."""
    rlimits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
    limits = ["--cpus", "0.3", "--memory", "48m", "--memory-swap", "48m", "--log-driver", "k8s-file", "--net", "host"]
    script = "echo mine; exec sleep 600"
    own = service.podman("run", "-d", "--name", "own", *rlimits, *limits, IMAGE, "sh", "-c", script).strip()
    place = ("--node-name", "node-a", "--podman-socket", str(service.socket))

    def told() -> dict:
        statuses = (json.loads(running.run("get", "pod", "own", "-o", "json")).get("status") or {}).get(
            "containerStatuses"
        )
        return (statuses or [{}])[0]

    for _ in range(2):
        assert "pod/own adopted container own" in running.run("adopt", "own", *place)
        again = running.run("adopt", own[:12], *place, code=1)
        assert f"container {own[:12]} is adopted already: it is Pod default/own" in again
        wait_for("it is a running Pod", lambda: "running" in (told().get("state") or {}))
        assert "mine" in running.run("logs", "own")
        running.run("delete", "pod", "own")
        wait_for("the Pod is gone", lambda: "own" not in running.run("get", "pods"))
        assert own[:12] in service.podman("ps", "--quiet")
    running.run("adopt", "own", *place)
    wait_for("it is told what it has", lambda: (told().get("resources") or {}).get("limits", {}).get("cpu") == "300m")
    running.run("resize", "workload", "own", "--cpu", "450m", "--memory", "56Mi")
    wait_for("it has grown", lambda: told()["resources"]["limits"] == {"cpu": "450m", "memory": "56Mi"})
    assert "has a Pod" not in running.run("adopt", "absent", *place, code=1)
    elsewhere = running.run("adopt", "own", "--node-name", "typo", *place[2:], code=1)
    assert 'node "typo" not found; there are: ' in elsewhere
    running.run("delete", "pod", "trainer")
    wait_for("only the adopted one runs", lambda: service.podman("ps", "--quiet").split() == [own[:12]])
    subprocess.run(
        [sys.executable, "-m", "headrace.cli", "down", "--data-dir", str(running.directory)], check=True, timeout=60
    )
    assert service.podman("ps", "--quiet").split() == [own[:12]]
    service.podman("rm", "--force", "--time", "0", "own")


@pytest.mark.parametrize("asked", [True, False], ids=["--runtime podman", "its socket answers"])
def test_a_pod_of_an_image_with_a_device_is_resized_in_place_and_ended(
    service: Service, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTAINER_HOST", f"unix://{service.socket}")
    chosen = ("--runtime", "podman", "--podman-socket", str(service.socket)) if asked else ()
    directory = Path(tempfile.mkdtemp(prefix="hr-", dir="/tmp"))
    with headrace(directory, *UP, *chosen) as running:
        for file in ("device-class.yaml", "resource-claim.yaml"):
            running.run("apply", "-f", str(EXAMPLES / file))
        running.run("apply", "-f", "-", text=PODS)
        wait_for("trainer runs", lambda: "running" in (state(running).get("state") or {}))
        assert state(running)["containerID"].startswith("podman://")
        said = wait_for("it has told", lambda: "GPU_" in (text := running.run("logs", "trainer")) and text)
        assert "container=podman" in said
        [id] = service.podman("ps", "--quiet").split()
        running.run("resize", "workload", "trainer", "--cpu", "500m", "--memory", "64Mi")
        grown = {"cpu": "500m", "memory": "64Mi"}
        wait_for("it has grown", lambda: (state(running).get("resources") or {}).get("limits") == grown)
        assert service.podman("ps", "--quiet").split() == [id]
        if asked:
            adopt(service, running)
        running.down()
        assert service.podman("ps", "--quiet") == ""
    shutil.rmtree(directory, ignore_errors=True)
