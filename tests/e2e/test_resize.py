"""Each sequence of the design through the real gRPC services: server, agent and client are processes of their own."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import grpc
import pytest

from headrace.client.errors import ApiError
from headrace.client.http import Client as HttpClient
from headrace.client.kubeconfig import load
from headrace.metrics.paths import METRICS_PATH
from headrace.wire.generated import resize_pb2 as wire
from headrace.wire.generated.resize_pb2_grpc import (
    ActionControllerStub,
    MonitoringServerStub,
    NodeAgentStub,
    ResourceManagerStub,
)
from tests.e2e.processes import SERVER, headrace, wait_for

ROOT = Path(__file__).parents[2]
STATES = wire.ResourceSyncState.State
SECONDS = 60


class Client:
    """The gRPC services, as the administrator calls them."""

    def __init__(self, server):
        told = server.directory / "up.json"
        self.port = json.loads(told.read_text())["agentsPort"]
        cluster = load(server.kubeconfig)
        credentials = grpc.ssl_channel_credentials(
            cluster.ca_pem.encode(), cluster.key_pem.encode(), cluster.certificate_pem.encode()
        )
        self.channel = grpc.secure_channel(f"127.0.0.1:{self.port}", credentials)
        self.manager, self.actions = ResourceManagerStub(self.channel), ActionControllerStub(self.channel)
        self.monitoring, self.node_agent = MonitoringServerStub(self.channel), NodeAgentStub(self.channel)

    def scale(self, workload, **target):
        request = wire.ScalingActionRequest(workload_id=workload, **target)
        return self.actions.RequestResourceScaling(request, timeout=SECONDS)

    def state(self, workload):
        return self.manager.GetResourceState(wire.GetResourceStateRequest(workload_id=workload), timeout=SECONDS)


def pod(name, node, cpu="2", memory="1Gi", command="sleep 1000"):
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: none
    command: ["sh", "-c", {command!r}]
    resources: {{requests: {{cpu: {cpu}, memory: {memory}}}, limits: {{cpu: {cpu}, memory: {memory}}}}}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with headrace(tmp_path_factory.mktemp("server") / "h", *SERVER) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    return Client(server)


def _url(server):
    return json.loads((server.directory / "up.json").read_text())["url"]


@contextlib.contextmanager
def agent(server, client, directory, name, *options):
    """A scripted agent; its node has 8 CPUs, of which one is reserved."""
    token = server.run("token", "create", "--node", name).split()[-1]
    command = [sys.executable, "-m", "tests.e2e.scripted_agent", _url(server), f"127.0.0.1:{client.port}", name]
    process = subprocess.Popen(
        [*command, str(directory), *options],
        cwd=ROOT,
        env={**os.environ, "HEADRACE_JOIN_TOKEN": token},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


def push(kubeconfig, workload, latency):
    """An application's own metric over HTTP."""

    async def post():
        async with HttpClient(load(kubeconfig)) as http:
            await http.request("POST", METRICS_PATH, body={"workload": workload, "metrics": {"latency": latency}})

    asyncio.run(post())


def running(server, client, name, node, **more):
    server.run("apply", "-f", "-", text=pod(name, node, **more))
    wait_for(f"{name} runs", lambda: client.state(f"default/{name}/app").sync_state == STATES.SYNCHRONIZED)
    return f"default/{name}/app"


