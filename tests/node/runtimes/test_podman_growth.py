"""The demo's second half on real Podman: a container that slows under load grows, recovers, and is kept as it is to be.

Nothing depends on how fast the machine is: the container's latency is compared with its own of before.
"""

import contextlib
import json
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest

from headrace.node.cgroups import hierarchy
from tests.e2e.processes import UP, Headrace, headrace, wait_for
from tests.node.runtimes.podman_service import IMAGE, Service

pytestmark = [pytest.mark.podman, pytest.mark.xdist_group("podman")]
EXAMPLES = Path(__file__).parents[3] / "examples/resize"
SLOW_SECONDS = 120.0
RESTARTS = 5
MEBIBYTE = 1 << 20
FIRST, GROWN = (100, 32 * MEBIBYTE), (200, 64 * MEBIBYTE)
SHOP = r"""
now() { read -r up _ < /proc/uptime; echo "${up%.*}${up#*.}"; }  # in hundredths of a second
busybox mkdir -p /tmp/www
echo 1 > /tmp/orders
busybox httpd -p "$POD_IP:$PORT" -h /tmp/www
rounds=0
while :; do
  began=$(now)
  for order in $(busybox seq "$(cat /tmp/orders)"); do head -c 1000000 /dev/zero | busybox sha256sum > /dev/null; done
  rounds=$((rounds + 1))
  printf 'latency %d\nrounds %d\n' $((($(now) - began) * 10)) $rounds > /tmp/new
  busybox mv /tmp/new /tmp/www/metrics
  sleep 0.1
done
"""
"""Serves so many orders at a time as a file says, and tells how many milliseconds they took."""


def manifest(port: int) -> str:
    limits = {"cpu": "100m", "memory": "32Mi"}
    annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": str(port)}
    env = [
        {"name": "PORT", "value": str(port)},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]
    main = {"name": "web", "image": IMAGE, "command": ["sh", "-c", SHOP], "env": env}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [{**main, "resources": {"limits": limits}}]}
    meta = {"name": "shop", "labels": {"app": "shop"}, "annotations": annotations}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def policy(threshold: int) -> str:
    spec = {
        "selector": {"matchLabels": {"app": "shop"}},
        "triggers": [{"metric": "latency", "up": {"above": threshold}}],
    }
    return json.dumps(
        {"apiVersion": "headrace.dev/v1alpha1", "kind": "ResizePolicy", "metadata": {"name": "shop"}, "spec": spec}
    )


class Shop:
    """The Pod, its container, its cgroup and its own word on how slow it is."""

    def __init__(self, running: Headrace, service: Service, port: int) -> None:
        self.running, self.service, self.port = running, service, port

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.running.object("pod", "shop").get("status") or {}
        return found

    def container(self) -> dict[str, Any]:
        return ((self.status().get("containerStatuses") or [{}])[0]) or {}

    @property
    def id(self) -> str:
        [found] = self.service.podman("ps", "--quiet", "--no-trunc").split()
        return found

    def pid(self) -> int:
        return int(self.service.podman("inspect", "--format", "{{.State.Pid}}", self.id))

    def places(self) -> tuple[Path, Path]:
        """The files of its CPU and its memory limit; a restart makes them anew in the same place."""
        found = hierarchy.find().places(self.pid())
        return found["cpu"] / "cpu.cfs_quota_us", found["memory"] / "memory.limit_in_bytes"

    def limits(self) -> tuple[int, int]:
        cpu, memory = self.places()
        return int(cpu.read_text()) // 100, int(memory.read_text())

    def orders(self, count: int) -> None:
        self.service.podman("exec", self.id, "sh", "-c", f"echo {count} > /tmp/orders")

    def reading(self, address: str) -> tuple[int, int] | None:
        """Round and latency in milliseconds; None while it does not answer."""
        with contextlib.closing(HTTPConnection(address, self.port, timeout=5)) as line:
            try:
                line.request("GET", "/metrics")
                found = dict(each.split() for each in line.getresponse().read().decode().splitlines())
                return int(found["rounds"]), int(found["latency"])
            except (OSError, HTTPException, KeyError, ValueError):
                return None

    def latency(self, rounds: int = 3) -> int:
        """The median of so many rounds that have begun and ended from now on."""
        address, seen = str(self.status()["podIP"]), {}
        first = wait_for("the shop answers", lambda: self.reading(address), SLOW_SECONDS)[0]

        def enough() -> bool:
            if (found := self.reading(address)) is not None and found[0] > first + 1:
                seen[found[0]] = found[1]
            return len(seen) >= rounds

        wait_for("orders are served", enough, SLOW_SECONDS)
        return max(10, round(statistics.median(seen.values())))

    def events(self, reason: str) -> list[str]:
        found = json.loads(self.running.run("get", "events", "-o", "json"))["items"]
        return [each["message"] for each in found if each["reason"] == reason]


