"""Every requirement of the devices' document through kubectl, on a real server, agent, driver and processes.

The manifests are those of examples/devices, which people run as they are.
"""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.e2e.processes import UP, headrace, wait_for

EXAMPLES = Path(__file__).parents[2] / "examples" / "devices"
RULE = "gpu-1-is-repaired"
KUBECTL = os.environ.get("HEADRACE_KUBECTL") or shutil.which("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")


class Scene:
    """A server whose Pods and claims are all gone after each test."""

    def __init__(self, running):
        self.running = running
        self.kubectl = running.kubectl

    def apply(self, *files):
        for file in files:
            self.kubectl("apply", "-f", str(EXAMPLES / file))

    def object(self, kind, name):
        return json.loads(self.kubectl("get", kind, name, "-o", "json"))

    def list(self, kind):
        return json.loads(self.kubectl("get", kind, "-o", "json"))["items"]

    def given(self, claim):
        """(request, device) pairs of a claim."""
        allocation = (self.object("resourceclaim", claim).get("status") or {}).get("allocation") or {}
        results = (allocation.get("devices") or {}).get("results") or ()
        return [(each["request"], each["device"]) for each in results]

    def users(self, claim):
        status = self.object("resourceclaim", claim).get("status") or {}
        return sorted(each["name"] for each in status.get("reservedFor") or ())

    def runs(self, pod):
        status = self.object("pod", pod).get("status") or {}
        told = [each.get("state") or {} for each in status.get("containerStatuses") or ()]
        return bool(told) and all("running" in each for each in told)

    def environment(self, pod, container="main"):
        """What the container has printed: the devices' variables."""
        wait_for(f"{pod} runs", lambda: self.runs(pod))
        wait_for(f"{pod} has printed", lambda: "=" in self.kubectl("logs", pod, "-c", container))
        lines = self.kubectl("logs", pod, "-c", container).split()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def why(self, pod):
        conditions = (self.object("pod", pod).get("status") or {}).get("conditions") or ()
        return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")

    def clear(self):
        self.kubectl("delete", "pods,resourceclaims,devicetaintrules", "--all", "--wait=false")
        wait_for("no Pod and no claim is left", lambda: not self.list("pods") and not self.list("resourceclaims"))


def scene(directory, *more):
    """A server with the class and the template of the document."""
    with headrace(directory, *UP[:-1], *more) as running:
        wait_for("the driver has published", lambda: "node-a" in running.kubectl("get", "resourceslices"))
        found = Scene(running)
        template = (EXAMPLES / "trainer.yaml").read_text().split("---")[0]
        running.kubectl("apply", "-f", "-", text=template)
        found.apply("device-class.yaml")
        yield found


@pytest.fixture(scope="module")
def plain_server(tmp_path_factory):
    yield from scene(tmp_path_factory.mktemp("plain") / "h", "--simulated-devices", "plain")


@pytest.fixture(scope="module")
def topology_server(tmp_path_factory):
    yield from scene(tmp_path_factory.mktemp("topology") / "h", "--simulated-devices", "topology")


@pytest.fixture
def plain(plain_server):
    yield plain_server
    plain_server.clear()


@pytest.fixture
def topology(topology_server):
    yield topology_server
    topology_server.clear()


def test_attributes_as_printed_the_second_claim_ends_in_the_references_error_and_explain_mends_it(plain):
    plain.apply("attributes-as-printed.yaml")
    assert plain.environment("attributes-1")["GPU_DEVICE_0"] == "gpu-0"
    told = wait_for("the other Pod says why it waits", lambda: plain.why("attributes-2"))
    assert "claim default/attributes-2: selector #0 on device gpu.example.com/node-a/gpu-1: CEL runtime error" in told
    assert "no such key: driverVersion" in told
    explained = plain.running.run("explain", "claim", "attributes-2")
    assert "no such key: driverVersion" in explained
    assert 'has(device.attributes["gpu.example.com"].driverVersion) && device.attributes' in explained


def test_attributes_mended_the_claim_waits_for_the_device_and_gets_it_when_it_is_free(plain):
    plain.apply("attributes-as-printed.yaml")
    plain.environment("attributes-1")
    plain.apply("attributes-mended.yaml")
    told = wait_for("it says why it waits", lambda: plain.why("attributes-mended"))
    assert "cannot allocate all claims" in told
    assert "error" not in told
    plain.kubectl("delete", "pod", "attributes-2", "attributes-1")
    assert plain.environment("attributes-mended")["GPU_DEVICE_0"] == "gpu-0"


def test_two_gpus_and_a_nic_are_under_one_pcie_root(topology):
    topology.apply("constraint.yaml")
    found = topology.environment("gpus-and-nic")
    assert {name for name in found if name.count("_") == 2} == {"GPU_DEVICE_0", "GPU_DEVICE_1", "NIC_DEVICE_0"}
    assert sorted(topology.given("gpus-and-nic")) == [("gpus", "gpu-0"), ("gpus", "gpu-1"), ("nic", "nic-0")]


def test_two_containers_of_a_pod_use_one_gpu(plain):
    plain.apply("two-containers.yaml")
    both = [plain.environment("two-containers", each) for each in ("trainer", "monitor")]
    assert both[0] == both[1]
    assert both[0]["GPU_DEVICE_0"] == "gpu-0"


def test_two_pods_share_a_claim_until_the_last_has_gone(plain):
    plain.apply("two-pods.yaml")
    assert plain.environment("sharer-1") == plain.environment("sharer-2")
    assert plain.users("shared-gpu") == ["sharer-1", "sharer-2"]
    plain.kubectl("delete", "pod", "sharer-1")
    wait_for("the first has left", lambda: plain.users("shared-gpu") == ["sharer-2"])
    assert plain.given("shared-gpu") == [("gpu", "gpu-0")]
    plain.kubectl("delete", "pod", "sharer-2")
    wait_for("the device is free", lambda: not plain.given("shared-gpu"))