def test_success_insufficient_and_not_required(server, client, tmp_path):
    with agent(server, client, tmp_path, "good"):
        web, _ = running(server, client, "web", "good"), running(server, client, "db", "good", cpu="3")
        # Insufficient: total 8, reserved 1, allocated 5; 3 more are wanted.
        answer = client.manager.ValidateResourceUpdate(
            wire.ValidateResourceUpdateRequest(workload_id=web, requested_cpu=5), timeout=SECONDS
        )
        assert (answer.allowed, answer.available_cpu_milli) == (False, 2000)
        assert answer.reason.startswith(
            "Insufficient CPU: node good: insufficient cpu: 3 more wanted, 2 available of 8"
        )
        kept = client.manager.ValidateResourceUpdate(
            wire.ValidateResourceUpdateRequest(workload_id=web, requested_cpu=4), timeout=SECONDS
        )
        assert (kept.allowed, kept.available_cpu_milli) == (True, 0)
        assert f"CapacityReservation {kept.reservation}" in server.run("capacity", "good")
        refused = client.scale(web, target_cpu_limit=5)
        assert (refused.success, refused.reason, refused.sync_state) == (False, "InsufficientCPU", STATES.FAILED)
        assert refused.message.startswith("Insufficient CPU")
        # Clamp: what there is, and it is told that more was wanted.
        clamped = client.scale(web, target_cpu_limit=9, on_insufficient="Clamp")
        assert (clamped.success, clamped.actual_cpu_limit, clamped.sync_state) == (True, 4, STATES.SYNCHRONIZED)
        assert clamped.message.endswith("was read back; clamped from cpu 9")
        none_left = client.scale(web, target_cpu_limit=9, on_insufficient="Clamp")
        assert (none_left.success, none_left.reason) == (False, "InsufficientCPU")
        assert client.scale(web, target_cpu_limit=2).success
        # Success: validated, recorded, applied, read back, compared.
        done = client.scale(web, node_id="good", target_cpu_limit=4, target_memory_limit=2048)
        assert (done.success, done.sync_state) == (True, STATES.SYNCHRONIZED)
        assert (done.actual_cpu_limit, done.actual_memory_limit) == (4, 2048)
        state = client.state(web)
        assert (state.desired_cpu, state.actual_cpu, state.actual_memory) == (4, 4, 2048)
        # Not required: it is so already.
        again = client.scale(web, target_cpu_limit=4, target_memory_limit=2048)
        assert (again.success, again.reason) == (True, "NotRequired")
        # What cannot be is told of what was asked for, and what would not fit in the same words.
        said = server.run("resize", "workload", "web", "--cpu", "0", code=1)
        assert (
            'default/web/app not resized: Resource Validation Failed: --cpu: Invalid value: "0": must be greater than 0'
        ) in said
        said = server.run("resize", "workload", "web", "--cpu", "9", "--dry-run", code=1)
        assert "Insufficient CPU: node good: insufficient cpu: 5 more wanted" in said
        shown = server.run("resize", "history", "web")
        assert "InsufficientCPU" in server.run("get", "rsa")
        assert "cpu 4, memory 2Gi" in shown


def test_mismatch_is_told_as_drift_with_what_was_read_back(server, client, tmp_path):
    with agent(server, client, tmp_path, "other", "--gives", "3"):
        web = running(server, client, "odd", "other")
        manifest = """
apiVersion: headrace.dev/v1alpha1
kind: ResourceScalingAction
metadata: {name: odd-once}
spec: {workload: odd/app, target: {cpu: "4"}, retry: {count: 1, seconds: 1}}
"""
        server.run("apply", "-f", "-", text=manifest)
        status = wait_for("the mismatch is told", lambda: _ended(server, "odd-once"))
        assert (status["state"], status["reason"], status["syncState"]) == ("Failed", "StateMismatch", "DRIFT_DETECTED")
        assert status["message"].startswith("State Mismatch: asked for")
        assert status["actual"]["cpu"] == "3"
        assert client.state(web).sync_state == STATES.DRIFT_DETECTED


def test_failure_restores_what_was_desired_and_the_ledger_when_the_cause_is_gone(server, client, tmp_path):
    with agent(server, client, tmp_path, "broken", "--broken", "podman update failed: exit status 1"):
        web = running(server, client, "sad", "broken")
        manifest = """
apiVersion: headrace.dev/v1alpha1
kind: ResourceScalingAction
metadata: {name: sad-once}
spec: {workload: sad/app, target: {cpu: "4"}, retry: {count: 1, seconds: 1}}
"""
        server.run("apply", "-f", "-", text=manifest)
        status = wait_for("the failure is told", lambda: _ended(server, "sad-once"))
        assert (status["state"], status["reason"]) == ("Failed", "RuntimeUpdateFailure")
        assert "Update Failure: podman update failed" in status["message"]
        assert (client.state(web).desired_cpu, client.state(web).actual_cpu) == (2, 2)
        assert "4 allocated" in server.run("capacity", "broken")  # this agent may still apply what was admitted
    with agent(server, client, tmp_path, "broken"):
        wait_for("the ledger is as before", lambda: "2 allocated" in server.run("capacity", "broken"))
        assert client.state(web).sync_state == STATES.SYNCHRONIZED


