"""The wall clock of everything that runs jumps by an hour and a day, both ways: what is measured is not disturbed.

Leases are judged by monotonic time (no node NotReady, no leader lost, never two), Pods run on; tokens are judged by
the wall clock, as they must be.
"""

import asyncio
import http.client
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headrace.api.times import from_time
from headrace.apiserver.tokens import create_bearer_token
from headrace.client.http import Client
from headrace.client.kubeconfig import load
from headrace.store.kubernetes import KubernetesStore
from tests.trust.preloaded import built
from tests.trust.servers import Caller, Server, directory_of_server, wait_for
from tests.trust.writers import CONFIG_MAPS, NODES, PODS

pytestmark = pytest.mark.trust

HOUR, DAY = 3600, 86400
JUMPS = (HOUR, -HOUR, DAY, -DAY, 0)
UP = ("up", "--port", "0", "--agents-port", "0", "--node-name", "node-a")
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-a"
SLEEPER = {
    "metadata": {"name": "sleeper"},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "host", "command": ["sleep", "100000"]}],
    },
}


@dataclass
class WallClock:
    """Of every process that is started with `environment`."""

    file: Path
    shim: Path
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.set(0)
        self.environment = {"LD_PRELOAD": str(self.shim), "WALL_CLOCK_FILE": str(self.file)}

    def set(self, seconds: int) -> None:
        if not self.file.exists():
            self.file.write_bytes(bytes(8))
        with self.file.open("r+b") as file:  # in place: it is mapped
            file.write(struct.pack("=q", seconds))


@pytest.fixture(scope="module")
def shim(tmp_path_factory) -> Path:
    return built("wall_clock", tmp_path_factory.mktemp("shim"))


@pytest.fixture
def clock(tmp_path, shim) -> WallClock:
    return WallClock(tmp_path / "shift", shim)


@pytest.fixture
def running(tmp_path, clock) -> Iterator[Server]:
    """All of headrace with an agent, under the clock; containers and keeper end with it."""
    with directory_of_server(tmp_path / "data", command=UP, environment=clock.environment) as server:
        try:
            server.start()
            yield server
        finally:
            clock.set(0)
            server.stop()
            server.run("down", "--grace-period", "1")