def test_each_pod_gets_a_claim_of_its_own_from_a_template_and_takes_it_along(plain):
    plain.apply("claim-for-each-pod.yaml")
    found = {plain.environment(name).popitem()[0].split("_")[2] for name in ("replica-1", "replica-2")}
    assert found == {"0", "1"}
    claims = plain.list("resourceclaims")
    assert sorted(each["metadata"]["ownerReferences"][0]["name"] for each in claims) == ["replica-1", "replica-2"]
    plain.kubectl("delete", "pod", "replica-1")
    wait_for("its claim has gone with it", lambda: len(plain.list("resourceclaims")) == 1)


def test_the_first_alternative_that_can_be_had_is_taken(topology):
    topology.apply("alternatives.yaml")
    assert topology.environment("big-or-two")["GPU_DEVICE_0"] == "gpu-0"
    assert topology.given("big-or-two") == [("gpu/big", "gpu-0")]
    for number in range(2, 4):
        text = (EXAMPLES / "alternatives.yaml").read_text().replace("name: big-or-two", f"name: big-or-two-{number}")
        text = text.replace("resourceClaimName: big-or-two", f"resourceClaimName: big-or-two-{number}")
        topology.kubectl("apply", "-f", "-", text=text)
        topology.environment(f"big-or-two-{number}")
    assert topology.given("big-or-two-2") == [("gpu/big", "gpu-1")]
    assert topology.given("big-or-two-3") == [("gpu/small", "gpu-2"), ("gpu/small", "gpu-3")]


def test_the_configuration_reaches_the_driver_when_it_prepares(plain):
    plain.apply("configuration.yaml")
    assert plain.environment("time-sliced")["GPU_DEVICE_0_SHARING_STRATEGY"] == "TimeSlicing"


def test_an_extended_resource_is_served_by_a_class(plain):
    plain.apply("extended-resource.yaml")
    assert plain.environment("one-line")["GPU_DEVICE_0"] == "gpu-0"
    told = plain.object("pod", "one-line")["status"]["extendedResourceClaimStatus"]
    assert told["requestMappings"] == [
        {"containerName": "main", "resourceName": "nvidia.com/gpu", "requestName": "container-0-request-0"}
    ]
    assert plain.users(told["resourceClaimName"]) == ["one-line"]
    more = (EXAMPLES / "extended-resource.yaml").read_text().split("---")[1].replace("one-line", "more")
    plain.kubectl("apply", "-f", "-", text=more.replace("nvidia.com/gpu: 1", "nvidia.com/gpu: 2"))
    told = wait_for("it says why it waits", lambda: plain.why("more"))
    assert "cannot allocate all claims" in told
    assert "lost to use by default/one-line-extended-resources" in plain.running.run("explain", "pod", "more")
    plain.kubectl("delete", "pod", "one-line", "more")
    wait_for("its claim has gone with it", lambda: not plain.list("resourceclaims"))


def test_a_taint_rule_evicts_who_has_the_device_and_keeps_it_from_others(plain):
    plain.apply("claim-for-each-pod.yaml")
    holders = {name: plain.environment(name).popitem()[0].split("_")[2] for name in ("replica-1", "replica-2")}
    evicted = next(name for name, number in holders.items() if number == "1")
    plain.apply("taint-rule.yaml")
    wait_for(
        "the Pod with gpu-1 is evicted", lambda: evicted not in [p["metadata"]["name"] for p in plain.list("pods")]
    )
    wait_for("the rule says that it is done", lambda: "Completed" in str(plain.object("devicetaintrule", RULE)))
    plain.apply("claim-for-each-pod.yaml")
    told = wait_for("it says why it waits", lambda: plain.why(evicted))
    assert "the taint example.com/repair=fan:NoExecute" in told
    plain.kubectl("delete", "devicetaintrule", RULE)
    assert plain.environment(evicted)["GPU_DEVICE_1"] == "gpu-1"


def test_a_pod_that_is_force_deleted_keeps_its_device_until_its_container_is_gone(plain):
    """The device is not given to the next Pod while the container of the last one still runs."""
    stubborn = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 4
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
  containers:
  - name: main
    image: none
    command: ["sh", "-c", "trap '' TERM; env | grep ^GPU_; while :; do sleep 0.1; done"]
    resources: {claims: [{name: gpu}]}
"""
    for name in ("stubborn-1", "stubborn-2"):
        plain.kubectl("apply", "-f", "-", text=stubborn.replace("NAME", name))
        plain.environment(name)
    plain.kubectl("apply", "-f", "-", text=stubborn.replace("NAME", "stubborn-3"))
    wait_for("the third waits", lambda: "cannot allocate all claims" in plain.why("stubborn-3"))
    plain.kubectl("delete", "pod", "stubborn-1", "--grace-period=0", "--force")
    plain.environment("stubborn-3")
    claims = plain.list("resourceclaims")
    given = [each["status"]["allocation"]["devices"]["results"][0]["device"] for each in claims if each.get("status")]
    assert len(given) == len(set(given))


def test_every_example_is_shown_by_a_test():
    shown = Path(__file__).read_text()
    by_the_demo = {each.name for each in (EXAMPLES.parents[1] / "src/headrace/cli/demo/manifests").iterdir()}
    assert [each.name for each in EXAMPLES.iterdir() if each.name not in shown and each.name not in by_the_demo] == []
