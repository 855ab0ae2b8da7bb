"""The thread through real processes: manifests in, processes in cgroups, crash, restart, and all gone."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.processes import UP, headrace, wait_for

EXAMPLES = Path(__file__).parents[2] / "examples"
KUBECTL = os.environ.get("HEADRACE_KUBECTL") or shutil.which("kubectl")
WRITER = "n=0; while :; do n=$((n+1)); echo line $n; sleep 0.05; done"


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with headrace(tmp_path_factory.mktemp("up") / "h", *UP) as running:
        wait_for("the node is Ready", lambda: "Ready" in running.run("get", "nodes") and _is_ready(running))
        yield running


def _is_ready(running):
    conditions = running.object("node", "node-a").get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def manifest(name, command, *, restart="Always", cpu="50m", memory="32Mi"):
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: {restart}
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: none
    command: ["sh", "-c", {command!r}]
    resources:
      requests: {{cpu: {cpu}, memory: {memory}}}
      limits: {{cpu: {cpu}, memory: {memory}}}
"""


def status(running, name):
    return running.object("pod", name).get("status") or {}


def container(running, name):
    return (status(running, name).get("containerStatuses") or [{}])[0]


def runs(running, name):
    return "running" in (container(running, name).get("state") or {})


def first_process(name):
    """The container's own process: its parent is none of the container's. Pids wrap, so the least says nothing."""
    found = processes(name)
    [first] = [pid for pid in found if parent_of(pid) not in (*found, 0)]
    return first


def parent_of(pid):
    """0 for one that has just ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def processes(name):
    """Pids whose environment says that they are of this Pod's container."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"HOSTNAME={name}".encode() in environment:
                found.append(int(entry.name))
    return sorted(found)


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
def test_every_complete_manifest_of_the_seeds_applies_with_kubectl(up):
    for file in (
        "devices/resource-slice.yaml",
        "devices/device-class.yaml",
        "devices/resource-claim.yaml",
        "devices/trainer.yaml",
        "custom-resource/custom-resource-definition.yaml",
        "prescale/namespace.yaml",
        "prescale/virtual-metric.yaml",
        "prescale/virtual-metric-event.yaml",
        "prescale/horizontal-pod-prescaler.yaml",
    ):
        told = up.kubectl("apply", "-f", str(EXAMPLES / file))
        assert "created" in told or "configured" in told, told
    wait_for(
        "the custom kind is served",
        lambda: "created" in up.kubectl("apply", "-f", str(EXAMPLES / "custom-resource/test-resource.yaml")),
    )
    assert "unchanged" in up.kubectl("apply", "-f", str(EXAMPLES / "devices/device-class.yaml"))


def test_headraces_own_apply_says_created_then_unchanged_then_configured(up, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: '1', b: '2'}\n")
    assert "configmap/settings created" in up.run("apply", "-f", str(file))
    assert "configmap/settings unchanged" in up.run("apply", "-f", str(file))
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: '3'}\n")
    assert "configmap/settings configured" in up.run("apply", "-f", str(file))
    assert up.object("configmap", "settings")["data"] == {"a": "3"}
    assert "managedFields" not in up.run("get", "configmap", "settings", "-o", "yaml")  # as kubectl, only when asked
    assert "managedFields" not in up.run("get", "configmaps", "-o", "json")
    assert "managedFields" in up.run("get", "configmap", "settings", "-o", "yaml", "--show-managed-fields")
    named = tmp_path / "named.yaml"  # as kubectl notes it: with its namespace
    named.write_text(file.read_text().replace("{name: settings}", "{name: settings, namespace: default}"))
    assert "configmap/settings" in up.run("apply", "-f", str(named))
    assert "configmap/settings unchanged" in up.run("apply", "-f", str(file))
    assert 'configmap "settings" deleted' in up.run("delete", "-f", str(file))


def test_a_pod_runs_prints_fails_and_is_started_again(up):
    up.run("apply", "-f", "-", text=manifest("again", "echo hello; exit 3"))
    wait_for("it was restarted", lambda: container(up, "again").get("restartCount", 0) >= 1)
    ended = (container(up, "again").get("lastState") or {}).get("terminated") or {}
    assert ended["exitCode"] == 3
    assert "hello" in up.run("logs", "again", "--previous")
    up.run("delete", "pod", "again")


def test_a_pod_that_ends_well_has_succeeded_and_holds_nothing(up):
    up.run("apply", "-f", "-", text=manifest("once", "exit 0", restart="Never"))
    wait_for("it has succeeded", lambda: status(up, "once").get("phase") == "Succeeded")
    assert "Pod default/once" not in up.run("capacity")
    up.run("delete", "pod", "once")


def test_users_mistakes_are_one_line_and_exit_codes(up):
    for arguments, code, words in (
        (("get", "nonsense"), 1, 'no resource type "nonsense"'),
        (("get", "pod", "missing"), 1, 'pods "missing" not found'),
        (("delete",), 2, "name objects"),
        (("apply", "-f", "/does/not/exist"), 2, "No such file"),
        (("capacity", "node-z"), 1, 'node "node-z" not found'),
        (("explain", "pod", "missing"), 1, 'pods "missing" not found'),
        (("token", "create", "--node", "Node_A"), 1, "RFC 1123"),
        (("token", "create", "--node", "a", "--ttl", "soon"), 2, "--ttl soon"),
    ):
        told = up.run(*arguments, code=code)
        assert words in told, told
        assert "Traceback" not in told


def test_a_killed_server_and_agent_leave_containers_running_and_find_them_again(up):
    crash(up, rounds=2, pods=3)


@pytest.mark.slow
def test_thirty_crashes_with_twenty_containers(up):
    crash(up, rounds=30, pods=20)


def crash(up, rounds, pods):
    """kill -9 of server, agent and driver again and again: same processes, no line lost, exit codes right."""
    names = [f"writer-{os.getpid()}-{number}" for number in range(pods)]  # another run may be on this machine
    for name in names:
        up.run("apply", "-f", "-", text=manifest(name, WRITER, cpu="20m", memory="16Mi"))
    for name in names:
        wait_for(f"{name} runs", lambda name=name: runs(up, name), seconds=120)
    first = {name: first_process(name) for name in names}
    for _ in range(rounds):
        kill_parts(up)
        up.start()
        wait_for("the node reports", lambda: _is_ready(up))
        assert {name: first_process(name) for name in names} == first
    for name in names:
        wait_for(f"{name} is known to run", lambda name=name: runs(up, name), seconds=120)
        assert container(up, name)["restartCount"] == 0
        lines = wait_for("its agent answers", lambda name=name: up.run("logs", name).split("\n"), seconds=120)
        numbers = [int(line.split()[1]) for line in lines if line.startswith("line ")]
        assert numbers == list(range(1, len(numbers) + 1))
    os.kill(first[names[0]], 9)
    wait_for("its end is noticed", lambda: container(up, names[0]).get("restartCount", 0) == 1, seconds=60)
    assert container(up, names[0])["lastState"]["terminated"]["exitCode"] == 137
    for name in names:
        up.run("delete", "pod", name)
    wait_for("no process is left", lambda: not any(processes(name) for name in names))
    assert "Pod default/writer" not in up.run("capacity")


def kill_parts(up):
    """The agent and the driver are children of `up`: all die at once, the keeper and its containers do not."""
    pid = up.process.pid
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    up.kill()
    for child in children.stdout.split():
        try:
            os.kill(int(child), 9)
        except ProcessLookupError:
            continue
