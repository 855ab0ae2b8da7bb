"""`headrace explain` and `headrace simulate claim` on a real cluster, whose own scheduler decides."""

import sys
from pathlib import Path

import pytest

from headrace.cli.simulate_claim import NOTHING_FITS
from tests.kubernetes.cluster import ALL, ControlPlane, control_plane
from tests.kubernetes.test_cluster import NODE, kubectl, output

pytestmark = pytest.mark.cluster

DEVICES = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: fake-gpus}
spec:
  driver: gpu.example.com
  nodeName: fake
  pool: {name: fake, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: gpu-0, attributes: {model: {string: A100}}, capacity: {memory: {value: 40Gi}}}
"""
CLAIMS = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}, namespace: default}}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.example.com
        selectors: [{{cel: {{expression: 'device.attributes["gpu.example.com"].model == "{model}"'}}}}]
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default}}
spec:
  automountServiceAccountToken: false
  tolerations: [{{operator: Exists}}]
  resourceClaims: [{{name: gpu, resourceClaimName: {name}}}]
  containers: [{{name: main, image: "app:1", resources: {{claims: [{{name: gpu}}]}}}}]
"""


def headrace(plane: ControlPlane, *arguments: str, stdin: str = "", status: int = 0) -> str:
    command = (sys.executable, "-m", "headrace.cli", *arguments, "--kubeconfig", str(plane.kubeconfig))
    return output(*command, stdin=stdin, status=status)


def test_what_a_cluster_decides_is_foretold_and_explained(kubernetes_programs: Path, tmp_path: Path) -> None:
    with control_plane(tmp_path, kubernetes_programs, also=ALL) as plane:
        kubectl(plane, "create", "-f", "-", stdin=f"{NODE}---{DEVICES}")
        fits, other = (CLAIMS.format(name=name, model=model) for name, model in (("fits", "A100"), ("other", "H100")))
        foretold = headrace(plane, "simulate", "claim", "-f", "-", stdin=fits)
        assert foretold.splitlines()[1].split() == ["fake", "yes", "gpu:", "gpu.example.com/fake/gpu-0"]
        assert kubectl(plane, "get", "resourceclaims", "-o", "name") == ""  # nothing was created
        refused = headrace(plane, "simulate", "claim", "-f", "-", stdin=other, status=NOTHING_FITS)
        assert "request gpu: needs 1, 0 of 1 devices left" in refused

        for name, claim in (("fits", fits), ("other", other)):
            kubectl(plane, "create", "-f", "-", stdin=claim)
            kubectl(plane, "create", "-f", "-", stdin=POD.format(name=name))
        kubectl(plane, "wait", "pod/fits", "--for=condition=PodScheduled", "--timeout=60s")
        kubectl(plane, "wait", "pod/other", "--for=condition=PodScheduled=false", "--timeout=60s")
        assert "request gpu has gpu.example.com/fake/gpu-0" in headrace(plane, "explain", "claim", "fits")
        assert "used by pods fits" in headrace(plane, "explain", "claim", "fits")
        why = headrace(plane, "explain", "pod", "other")
        assert """1 lost to the request's selector #0: device.attributes["gpu.example.com"].model == "H100\"""" in why
