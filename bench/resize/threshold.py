"""From a sample that crosses a threshold to the cgroup: a container fills its memory, a ResizePolicy lets it grow.

The clock starts at the time that the agent wrote into the first sample beyond the threshold (the same machine's clock),
as the server has taken it in; it stops when the cgroup's file has the new limit.
"""

import contextlib
import json
import tempfile
import time
import urllib.request
from pathlib import Path
from ssl import SSLContext, create_default_context

from bench.resize.machine import MEBIBYTE, SECONDS, Client, Files, agent, files_of, load_now, row, run_pod, server
from headrace.client.kubeconfig import load
from headrace.metrics.paths import USAGE_PATH
from headrace.wire.generated import resize_pb2 as wire
from tests.e2e.processes import Headrace, wait_for

FIRST, GROWN = 64 * MEBIBYTE, 128 * MEBIBYTE
THRESHOLD, FILLED = 32 * MEBIBYTE, 48 * MEBIBYTE
LOOK_SECONDS = 0.002
CASES = {"1 Hz, 3 of 5": ("1", 3, 5), "200 ms, 1 of 1": ("0.2", 1, 1)}
FILL = (
    "while :; do if [ ! -e {flag} ]; then rm -f {shm}; "
    "elif [ ! -e {shm} ]; then head -c {bytes} /dev/zero > {shm}; fi; sleep 0.05; done"
)


class Usage:
    """What the server knows of one workload: the time and the memory of its latest sample."""

    def __init__(self, running: Headrace, client: Client, workload: str) -> None:
        cluster = load(running.kubeconfig)
        self._context: SSLContext = create_default_context(cadata=cluster.ca_pem)
        certificate = running.directory / "bench.pem"
        certificate.write_text(cluster.certificate_pem + cluster.key_pem)
        self._context.load_cert_chain(certificate)
        self._url, self._workload = client.url + USAGE_PATH, workload

    def now(self) -> tuple[float, float]:
        with urllib.request.urlopen(self._url, context=self._context, timeout=SECONDS) as answer:
            found = json.load(answer).get(self._workload) or {}
        return float(found.get("at") or 0.0), float(found.get("memory") or 0.0)


def policy(name: str, matching: int, of: int) -> str:
    trigger = {"metric": "memory", "up": {"above": f"{THRESHOLD * 100 // FIRST}%"}}
    trigger["samples"] = {"matching": matching, "of": of}  # type: ignore[assignment]
    spec = {
        "selector": {"matchLabels": {"app": name}},
        "max": {"memory": str(GROWN)},
        "cooldownSeconds": {"up": 0, "down": 300},
        "triggers": [trigger],
    }
    manifest = {"apiVersion": "headrace.dev/v1alpha1", "kind": "ResizePolicy", "metadata": {"name": name}}
    return json.dumps(manifest | {"spec": spec})


def measure(client: Client, usage: Usage, workload: str, files: Files, flag: Path) -> float:
    """Milliseconds; the container is small and empty again afterwards."""
    flag.touch()
    crossed = 0.0
    deadline = time.time() + SECONDS
    while int(files.memory.read_bytes()) != GROWN:
        assert time.time() < deadline, "it has not grown"
        if not crossed:
            at, memory = usage.now()
            crossed = at if memory > THRESHOLD else 0.0
        time.sleep(LOOK_SECONDS)
    applied = time.time()
    crossed = crossed or usage.now()[0]
    flag.unlink()
    wait_for("it ends", lambda: client.is_in_step(workload))
    wait_for("it is empty", lambda: usage.now()[1] < THRESHOLD)
    request = wire.ScalingActionRequest(workload_id=workload, memory_bytes=FIRST)
    assert client.actions.RequestResourceScaling(request, timeout=SECONDS).success
    return (applied - crossed) * 1000


def run(rounds: int) -> None:
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hb-", dir="/tmp")))
        running, client = stack.enter_context(server(directory))
        print(f"{load_now()}\n\n| | p50 ms | p99 ms | worst |\n|---|---|---|---|")
        for name, (period, matching, of) in CASES.items():
            node = f"every-{period.replace('.', '-')}"
            flag = directory / f"spin-{node}"
            with agent(running, client, directory, node, "--runtime", "process", "--sample-seconds", period):
                shm = Path("/dev/shm") / directory.name
                stack.callback(shm.unlink, missing_ok=True)
                command = ("sh", "-c", FILL.format(flag=flag, shm=shm, bytes=FILLED))
                workload = run_pod(running, client, node, command, 200, "none")
                files = files_of(client.container_of(workload))
                running.run("apply", "-f", "-", text=policy(node, matching, of))
                usage = Usage(running, client, workload)
                found = [measure(client, usage, workload, files, flag) for _ in range(rounds)]
            print(row(name, found))
