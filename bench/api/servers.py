"""The two sides, each as it runs in production: TLS, client certificates, validation, a sync to disk for each write."""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.client.kubeconfig import Cluster, load
from tests.kubernetes.build import programs
from tests.kubernetes.cluster import ALL, control_plane


@dataclass(frozen=True, slots=True)
class Side:
    """`pids` are all processes that serve; `ready_seconds` from start to the first answer."""

    name: str
    cluster: Cluster
    pids: tuple[int, ...]
    ready_seconds: float
    directory: Path

    def cpu_seconds(self) -> float:
        return sum(_cpu(pid) for pid in self.pids)

    def memory_bytes(self) -> tuple[int, int]:
        return memory_bytes(self.pids)


def memory_bytes(pids: Iterable[int]) -> tuple[int, int]:
    """RSS and PSS of all these processes."""
    rss = pss = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Rss:"):
                rss += int(line.split()[1]) * 1024
            elif line.startswith("Pss:"):
                pss += int(line.split()[1]) * 1024
    return rss, pss


def _cpu(pid: int) -> float:
    """Of all its threads, to the nanosecond: ticks of 10 ms are too coarse for some hundred short operations."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


@contextlib.contextmanager
def headrace(*, controllers: bool = False, profile: Path | None = None, python: str = sys.executable) -> Iterator[Side]:
    """`headrace server --no-controllers --no-agents`: what kube-apiserver and etcd are, and nothing more.

    `controllers`: with them and the agents' port, as in `headrace up`. `profile`: a file for cProfile's statistics.
    `python`: the interpreter that serves.
    """
    with tempfile.TemporaryDirectory() as directory:
        state = Path(directory) / "up.json"
        began = time.monotonic()
        process = subprocess.Popen(
            [
                *(python, *(("-m", "cProfile", "-o", str(profile)) if profile else ())),
                *("-m", "headrace.cli", "server"),
                *(("--controllers", "--agents") if controllers else ("--no-controllers", "--no-agents")),
                *("--port", "0", "--agents-port", "0", "--data-dir", directory, "--log-level", "error"),
            ],
            stdout=subprocess.DEVNULL,
        )
        try:
            _until(state.exists)
            ready = time.monotonic() - began
            assert json.loads(state.read_text())["pid"] == process.pid
            cluster = load(Path(directory) / "kubeconfig")
            yield Side("headrace", cluster, (process.pid,), ready, Path(directory))
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def kubernetes(*, controllers: bool = False, default_rates: bool = False) -> Iterator[Side]:
    """kube-apiserver with an etcd that syncs; `controllers`: with scheduler and controller manager, whose rates of
    calls are raised so far that they limit nothing, unless `default_rates`."""
    folder = programs()
    also = ALL if controllers else ()
    with tempfile.TemporaryDirectory() as directory:
        began = time.monotonic()
        with control_plane(Path(directory), folder, also, durable=True, default_rates=default_rates) as plane:
            ready = time.monotonic() - began
            pids = tuple(process.pid for process in plane.processes.values())
            yield Side("kube-apiserver + etcd", load(plane.kubeconfig), pids, ready, Path(directory))


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "not ready in a minute"
        time.sleep(0.005)