@pytest.fixture
def shop(service: Service) -> Iterator[Shop]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    directory = Path(tempfile.mkdtemp(prefix="hr-", dir="/tmp"))
    chosen = ("--runtime", "podman", "--podman-socket", str(service.socket), "--sync-seconds", "1")
    with headrace(directory, *UP, *chosen) as running:
        yield Shop(running, service, port)
    shutil.rmtree(directory, ignore_errors=True)


def test_a_container_that_slows_under_load_grows_and_is_kept_so(shop: Shop) -> None:
    running = shop.running
    running.run("apply", "-f", "-", text=manifest(shop.port))
    wait_for("the shop runs", lambda: "running" in (shop.container().get("state") or {}))
    id = shop.id
    assert shop.limits() == FIRST
    usual = shop.latency()

    # Ten times as many orders: it slows. The policy doubles what it has, and the kernel enforces that.
    shop.orders(10)
    slow = wait_for("it is slow", lambda: (found := shop.latency()) > 2 * usual and found, SLOW_SECONDS)
    running.run("apply", "-f", "-", text=policy(slow * 3 // 4))
    wait_for("it has grown", lambda: shop.limits() == GROWN, SLOW_SECONDS)
    grown = {"cpu": "200m", "memory": "64Mi"}
    wait_for("that was read back", lambda: (shop.container().get("resources") or {}).get("limits") == grown)
    recovered = wait_for("it has recovered", lambda: (found := shop.latency()) < slow * 3 / 4 and found, SLOW_SECONDS)
    print(f"latency: {usual} ms, under load {slow} ms, grown {recovered} ms")
    assert shop.id == id
    assert json.loads(shop.events("PerformanceDegraded")[0])["workload"] == "default/shop/web"
    wait_for("the action has ended", lambda: "Succeeded" in running.run("resize", "history", "shop"))

    # Nothing is promised twice: total 8, allocated 5, reserved 1, and 3 more are wanted.
    running.run("apply", "-f", str(EXAMPLES / "edge-box.yaml"))
    refused = running.run("resize", "workload", "workload-b", "--cpu", "6", code=1)
    assert "Insufficient CPU: node edge-box: insufficient cpu: 3 more wanted, 2 available of 8" in refused

    # A hand edit is put right, and told.
    cpu, _ = shop.places()
    cpu.write_text("2000")
    began = time.monotonic()
    wait_for("the hand edit is put right", lambda: cpu.read_text() == "20000\n")
    print(f"hand edit put right after {time.monotonic() - began:.2f} s, looking once a second")
    drift = wait_for("it is told", lambda: shop.events("ResourceDrift"))
    assert "found cpu 20m" in drift[0]

    # Somebody restarts the container, which has the limits of its creation then.
    seconds = [restarted(shop, cpu) for _ in range(RESTARTS)]
    print(f"limits back after a restart: p50 {statistics.median(seconds) * 1000:.0f} ms of {RESTARTS}")
    assert (shop.id, shop.limits()) == (id, GROWN)

    history = running.run("resize", "history", "shop")
    assert "cpu 100m, memory 32Mi" in history
    assert "cpu 200m, memory 64Mi was read back" in history
    assert "Insufficient CPU" in running.run("resize", "history", "workload-b")


def restarted(shop: Shop, cpu: Path) -> float:
    """Seconds from the start of the new process to the limits that it should have."""
    before = shop.pid()
    command = shop.service.command("restart", "--time", "0", shop.id)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    began, left = 0.0, False
    deadline = time.monotonic() + SLOW_SECONDS
    while True:
        assert time.monotonic() < deadline, "the limits did not come back"
        try:
            quota = cpu.read_text()
        except OSError:  # its cgroup is gone, or goes
            quota = ""
        if quota == "20000\n" and (left or process.poll() is not None):
            break
        if quota != "20000\n":
            left = True
        if quota == "10000\n":
            began = began or time.monotonic()
        time.sleep(0.001)
    back = time.monotonic()
    assert process.wait(timeout=60) == 0
    assert shop.pid() != before
    return back - (began or back)  # sooner than this process could see
