"""The agent is killed at each write to a container's cgroup: the next one ends what it began, and nothing disagrees.

Ledger, status and what the kernel has in force are compared after each death; the container never notices.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.api.amounts import read
from headrace.ledger.document import LEDGER_PATH
from tests.node.runtimes.conftest import unavailable
from tests.trust.servers import Caller, Server, directory_of_server, wait_for
from tests.trust.writers import NODES, PODS

pytestmark = [
    pytest.mark.trust,
    pytest.mark.skipif(unavailable() is not None, reason=f"limits are not enforced here: {unavailable()}"),
]

WRITES = 4  # to the container's cgroup by one resize of both resources, at most
SIZES = (("300m", "160Mi"), ("100m", "64Mi"))  # grown and shrunk in turn
MOST_SECONDS = 60


def resources(cpu: str, memory: str) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": memory}
    return {"requests": amounts, "limits": amounts}


def pod(name: str) -> dict[str, Any]:
    command = ["sleep", "100000"]
    container = {"name": "main", "image": "none", "command": command, "resources": resources(*SIZES[-1])}
    labels = {"headrace.dev/managed": "true"}
    spec = {"nodeName": "node-a", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


class Agent:
    """An agent of its own beside the server; its keeper and container outlive it."""

    def __init__(self, server: Server, directory: Path) -> None:
        told = json.loads((server.directory / "up.json").read_text())
        self.directory = directory
        self._log = directory.with_suffix(".log")
        created = server.run("token", "create", "--node", "node-a")
        assert created.returncode == 0, created.stderr
        self._token = created.stdout.strip()
        self._command = [
            *(sys.executable, "-m", "headrace.cli", "agent", "--node-name", "node-a", "--runtime", "process"),
            *("--server", told["url"], "--agents-server", f"127.0.0.1:{told['agentsPort']}"),
            *("--data-dir", str(directory), "--sync-seconds", "1"),
        ]
        self.process: subprocess.Popen[bytes]

    def start(self) -> None:
        with self._log.open("ab") as log:
            environment = {**os.environ, "HEADRACE_JOIN_TOKEN": self._token}
            self.process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        command = [sys.executable, "-m", "headrace.cli", "down", "--data-dir", str(self.directory)]
        subprocess.run([*command, "--grace-period", "0"], capture_output=True, timeout=60, check=False)

    @property
    def is_dead(self) -> bool:
        return self.process.poll() is not None

    @property
    def container(self) -> int:
        (record,) = (self.directory / "keeper/records").glob("*.json")
        return int(json.loads(record.read_text())["state"]["pid"])


def files_of(pid: int) -> list[Path]:
    """The limits' files of the cgroups of a process, in any hierarchy."""
    mounted = [Path(line.split()[1]) for line in Path("/proc/mounts").read_text().splitlines() if "cgroup" in line]
    paths = {line.split(":", 2)[2] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()}
    names = ("cpu.cfs_quota_us", "cpu.shares", "cpu.max", "cpu.weight", "memory.limit_in_bytes", "memory.max")
    found = {Path(f"{mount}{path}", name).resolve() for mount in mounted for path in paths for name in names}
    return sorted(each for each in found if each.exists() and "headrace" in str(each))


def in_force(files: list[Path]) -> tuple[int, int]:
    """Millicores and bytes."""
    cpu = memory = 0
    for each in files:
        text = each.read_text().split()
        if each.name == "cpu.cfs_quota_us":
            cpu = round(int(text[0]) * 1000 / int(each.with_name("cpu.cfs_period_us").read_text()))
        elif each.name == "cpu.max":
            cpu = round(int(text[0]) * 1000 / int(text[1])) if text[0] != "max" else 0
        elif each.name in ("memory.limit_in_bytes", "memory.max"):
            memory = int(text[0]) if text[0] != "max" else 0
    return cpu, memory


