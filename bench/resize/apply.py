"""A runtime's own part: `apply` of processes, of Podman, and Podman's bare REST call, in turns in one run.

`apply` is read, guard, write, read back. The bare call does not look at what came of it.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from headrace.node.runtimes.podman import PodmanRuntime
from headrace.node.runtimes.podman_bodies import container_name, resources
from headrace.node.runtimes.podman_socket import Podman
from headrace.node.runtimes.process import ProcessRuntime
from headrace.node.runtimes.protocol import ContainerSpec, Limits
from tests.node.eventually import eventually
from tests.node.runtimes.podman_service import IMAGE, missing, serving

MEBIBYTE = 1 << 20
CHOICES = [Limits(500, 64 * MEBIBYTE, 100), Limits(1000, 128 * MEBIBYTE, 200)]


def spec(directory: Path) -> ContainerSpec:
    log = str(directory / "bench.log")
    return ContainerSpec(
        "bench",
        "uid",
        "default/bench",
        "main",
        ("sleep", "600"),
        {"PATH": os.environ["PATH"]},
        "/",
        log,
        CHOICES[0],
        image=IMAGE,
    )


async def measure(rounds: int, socket: Path, directory: Path) -> None:
    process = await ProcessRuntime.open(directory / "process")
    podman = await PodmanRuntime.open(directory / "podman", socket)
    bare = Podman(socket)
    name = container_name(podman._instance, "bench")
    try:
        for runtime in (process, podman):
            await runtime.start(spec(directory))

        async def call(limits: Limits) -> None:
            await bare.call("POST", f"/containers/{name}/update", body=resources(limits))

        async def by_process(limits: Limits) -> None:
            await process.apply("bench", limits)

        async def by_podman(limits: Limits) -> None:
            await podman.apply("bench", limits)

        async def _none_runs() -> bool:
            return all(state.state == "exited" for state in [*await process.list(), *await podman.list()])

        sides: dict[str, Callable[[Limits], Awaitable[None]]] = {
            "process": by_process,
            "podman": by_podman,
            "bare REST": call,
        }
        taken: dict[str, list[float]] = {side: [] for side in sides}
        for number in range(rounds + 3):
            for side, change in sides.items():
                began = time.perf_counter()
                await change(CHOICES[(number + 1) % 2])
                if number >= 3:
                    taken[side].append((time.perf_counter() - began) * 1000)
            await podman.apply("bench", CHOICES[number % 2])  # so that the bare call and ours change the same
        _print(taken)
    finally:
        for each in (process, podman):
            await each.kill("bench")
        await eventually(_none_runs)
        await podman.remove("bench")
        await process.remove("bench")
        await process.stop_keeper()
        await podman.close()
        await bare.close()


def _print(taken: dict[str, list[float]]) -> None:
    base = statistics.median(taken["bare REST"])
    print("| | p50 ms | p99 ms | of bare REST |\n|---|---|---|---|")
    for side, values in taken.items():
        middle, most = statistics.median(values), statistics.quantiles(values, n=100)[98]
        print(f"| {side} | {middle:.2f} | {most:.2f} | {middle / base:.2f} |")


def run(rounds: int) -> None:
    if why := missing():
        raise SystemExit(why)
    with serving() as service, tempfile.TemporaryDirectory(prefix="hb-", dir="/tmp") as directory:
        asyncio.run(measure(rounds, service.socket, Path(directory)))
