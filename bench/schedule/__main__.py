"""Pods with one-device claims from a template, from create to bound, beside Kubernetes, in turns within one run.

    python -m bench.schedule [--rounds 3] [--pods 800] [--nodes 100] [--devices 8]     # builds the peer the first time
    python -m bench.schedule --only headrace [--profile FILE]                          # our side alone

Both sides are servers of their own, with TLS, client certificates and a sync to disk for each commit; the same client
creates the Pods through HTTP and watches them. Each round starts fresh servers. Nothing runs the Pods: nodes are
objects. Afterwards each Pod's device is looked at: none may be given twice. Prints a Markdown table.
"""

import argparse
import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.api.servers import Side, headrace, kubernetes
from bench.schedule import fleet
from headrace.client.http import Client

LIMIT_SECONDS = 600.0
QUIET_SECONDS, QUIET_LIMIT_SECONDS, QUIET_SHARE = 1.0, 30.0, 0.15

HEADRACE = "headrace"
RAISED = "Kubernetes, its clients' rates raised (--kube-api-qps 1000, burst 2000)"
DEFAULT = "Kubernetes, its clients' rates as by default"


@dataclass(frozen=True, slots=True)
class Figures:
    """From the first create to the last binding; CPU seconds of all serving processes in that time."""

    seconds: float
    cpu_seconds: float


async def measure(side: Side, pods: int, nodes: int, devices: int) -> Figures:
    async with Client(side.cluster) as client, asyncio.timeout(LIMIT_SECONDS):
        await fleet.make(client, nodes, devices)
        await _quiet(side)
        since = await fleet.pod_revision(client)
        watching = asyncio.create_task(fleet.all_bound(client, pods, since))
        began, cpu = time.monotonic(), side.cpu_seconds()
        await fleet.create_pods(client, pods)
        await watching
        figures = Figures(time.monotonic() - began, side.cpu_seconds() - cpu)
        await fleet.check(client, pods)
        return figures


async def _quiet(side: Side) -> None:
    """What a start and new nodes set in motion is over: it is not what is measured."""
    deadline = time.monotonic() + QUIET_LIMIT_SECONDS
    while time.monotonic() < deadline:
        before = side.cpu_seconds()
        await asyncio.sleep(QUIET_SECONDS)
        if side.cpu_seconds() - before < QUIET_SHARE * QUIET_SECONDS:
            return


def table(pods: int, rows: dict[str, list[Figures]]) -> None:
    """The best of each side's rounds, by rate and by CPU."""
    best = {
        name: (pods / min(f.seconds for f in each), min(f.cpu_seconds for f in each) / pods)
        for name, each in rows.items()
    }
    rate, cpu = best[HEADRACE]
    print("| | Pods/s | CPU a Pod | headrace: times the Pods/s | headrace: times less CPU |")
    print("|---|---|---|---|---|")
    for name, (theirs, used) in best.items():
        ratios = "| | |" if name == HEADRACE else f"| {rate / theirs:.1f} | {used / cpu:.1f} |"
        print(f"| {name} | {theirs:.0f} | {used * 1e3:.2f} ms {ratios}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pods", type=int, default=800)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--only", choices=[HEADRACE], help="leave the peer out, to look at our side alone")
    parser.add_argument("--profile", type=Path, help="cProfile's statistics of our server in the last round")
    chosen = parser.parse_args()
    sides: dict[str, Callable[[], contextlib.AbstractContextManager[Side]]] = {
        HEADRACE: lambda: headrace(controllers=True, profile=chosen.profile),
        RAISED: lambda: kubernetes(controllers=True),
        DEFAULT: lambda: kubernetes(controllers=True, default_rates=True),
    }
    rows: dict[str, list[Figures]] = {}
    for round_number in range(chosen.rounds):
        for name, start in sides.items():
            if chosen.only not in (None, name) or (name == DEFAULT and round_number):
                continue  # that one takes more than a minute and hardly varies: the rates limit it
            with start() as side:
                figures = asyncio.run(measure(side, chosen.pods, chosen.nodes, chosen.devices))
            rows.setdefault(name, []).append(figures)
            rate = chosen.pods / figures.seconds
            print(f"{name}: {figures.seconds:.2f} s, {rate:.0f} Pods/s, {figures.cpu_seconds:.2f} s CPU", flush=True)
    print()
    table(chosen.pods, rows)


if __name__ == "__main__":
    main()
