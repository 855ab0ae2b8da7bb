"""What this machine has, through a claim to a process: `headrace up --host-devices`."""

import json
import os
import tempfile
from pathlib import Path

import pytest

from tests.e2e.processes import headrace, wait_for

UP = ("up", "--port", "0", "--agents-port", "0", "--node-name", "node-a", "--host-devices")
OBJECTS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: kvm}
spec:
  selectors:
  - cel:
      expression: device.driver == "host.headrace.dev" && device.attributes["host.headrace.dev"].kind == "kvm"
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: kvm, namespace: default}
spec:
  spec: {devices: {requests: [{name: kvm, exactly: {deviceClassName: kvm}}]}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: kvm, resourceClaimTemplateName: kvm}]
  containers:
  - name: main
    image: none
    command: [/bin/sh, -c, 'test -c /dev/kvm && echo "given=$HOST_DEVICE_KVM"; exec sleep 600']
    resources: {claims: [{name: kvm}]}
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.access("/dev/kvm", os.R_OK | os.W_OK), reason="this machine has no /dev/kvm for this user")
def test_two_pods_share_the_machines_kvm_and_nothing_is_left():
    directory = Path(tempfile.mkdtemp(prefix="hr-", dir="/tmp"))
    with headrace(directory, *UP) as home:
        wait_for("a slice", lambda: "host.headrace.dev" in home.run("get", "resourceslices", "-o", "json"))
        pods = [POD.replace("NAME", name) for name in ("first", "second")]
        (directory / "objects.yaml").write_text("---".join([OBJECTS, *pods]))
        home.run("apply", "-f", str(directory / "objects.yaml"))
        for name in ("first", "second"):
            wait_for(f"{name} runs", lambda name=name: home.object("pod", name)["status"].get("phase") == "Running")
            wait_for(f"{name} has its device", lambda name=name: "given=kvm" in home.run("logs", name))
        claims = json.loads(home.run("get", "resourceclaims", "-o", "json"))["items"]
        results = [each["status"]["allocation"]["devices"]["results"][0] for each in claims]
        assert [each["device"] for each in results] == ["kvm", "kvm"]
        assert len({each["shareID"] for each in results}) == 2
        home.run("delete", "pod", "first")
        home.run("delete", "pod", "second")
        wait_for("unprepared", lambda: not list((directory / "agent/cdi").iterdir()))