def disagreements(caller: Caller, agent: Agent, size: tuple[str, str]) -> str:
    wanted = read({"cpu": size[0], "memory": size[1]})
    code, found = caller.call("GET", f"{PODS}/web")
    assert code == 200, found
    (status,) = found["status"]["containerStatuses"]
    told = read((status.get("resources") or {}).get("limits"))
    held = caller.call("GET", LEDGER_PATH)[1]["nodes"]["node-a"]["holders"]["Pod default/web"]
    kernel = in_force(files_of(agent.container))
    same = kernel == (wanted["cpu"], wanted["memory"]) and told == wanted and held == {**wanted, "pods": 1}
    return "" if same and not status["restartCount"] else f"wanted {wanted}, {told=}, {held=}, {kernel=}, {status=}"


def converged(caller: Caller, agent: Agent, size: tuple[str, str]) -> None:
    deadline = time.monotonic() + MOST_SECONDS
    while wrong := disagreements(caller, agent, size):
        assert time.monotonic() < deadline, wrong
        time.sleep(0.05)


def is_running(caller: Caller) -> bool:
    return caller.call("GET", f"{PODS}/web")[1]["status"].get("phase") == "Running"


def resize(caller: Caller, size: tuple[str, str]) -> None:
    wish = {"spec": {"containers": [{"name": "main", "resources": resources(*size)}]}}
    code, answer = caller.call("PATCH", f"{PODS}/web/resize", wish, "application/strategic-merge-patch+json")
    assert code == 200, answer


def trace(agent: Agent, nth: int) -> subprocess.Popen[bytes]:
    """From now on the agent dies instead of its n-th write to a limit of its container."""
    files = [part for each in files_of(agent.container) for part in ("-P", str(each))]
    inject = ("-e", "trace=write,pwrite64", "-e", f"inject=write,pwrite64:signal=SIGKILL:when={nth}")
    command = ["strace", "-f", "-qq", "-o", "/dev/null", *files, *inject, "-p", str(agent.process.pid)]
    tracer = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    tasks = Path(f"/proc/{agent.process.pid}/task")
    wait_for(
        "strace attaches",
        lambda: all("TracerPid:\t0\n" not in (each / "status").read_text() for each in tasks.iterdir()),
    )
    return tracer


def test_whichever_write_of_a_resize_an_agent_dies_at_ledger_status_and_kernel_agree_afterwards(tmp_path):
    with directory_of_server(tmp_path / "server") as server:
        server.start()
        caller = server.caller()
        agent = Agent(server, tmp_path / "agent")
        agent.start()
        try:
            wait_for("the node is there", lambda: caller.call("GET", f"{NODES}/node-a")[0] == 200)
            assert caller.call("POST", PODS, pod("web"))[0] == 201
            wait_for("it runs", lambda: is_running(caller))
            converged(caller, agent, SIZES[-1])
            container, deaths = agent.container, 0
            for nth in range(1, WRITES + 1):
                for size in SIZES:
                    tracer = trace(agent, nth)
                    resize(caller, size)
                    wait_for(
                        "it is dead or done", lambda size=size: agent.is_dead or not disagreements(caller, agent, size)
                    )
                    tracer.kill()
                    tracer.wait()
                    if agent.is_dead:
                        deaths += 1
                        agent.start()
                    converged(caller, agent, size)
                    assert agent.container == container
            print(f"\n{deaths} deaths between the writes of a resize: nothing disagrees, nothing restarted")
            assert deaths >= len(SIZES)
            # The control: what another hand set while no agent was there is noticed, and put right by the next one.
            agent.process.kill()
            agent.process.wait()
            (memory,) = [each for each in files_of(container) if each.name.startswith("memory.")]
            memory.write_text(str(48 * 2**20))
            assert disagreements(caller, agent, SIZES[-1])
            agent.start()
            converged(caller, agent, SIZES[-1])
        finally:
            agent.end()
        server.stop()
