"""What the parts share: a server and agents as processes of their own, a gRPC client, a container's cgroup files."""

import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from headrace.client.kubeconfig import load
from headrace.wire.generated import resize_pb2 as wire
from headrace.wire.generated.resize_pb2_grpc import (
    ActionControllerStub,
    MonitoringServerStub,
    NodeAgentStub,
    ResourceManagerStub,
)
from tests.e2e.processes import SERVER, Headrace, headrace, wait_for

SECONDS = 60
MEBIBYTE = 1 << 20
CGROUPS = Path("/sys/fs/cgroup")


class Client:
    """The services of a running server, as its administrator calls them."""

    def __init__(self, server: Headrace) -> None:
        told = json.loads((server.directory / "up.json").read_text())
        self.url, self.port = told["url"], told["agentsPort"]
        cluster = load(server.kubeconfig)
        credentials = grpc.ssl_channel_credentials(
            cluster.ca_pem.encode(), cluster.key_pem.encode(), cluster.certificate_pem.encode()
        )
        channel = grpc.secure_channel(f"127.0.0.1:{self.port}", credentials)
        self.actions, self.manager = ActionControllerStub(channel), ResourceManagerStub(channel)
        self.node_agent, self.monitoring = NodeAgentStub(channel), MonitoringServerStub(channel)

    def is_in_step(self, workload: str) -> bool:
        state = self.manager.GetResourceState(wire.GetResourceStateRequest(workload_id=workload), timeout=SECONDS)
        return bool(state.sync_state == wire.ResourceSyncState.State.SYNCHRONIZED)

    def container_of(self, workload: str) -> str:
        request = wire.GetResourceStatusRequest(workload_id=workload)
        return str(self.node_agent.GetResourceStatus(request, timeout=SECONDS).status.runtime_id)


@dataclass(frozen=True, slots=True)
class Files:
    """The files that limit a container."""

    cpu: Path
    memory: Path

    def have(self, cpu_milli: int, memory_bytes: int) -> bool:
        return (
            self.cpu.read_bytes().split()[0] == b"%d" % (cpu_milli * 100)
            and self.memory.read_bytes().strip() == b"%d" % memory_bytes
        )


def files_of(id: str) -> Files:
    """Of a process container by its id, of a Podman one by the id that Podman gave it."""
    found = {}
    for place, _, names in os.walk(CGROUPS):  # others' groups may vanish meanwhile
        for name in ("cpu.cfs_quota_us", "cpu.max", "memory.limit_in_bytes", "memory.max"):
            if id in place and name in names:
                found[name.partition(".")[0]] = Path(place) / name
    return Files(found["cpu"], found["memory"])


@contextlib.contextmanager
def server(directory: Path) -> Iterator[tuple[Headrace, Client]]:
    with headrace(directory / "server", *SERVER) as running:
        yield running, Client(running)


@contextlib.contextmanager
def agent(running: Headrace, client: Client, directory: Path, name: str, *options: str) -> Iterator[int]:
    """Its process id. It runs as installed: a development's `rich`, which structlog would load, is not there."""
    (directory / "hidden").mkdir(exist_ok=True)
    (directory / "hidden" / "rich.py").write_text("raise ImportError\n")
    token = running.run("token", "create", "--node", name).split()[-1]
    place = ("--server", client.url, "--agents-server", f"127.0.0.1:{client.port}", "--node-name", name)
    own = directory / name
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace.cli", "agent", *place, *options, "--data-dir", str(own / "agent")],
        env={
            **os.environ,
            "HEADRACE_JOIN_TOKEN": token,
            "PYTHONPATH": str(directory / "hidden"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"node {name} is ready\n"
        yield process.pid
    finally:
        process.kill()
        process.wait()
        end = ["down", "--data-dir", str(own), "--grace-period", "1"]
        subprocess.run([sys.executable, "-m", "headrace.cli", *end], check=False, capture_output=True)


def run_pod(running: Headrace, client: Client, node: str, command: Sequence[str], cpu_milli: int, image: str) -> str:
    """A Pod that sleeps or spins; its workload, once it is in step."""
    amounts = {"cpu": f"{cpu_milli}m", "memory": "64Mi"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": node, "labels": {"app": node, "headrace.dev/managed": "true"}},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "app",
                    "image": image,
                    "command": list(command),
                    "resources": {"requests": amounts, "limits": amounts},
                }
            ],
        },
    }
    running.run("apply", "-f", "-", text=json.dumps(pod))
    workload = f"default/{node}/app"
    wait_for(f"{node} runs", lambda: client.is_in_step(workload))
    return workload


def cpu_milliseconds(pid: int) -> float:
    """User and system, of all living threads, in the scheduler's nanoseconds: ticks miss what is done between them."""
    found = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += int((thread / "schedstat").read_text().split()[0])
    return found / 1e6


def resident_mebibytes(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise LookupError(f"/proc/{pid}/status tells no VmRSS")


def row(name: str, values: Sequence[float], *more: str) -> str:
    """A row of a table: p50, p99, worst."""
    p99 = statistics.quantiles(values, n=100, method="inclusive")[98]
    cells = [f"{statistics.median(values):.2f}", f"{p99:.2f}", f"{max(values):.2f}", *more]
    return f"| {name} | {' | '.join(cells)} |"


def load_now() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
