"""A driver that is built on Kubernetes' own library (k8s.io/dynamic-resource-allocation/kubeletplugin) under our agent.

Real processes: `headrace up`, the driver, a Pod that prints what it was given.
"""

import json
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.devices.driver.reference.build import program
from tests.e2e.processes import headrace, wait_for

pytestmark = pytest.mark.slow_reference

NAME = "reference.example.com"
UP = ("up", "--port", "0", "--agents-port", "0", "--node-name", "node-a")
OBJECTS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: reference}
spec:
  selectors: [{cel: {expression: device.driver == "reference.example.com"}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: one, namespace: default}
spec:
  devices: {requests: [{name: device, exactly: {deviceClassName: reference}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: user, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: device, resourceClaimName: one}]
  containers:
  - name: main
    image: none
    command: [/bin/sh, -c, 'echo "given=$REFERENCE_DEVICE"; exec sleep 600']
    resources: {claims: [{name: device}]}
"""


@contextmanager
def driver(home, *options):
    """The driver beside the agent of `home`; what it says is in driver.log."""
    agent = home.directory / "agent"
    places = ("-kubeconfig", home.kubeconfig, "-node", "node-a", "-directory", agent, "-cdi", agent / "cdi")
    with (home.directory / "driver.log").open("ab") as log:
        process = subprocess.Popen([program(), *places, *options], stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


def said(home):
    return (home.directory / "driver.log").read_text().splitlines()


@pytest.mark.parametrize("options", [(), ("-v1=false",)], ids=["dra.v1", "dra.v1beta1"])
def test_a_claim_goes_its_whole_way_with_a_driver_of_kubernetes_own_library(options):
    directory = Path(tempfile.mkdtemp(prefix="hr-", dir="/tmp"))
    with headrace(directory, *UP) as home:
        wait_for("the agent is there", (directory / "agent/plugins_registry").is_dir)
        wait_for("the node", lambda: "node-a" in home.run("get", "nodes", "-o", "name"))
        with driver(home, *options):
            wait_for("a slice", lambda: NAME in home.run("get", "resourceslices", "-o", "json"))
            [found] = json.loads(home.run("get", "resourceslices", "-o", "json"))["items"]
            assert [each["name"] for each in found["spec"]["devices"]] == ["device-0", "device-1"]
            (directory / "objects.yaml").write_text(OBJECTS)
            home.run("apply", "-f", str(directory / "objects.yaml"))
            wait_for("the Pod runs", lambda: home.object("pod", "user")["status"].get("phase") == "Running")
            wait_for("the Pod has its device", lambda: "given=device-" in home.run("logs", "user"))
            claim = home.object("resourceclaim", "one")
            [result] = claim["status"]["allocation"]["devices"]["results"]
            assert f"given={result['device']}" in home.run("logs", "user")
            documents = list((directory / "agent/cdi").iterdir())
            assert [each.name for each in documents] == [f"{NAME}-{claim['metadata']['uid']}.json"]
            home.run("delete", "pod", "user")
            wait_for("unprepared", lambda: not list((directory / "agent/cdi").iterdir()))
        assert [line for line in said(home) if line.split()[0] in ("prepare", "unprepare")] == [
            "prepare one <nil>",
            "unprepare one <nil>",
        ]
        assert json.loads((directory / "agent/devices.json").read_text())["claims"] == []