def test_degraded_performance_grows_the_workload_and_the_result_is_told(server, client, tmp_path):
    """MonitoringServer, PolicyManager, ActionController, ResourceManager, agent, and all the way back."""
    with agent(server, client, tmp_path, "slow"):
        web = running(server, client, "shop", "slow")
        policy = """
apiVersion: headrace.dev/v1alpha1
kind: ResizePolicy
metadata: {name: shop}
spec:
  selector: {matchLabels: {app: shop}}
  triggers: [{metric: latency, up: {above: 300}, samples: {matching: 3, of: 5}}]
"""
        server.run("apply", "-f", "-", text=policy)
        events = client.monitoring.WatchPerformanceEvents(wire.WatchPerformanceEventsRequest(workload_id=web))
        events.initial_metadata()
        push(server.kubeconfig, web, 450)
        with pytest.raises(ApiError, match="cannot post path"):
            push(server.directory / "viewer.kubeconfig", web, 450)
        for _ in range(2):
            report = wire.ReportMetricsRequest(workload_id=web, metrics={"latency": 450.0})
            client.monitoring.ReportMetrics(report, timeout=SECONDS)
            time.sleep(0.05)  # readings of different moments
        event = json.loads(next(iter(events)).json)
        assert {name: event[name] for name in ("workload", "metric", "value", "threshold", "status")} == {
            "workload": web,
            "metric": "latency",
            "value": 450.0,
            "threshold": 300.0,
            "status": "Degraded",
        }
        events.cancel()
        wait_for("it has grown", lambda: client.state(web).actual_cpu == 4)
        assert client.state(web).actual_memory == 2048
        assert "shop Degraded latency" in server.run("resize", "history", "shop")


def test_strangers_and_bad_requests_are_turned_away(server, client):
    for workload, code in (("web", "INVALID_ARGUMENT"), ("default/ghost/app", "NOT_FOUND")):
        with pytest.raises(grpc.RpcError) as error:
            client.scale(workload, target_cpu_limit=4)
        assert error.value.code() is getattr(grpc.StatusCode, code)
    with pytest.raises(grpc.RpcError) as error:
        client.monitoring.ReportMetrics(wire.ReportMetricsRequest(workload_id="default/ghost/app", metrics={"x": 1.0}))
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def _ended(server, name):
    status = server.object("rsa", name).get("status", {})
    return status if status.get("state") in ("Succeeded", "Failed") else None


# With the real agent, on this machine's cgroups


@contextlib.contextmanager
def real_agent(server, client, directory, name):
    token = server.run("token", "create", "--node", name).split()[-1]
    fast = ("--sync-seconds", "1", "--sample-seconds", "0.2")
    options = ("--server", _url(server), "--agents-server", f"127.0.0.1:{client.port}", "--node-name", name)
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace.cli", "agent", *options, *fast, "--data-dir", str(directory / "agent")],
        env={**os.environ, "HEADRACE_JOIN_TOKEN": token},
        stdout=subprocess.PIPE,
        stderr=(directory / "agent.log").open("w"),
        text=True,
    )
    try:
        assert process.stdout.readline() == f"node {name} is ready\n", (directory / "agent.log").read_text()[-2000:]
        yield process
    finally:
        process.kill()
        process.wait()
        end = ["down", "--data-dir", str(directory), "--grace-period", "1"]
        subprocess.run([sys.executable, "-m", "headrace.cli", *end], check=False, capture_output=True)


def in_force(client, workload):
    request = wire.GetResourceStatusRequest(workload_id=workload)
    return client.node_agent.GetResourceStatus(request, timeout=SECONDS).status


