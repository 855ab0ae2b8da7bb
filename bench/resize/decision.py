"""From a decision to the cgroup: RequestResourceScaling through the server and an agent, each a process of its own.

Both limits change in every round; a round ends when both files have the new values. In turns: an agent of processes,
an agent of Podman, and Podman's bare REST call on the same container.
"""

import contextlib
import http.client
import json
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.resize.machine import (
    MEBIBYTE,
    SECONDS,
    Client,
    Files,
    agent,
    cpu_milliseconds,
    files_of,
    load_now,
    row,
    run_pod,
    server,
)
from headrace.wire.generated import resize_pb2 as wire
from tests.node.runtimes.podman_service import IMAGE, Service, missing, serving

CHOICES = [(500, 64 * MEBIBYTE), (1000, 128 * MEBIBYTE)]
WARM = 3
LOOK_SECONDS = 0.0001


@dataclass(slots=True)
class Side:
    workload: str
    files: Files
    agent: int
    applied: list[float] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)
    agent_cpu: float = 0.0
    server_cpu: float = 0.0


class Bare(http.client.HTTPConnection):
    """Podman's REST without anything around it, on a connection that is kept."""

    def __init__(self, path: Path) -> None:
        super().__init__("podman")
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.path))

    def update(self, container: str, cpu_milli: int, memory: int) -> None:
        body = {"cpu": {"quota": cpu_milli * 100, "period": 100_000}, "memory": {"limit": memory, "swap": memory}}
        path = f"/v4.0.0/libpod/containers/{container}/update"
        self.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = self.getresponse()
        told = answer.read()
        assert answer.status == 201, told


def until(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not look():
        assert time.monotonic() < deadline
        time.sleep(LOOK_SECONDS)


def scale(client: Client, side: Side, cpu: int, memory: int) -> tuple[float, float]:
    """Milliseconds until the files have it, and until the answer came."""
    request = wire.ScalingActionRequest(workload_id=side.workload, cpu_milli=cpu, memory_bytes=memory)
    began = time.perf_counter()
    answer = client.actions.RequestResourceScaling.future(request, timeout=SECONDS)
    until(lambda: side.files.have(cpu, memory))
    applied = time.perf_counter()
    done = answer.result()
    answered = time.perf_counter()
    assert done.success, done.message
    return (applied - began) * 1000, (answered - began) * 1000


@dataclass(slots=True)
class Bench:
    server: int
    client: Client
    sides: dict[str, Side] = field(default_factory=dict)
    bare: Bare | None = None
    container: str = ""
    bare_times: list[float] = field(default_factory=list)

    def round(self, number: int) -> None:
        limits, before = CHOICES[(number + 1) % 2], CHOICES[number % 2]
        counts = number >= WARM
        for side in self.sides.values():
            used = cpu_milliseconds(side.agent), cpu_milliseconds(self.server)
            applied, answered = scale(self.client, side, *limits)
            if counts:
                side.applied.append(applied)
                side.answered.append(answered)
                side.agent_cpu += cpu_milliseconds(side.agent) - used[0]
                side.server_cpu += cpu_milliseconds(self.server) - used[1]
        if self.bare is not None:
            self.bare.update(self.container, *before)
            began = time.perf_counter()
            self.bare.update(self.container, *limits)
            if counts:
                self.bare_times.append((time.perf_counter() - began) * 1000)

    def told(self, rounds: int) -> None:
        print("| | p50 ms | p99 ms | worst | CPU ms of server, agent |\n|---|---|---|---|---|")
        for name, side in self.sides.items():
            cpu = f"{side.server_cpu / rounds:.1f}, {side.agent_cpu / rounds:.1f}"
            print(row(f"{name}: cgroup has it", side.applied, cpu))
            print(row(f"{name}: answer has come", side.answered, ""))
        if self.bare_times:
            print(row("bare REST", self.bare_times, ""))


def run(rounds: int, *, with_podman: bool) -> None:
    if with_podman and (why := missing()):
        raise SystemExit(f"{why} (or --no-podman)")
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hb-", dir="/tmp")))
        running, client = stack.enter_context(server(directory))
        assert running.process is not None
        bench = Bench(running.process.pid, client)

        def side(name: str, *options: str) -> Side:
            pid = stack.enter_context(agent(running, client, directory, name, *options))
            workload = run_pod(running, client, name, ("sleep", "100000"), CHOICES[0][0], IMAGE)
            bench.container = client.container_of(workload)
            if service is not None:
                [bench.container] = service.podman("ps", "--quiet").split()
            return Side(workload, files_of(bench.container), pid)

        service: Service | None = None
        bench.sides["process"] = side("process", "--runtime", "process")
        if with_podman:
            service = stack.enter_context(serving())
            bench.sides["podman"] = side("podman", "--runtime", "podman", "--podman-socket", str(service.socket))
            bench.bare = Bare(service.socket)
        print(f"before: {load_now()}")
        for number in range(rounds + WARM):
            bench.round(number)
        print(f"after: {load_now()}\n")
        bench.told(rounds)
