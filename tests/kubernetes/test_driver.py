"""Our driver framework's plug-in under a real kubelet, with the real scheduler and controllers before it."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.cluster import ALL, ControlPlane, control_plane
from tests.kubernetes.kubelet import Kubelet, join, unmount
from tests.kubernetes.test_cluster import kubectl

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(os.geteuid() != 0, reason="a kubelet runs as root only"),
]

WAIT_SECONDS = 90.0
OBJECTS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: simulated}}
spec:
  selectors: [{{cel: {{expression: device.driver == "{driver}"}}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: one, namespace: default}}
spec:
  devices:
    requests:
    - name: device
      exactly: {{deviceClassName: simulated, selectors: [{{cel: {{expression: '{which}'}}}}]}}
---
apiVersion: v1
kind: Pod
metadata: {{name: user, namespace: default}}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  tolerations: [{{operator: Exists}}]
  resourceClaims: [{{name: device, resourceClaimName: one}}]
  containers:
  - name: main
    image: "app:1"
    resources: {{claims: [{{name: device}}]}}
"""


def until(what: str, look: Callable[[], Any], log: Path) -> Any:
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not so after {WAIT_SECONDS:.0f} s\n{log.read_text()[-3000:]}")
        time.sleep(0.1)
    return found


@contextmanager
def node(directory: Path, programs: Path) -> Iterator[tuple[ControlPlane, Kubelet]]:
    with tempfile.TemporaryDirectory(prefix="hr-", dir="/tmp") as short:
        try:
            with control_plane(directory, programs, ALL) as plane:
                yield plane, join(plane, "node-a", Path(short))
        finally:
            unmount(Path(short))


@contextmanager
def driver(name: str, plane: ControlPlane, kubelet: Kubelet) -> Iterator[Path]:
    """`headrace driver` as people run it; its log."""
    places = ("--kubeconfig", plane.kubeconfig, "--kubelet-dir", kubelet.root, "--cdi-dir", kubelet.directory / "cdi")
    log = plane.directory / "driver.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli", "driver", name, "--node-name", "node-a", *places],
            stdout=output,
            stderr=output,
        )
    try:
        yield log
    finally:
        process.terminate()
        process.wait(20)


def slices(plane: ControlPlane) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kubectl(plane, "get", "resourceslices", "-o", "json"))["items"]
    return found


def health(plane: ControlPlane) -> list[str]:
    [status] = json.loads(kubectl(plane, "get", "pod", "user", "-o", "json"))["status"]["containerStatuses"]
    return [each["health"] for told in status.get("allocatedResourcesStatus") or () for each in told["resources"]]


@pytest.mark.parametrize(
    ("name", "which", "device"),
    [
        ("gpu.example.com", 'device.attributes["gpu.example.com"].numaNode == 1', "gpu-1"),
        ("host.headrace.dev", 'device.attributes["host.headrace.dev"].kind == "numa"', "numa-0"),
    ],
)
def test_a_claim_goes_its_whole_way_under_a_real_kubelet(
    name: str, which: str, device: str, kubernetes_programs: Path, tmp_path: Path
) -> None:
    with node(tmp_path, kubernetes_programs) as (plane, kubelet), driver(name, plane, kubelet) as log:
        until("a slice", lambda: slices(plane), log)
        until("registered", lambda: '"registered"' in log.read_text(), log)
        kubectl(plane, "create", "-f", "-", stdin=OBJECTS.format(driver=name, which=which))
        kubectl(plane, "wait", "pod/user", "--for=jsonpath={.status.phase}=Running", "--timeout=60s")
        claim = json.loads(kubectl(plane, "get", "resourceclaim", "one", "-o", "json"))
        uid = claim["metadata"]["uid"]
        [given] = claim["status"]["allocation"]["devices"]["results"]
        assert (given["driver"], given["pool"], given["device"]) == (name, "node-a", device)

        id = f"{name}/claim={uid}-{device}"
        [created] = [call["details"] for call in kubelet.asked() if call["call"] == "CreateContainer"]
        assert created["devices"] == [id]
        assert id in (kubelet.root / "dra_manager_state").read_text()
        [document] = (kubelet.directory / "cdi").iterdir()
        assert f"{uid}-{device}" in document.read_text()

        if name == "host.headrace.dev":  # it reports health, and the kubelet tells it on
            until("the device is told to be healthy", lambda: health(plane) == ["Healthy"], log)

        # A kubelet that starts removes the slices of its node: they are published anew, of no older generation.
        before = slices(plane)
        kubelet.restart()
        old = {each["metadata"]["uid"] for each in before}
        again = until(
            "a slice of its own", lambda: [each for each in slices(plane) if each["metadata"]["uid"] not in old], log
        )
        assert again[0]["spec"]["pool"]["generation"] >= before[0]["spec"]["pool"]["generation"]
        assert again[0]["metadata"]["name"] == before[0]["metadata"]["name"]

        kubectl(plane, "delete", "pod", "user", "--timeout=60s")
        until("unprepared", lambda: not list((kubelet.directory / "cdi").iterdir()), log)
        assert uid not in (kubelet.root / "dra_manager_state").read_text()