@pytest.mark.skipif(os.geteuid() != 0, reason="writes cgroups")
def test_the_real_agent_grows_a_busy_container_and_puts_a_hand_edit_right(server, client, tmp_path):
    with real_agent(server, client, tmp_path, "real"):
        busy = "while :; do :; done"
        web = running(server, client, "busy", "real", cpu="100m", memory="64Mi", command=busy)
        assert in_force(client, web).cpu_milli == 100
        done = client.scale(web, cpu_milli=150, memory_bytes=96 * 1024 * 1024)
        assert (done.success, done.cpu_milli, done.memory_bytes) == (True, 150, 96 * 1024 * 1024)
        assert in_force(client, web).cpu_milli == 150  # right after the answer, the new value
        policy = """
apiVersion: headrace.dev/v1alpha1
kind: ResizePolicy
metadata: {name: busy}
spec:
  selector: {matchLabels: {app: busy}}
  max: {cpu: 400m, memory: 1Gi}
  triggers: [{metric: cpu, up: {above: 60%}, samples: {matching: 1, of: 1}}]
"""
        server.run("apply", "-f", "-", text=policy)
        wait_for("it grows to the maximum", lambda: client.state(web).actual_cpu_milli == 400)
        assert in_force(client, web).cpu_milli == 400
        quota = _quota(in_force(client, web).runtime_id)
        assert quota is not None
        text = quota.read_text()
        quota.write_text("20000" if quota.name == "cpu.cfs_quota_us" else "20000 100000")
        wait_for("the hand edit is repaired", lambda: quota.read_text() == text, 10)
        wait_for("and told", lambda: "ResourceDrift" in server.run("get", "events"))
        shown = server.run("top", "--once")
        assert web in shown
        assert "SYNCHRONIZED" in shown


SIDECAR = """
apiVersion: v1
kind: Pod
metadata: {name: served}
spec:
  nodeName: beside
  terminationGracePeriodSeconds: 1
  initContainers:
  - name: proxy
    image: none
    command: [sleep, "1000"]
    restartPolicy: Always
    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 100m, memory: 64Mi}}
  containers:
  - name: app
    image: none
    command: [sleep, "1000"]
    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 100m, memory: 64Mi}}
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="writes cgroups")
def test_the_real_agent_grows_a_sidecar_which_is_charged_read_back_and_shown(server, client, tmp_path):
    with real_agent(server, client, tmp_path, "beside"):
        server.run("apply", "-f", "-", text=SIDECAR)
        proxy = "default/served/proxy"
        wait_for("the sidecar runs", lambda: client.state(proxy).sync_state == STATES.SYNCHRONIZED)
        wait_for("its Pod runs", lambda: client.state("default/served/app").sync_state == STATES.SYNCHRONIZED)
        said = server.run("resize", "workload", "served/proxy", "--cpu", "150m", "--memory", "96Mi")
        assert "cpu 150m, memory 96Mi read back" in said
        told = in_force(client, proxy)
        assert (told.cpu_milli, told.memory_bytes) == (150, 96 * 1024 * 1024)
        quota = _quota(told.runtime_id)
        assert quota is not None
        assert quota.read_text().split()[0] == "15000"
        held = json.loads(server.run("capacity", "beside", "-o", "json"))["nodes"][0]["holders"]["Pod default/served"]
        assert held == {"cpu": 250, "memory": 160 * 1024 * 1024, "pods": 1}
        shown = server.run("explain", "pod", "served")
        [line] = [each for each in shown.splitlines() if each.startswith("proxy")]
        assert line.count("cpu 150m memory 96Mi") == 3  # desired, admitted, actual
        assert proxy in server.run("top", "--once")
        client.manager.UpdateDesiredState(wire.UpdateDesiredStateRequest(workload_id=proxy, cpu_milli=120))
        wait_for("it shrinks", lambda: client.state(proxy).actual_cpu_milli == 120)


def _quota(runtime_id):
    """The cgroup file with the CPU quota of a container."""
    for name in ("cpu.cfs_quota_us", "cpu.max"):
        for found in Path("/sys/fs/cgroup").rglob(name):
            if runtime_id in str(found):
                return found
    return None
