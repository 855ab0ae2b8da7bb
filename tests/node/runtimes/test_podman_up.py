"""`headrace up` on Podman as people run it: an image with a claimed device, resized in place, ended by `down`."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.processes import UP, Headrace, headrace, wait_for
from tests.node.runtimes.podman_service import IMAGE, Service, missing, serving

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


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    if why := missing():
        pytest.fail(why)
    with serving() as running:
        yield running


def pod(running: Headrace) -> dict:
    return json.loads(running.run("get", "pod", "trainer", "-o", "json"))


def state(running: Headrace) -> dict:
    return ((pod(running).get("status") or {}).get("containerStatuses") or [{}])[0]


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
        running.down()
        assert service.podman("ps", "--quiet") == ""
    shutil.rmtree(directory, ignore_errors=True)
