"""The testbed itself: Kubernetes comes up whole, does its work, and leaves nothing behind."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.kubernetes.cluster import ALL, ControlPlane, control_plane

pytestmark = pytest.mark.cluster

NODE = """
apiVersion: v1
kind: Node
metadata: {name: fake}
spec: {}
status:
  capacity: {cpu: "4", memory: 8Gi, pods: "110"}
  allocatable: {cpu: "4", memory: 8Gi, pods: "110"}
  conditions: [{type: Ready, status: "True", reason: Tests, message: "", lastHeartbeatTime: null}]
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: main, image: "app:1"}]
"""


def kubectl(plane: ControlPlane, *arguments: str, stdin: str = "") -> str:
    return output(str(plane.programs / "kubectl"), f"--kubeconfig={plane.kubeconfig}", *arguments, stdin=stdin)


def output(*command: str, stdin: str = "", status: int = 0) -> str:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == status, done.stderr
    return done.stdout


def test_a_deployment_gets_pods_that_are_bound(kubernetes_programs: Path, tmp_path: Path) -> None:
    with control_plane(tmp_path, kubernetes_programs, also=ALL) as plane:
        kubectl(plane, "create", "-f", "-", stdin=f"{NODE}---{DEPLOYMENT}")
        wait = ("wait", "pods", "-l", "app=web", "--for=condition=PodScheduled", "--timeout=60s")
        kubectl(plane, "wait", "deployment/web", "--for=jsonpath={.status.replicas}=2", "--timeout=60s")
        kubectl(plane, *wait)
        pods = json.loads(kubectl(plane, "get", "pods", "-o", "json"))["items"]
        assert [pod["spec"]["nodeName"] for pod in pods] == ["fake", "fake"]
        version = json.loads(kubectl(plane, "version", "-o", "json"))
        assert version["serverVersion"]["gitVersion"] == "v1.37.2"
        running = list(plane.processes.values())
    assert len(running) == 4
    assert all(process.returncode is not None for process in running)


def test_a_failure_leaves_no_process(kubernetes_programs: Path, tmp_path: Path) -> None:
    seen: list[subprocess.Popen[bytes]] = []

    def fails() -> None:
        with control_plane(tmp_path, kubernetes_programs) as plane:
            seen.extend(plane.processes.values())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert len(seen) == 2
    assert all(process.poll() is not None for process in seen)