def ready(caller: Caller) -> str:
    code, node = caller.call("GET", f"{NODES}/node-a")
    if code != 200:
        return "absent"
    return str(next((c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"), "unknown"))


def sleeper(caller: Caller) -> tuple[str, int, str]:
    """Phase, restarts and container of the Pod: whether it is still what it was."""
    status = caller.call("GET", f"{PODS}/sleeper")[1].get("status", {})
    (container,) = status.get("containerStatuses") or [{}]
    return str(status.get("phase")), int(container.get("restartCount", 0)), str(container.get("containerID"))


def renewed(caller: Caller) -> float:
    """When the agent believes to have renewed its lease: wall seconds of its own clock."""
    return from_time(caller.call("GET", LEASE)[1]["spec"]["renewTime"])


def test_jumps_of_an_hour_and_a_day_make_no_node_not_ready_and_disturb_no_pod(running, clock):
    caller = running.caller()
    wait_for("the node is ready", lambda: ready(caller) == "True")
    caller.call("POST", PODS, SLEEPER)
    wait_for("the Pod runs", lambda: sleeper(caller)[0] == "Running")
    before = sleeper(caller)
    for jump in JUMPS:
        clock.set(jump)
        expected = time.time() + jump

        def heard(since: float = expected, jump: int = jump) -> bool:
            """All stays as it was until the agent has renewed its lease by the new clock."""
            assert ready(caller) == "True", f"not ready after a jump of {jump} s"
            assert sleeper(caller) == before, f"the Pod was disturbed by a jump of {jump} s"
            return abs(renewed(caller) - since) < 60 and renewed(caller) >= since

        wait_for(f"the lease is renewed after a jump of {jump} s", heard, 30)
    taints = caller.call("GET", f"{NODES}/node-a")[1]["spec"].get("taints")
    assert not taints
    print(f"\njumps {JUMPS}: node ready and Pod undisturbed at every look")


def test_tokens_are_judged_by_the_wall_clock(tmp_path, clock):
    with directory_of_server(tmp_path / "data", environment=clock.environment) as server:
        server.start()

        async def made() -> str:
            async with Client(load(server.directory / "kubeconfig")) as client:
                store = KubernetesStore(client)
                return await create_bearer_token(store, "reader", ("headrace:viewers",), time.time(), HOUR / 2)

        token = asyncio.run(made())
        for jump, code in ((0, 200), (HOUR, 401), (0, 200), (-HOUR, 200), (DAY, 401), (-DAY + 60, 200)):
            clock.set(jump)
            assert server.caller(token=token).call("GET", CONFIG_MAPS)[0] == code, f"after a jump of {jump} s"


def test_doctor_says_that_the_clocks_differ(tmp_path, clock):
    with directory_of_server(tmp_path / "data", environment=clock.environment) as server:
        server.start()
        clock.set(HOUR)
        told = server.run("doctor")  # of this process's clock, which is right
        assert told.returncode == 1
        assert "this machine is 3600 s behind the server's clock" in told.stdout


ROOT = Path(__file__).parents[2]


class Candidate:
    """The process of `headrace controllers`, on a server of ours, under the clock."""

    def __init__(self, kubeconfig: Path, clock: WallClock) -> None:
        command = [sys.executable, "-m", "tests.e2e.leading_controllers", str(kubeconfig)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **clock.environment}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
        assert self.process.stdout is not None
        line = next(each for each in self.process.stdout if each.startswith(b"health: "))
        self.port = int(line.decode().split(":")[3].split("/")[0])

    def leads(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/leaderz")
            return connection.getresponse().status == 200
        finally:
            connection.close()


@contextmanager
def candidates(kubeconfig: Path, clock: WallClock, count: int) -> Iterator[list[Candidate]]:
    found: list[Candidate] = []
    try:
        for _ in range(count):
            found.append(Candidate(kubeconfig, clock))  # noqa: PERF401  # those that began are ended
        yield found
    finally:
        for each in found:
            each.process.kill()
            each.process.wait()


def test_jumps_neither_unseat_a_leader_nor_make_a_second_one(tmp_path, clock):
    with directory_of_server(tmp_path / "data", environment=clock.environment) as server:
        server.start()
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/headrace-controllers"
        with candidates(server.directory / "kubeconfig", clock, 2) as both:
            wait_for("one leads", lambda: any(each.leads() for each in both))
            leader = [each.leads() for each in both]
            assert leader.count(True) == 1
            for jump in JUMPS:
                clock.set(jump)
                expected = time.time() + jump

                def renewed_by_the_new_clock(since: float = expected, jump: int = jump) -> bool:
                    assert [each.leads() for each in both] == leader, f"after a jump of {jump} s"
                    told = server.caller().call("GET", path)[1]["spec"]["renewTime"]
                    return abs(from_time(told) - since) < 60 and from_time(told) >= since

                wait_for(f"the leader renews after a jump of {jump} s", renewed_by_the_new_clock, 30)
    print(f"\njumps {JUMPS}: the same leader at every look, never two")


def test_control_the_clock_does_jump(clock):
    """Without it the others would prove nothing."""
    command = [sys.executable, "-c", "import time; input(); print(time.time(), time.monotonic())"]
    environment = {**os.environ, **clock.environment}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        clock.set(DAY)
        wall, monotonic = map(float, process.communicate("\n")[0].split())
    assert abs(wall - time.time() - DAY) < 60
    assert abs(monotonic - time.monotonic()) < 60


def test_control_a_node_that_is_silent_is_noticed(running):
    """The look of the first test fails when a node really is not ready."""
    caller = running.caller()
    wait_for("the node is ready", lambda: ready(caller) == "True")
    status = {"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}
    caller.call("PATCH", f"{NODES}/node-a/status", status, "application/merge-patch+json")
    assert ready(caller) != "True"
