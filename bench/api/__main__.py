"""CPU and latency of create, get, list, patch and watch, both sides in turns within one run; prints a Markdown table.

python -m bench.api [--rounds 3] [--operations 300]     # needs Go 1.26 the first time, to build the peer

`--python PATH` runs our server on another interpreter, of an environment in which headrace is installed: one that was
built with profile-guided optimisation, as distributions' are, needs a twentieth less.
"""

import argparse
import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from statistics import median

from bench.api.servers import Side, headrace, kubernetes
from headrace.api.kinds import CONFIG_MAP, NAMESPACE
from headrace.client.errors import ApiError
from headrace.client.http import MERGE_PATCH, Client
from headrace.client.paths import collection_path, object_path

NAMESPACE_NAME = "bench"
LISTED = 1000
CONNECTIONS = (1, 16)
CROWD = 10
"""Watchers of one resource, beside rows in which each connection has a watch."""
PADDING = "x" * 200
CLIENTS = 2 * max(CONNECTIONS)


@dataclass(slots=True)
class Figures:
    """Of one operation on one side: CPU seconds of the servers each, and the latencies seen."""

    cpu: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)

    def typical(self) -> float:
        """The median round: the least would be one without a garbage collection, on either side."""
        return median(self.cpu)

    def quantile(self, share: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def config_map(name: str) -> dict[str, object]:
    return {"metadata": {"name": name, "labels": {"bench": "yes"}}, "data": {"key": PADDING}}


class Load:
    """The operations on one side. Names never repeat, so that every create is one."""

    def __init__(self, side: Side, clients: list[Client]) -> None:
        self.side, self.clients, self.serial = side, clients, 0

    async def prepare(self) -> None:
        client = self.clients[0]
        with contextlib.suppress(ApiError):
            await client.request("POST", collection_path(NAMESPACE), body={"metadata": {"name": NAMESPACE_NAME}})
        for number in range(LISTED):
            body = config_map(f"listed-{number}")
            await self.clients[number % CLIENTS].request("POST", collection_path(CONFIG_MAP, NAMESPACE_NAME), body=body)

    async def create(self, client: Client) -> None:
        self.serial += 1
        body = config_map(f"made-{self.serial}")
        await client.request("POST", collection_path(CONFIG_MAP, NAMESPACE_NAME), body=body)

    async def get(self, client: Client) -> None:
        self.serial += 1
        await client.request("GET", object_path(CONFIG_MAP, NAMESPACE_NAME, f"listed-{self.serial % LISTED}"))

    async def patch(self, client: Client) -> None:
        self.serial += 1
        path = object_path(CONFIG_MAP, NAMESPACE_NAME, f"listed-{self.serial % LISTED}")
        await client.request("PATCH", path, body={"data": {"serial": str(self.serial)}}, content_type=MERGE_PATCH)

    async def list(self, client: Client) -> None:
        query = {"limit": "500", "labelSelector": "bench=yes"}
        await client.request("GET", collection_path(CONFIG_MAP, NAMESPACE_NAME), query=query)

    async def measure(
        self, figures: Figures, operation: Callable[[Client], Awaitable[None]], count: int, at: int
    ) -> None:
        """`count` operations by `at` connections side by side."""
        left = count

        async def one(client: Client) -> None:
            nonlocal left
            while left > 0:
                left -= 1
                began = time.perf_counter()
                await operation(client)
                figures.latencies.append(time.perf_counter() - began)

        before = self.side.cpu_seconds()
        await asyncio.gather(*(one(client) for client in self.clients[:at]))
        figures.cpu.append((self.side.cpu_seconds() - before) / count)

    async def watch(self, figures: Figures, count: int, at: int, watchers: int) -> None:
        """CPU of a create that `watchers` see, by `at` connections side by side, until all have seen all."""
        told = [asyncio.Queue[None]() for _ in range(watchers)]

        async def follow(client: Client, since: str, queue: asyncio.Queue[None]) -> None:
            query = {"watch": "true", "resourceVersion": since}
            async for _ in client.documents(collection_path(CONFIG_MAP, NAMESPACE_NAME), query=query):
                queue.put_nowait(None)

        listing = await self.clients[0].request(
            "GET", collection_path(CONFIG_MAP, NAMESPACE_NAME), query={"limit": "1"}
        )
        since = listing["metadata"]["resourceVersion"]
        clients = self.clients[-watchers:]
        followers = [
            asyncio.create_task(follow(client, since, queue)) for client, queue in zip(clients, told, strict=True)
        ]
        await asyncio.sleep(1)

        async def seen(client: Client) -> None:
            await self.create(client)
            for queue in told:
                await queue.get()

        await self.measure(figures, seen, count, at)
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)


async def run(sides: list[Side], rounds: int, operations: int) -> None:
    async with AsyncExitStack() as stack:
        loads = []
        for side in sides:
            clients = [await stack.enter_async_context(Client(side.cluster)) for _ in range(CLIENTS)]
            loads.append(Load(side, clients))
        idle = {side.name: side.memory_bytes() for side in sides}
        for load in loads:
            await load.prepare()
        rows: dict[str, dict[str, Figures]] = {}
        for _ in range(rounds):
            for at in CONNECTIONS:
                for name in ("create", "get", "patch", "list"):
                    count = operations // 5 if name == "list" else operations
                    for load in loads:
                        figures = rows.setdefault(f"{name}, {at} at once", {}).setdefault(load.side.name, Figures())
                        await load.measure(figures, getattr(load, name), count, at)
            for at in CONNECTIONS:
                for name, watchers in ((f"watch by {at}, {at} create", at), (f"watch by {CROWD}, {at} create", CROWD)):
                    for load in loads:
                        figures = rows.setdefault(name, {}).setdefault(load.side.name, Figures())
                        await load.watch(figures, operations, at, watchers)
        table(sides, rows, idle)


def table(sides: list[Side], rows: dict[str, dict[str, Figures]], idle: dict[str, tuple[int, int]]) -> None:
    ours, theirs = sides[0].name, sides[1].name
    print(f"| operation | CPU {theirs} | CPU {ours} | times less CPU | p50 / p99 {theirs} | p50 / p99 {ours} |")
    print("|---|---|---|---|---|---|")
    for name, by_side in rows.items():
        us, them = by_side[ours], by_side[theirs]
        latencies = [f"{f.quantile(0.5) * 1e3:.1f} / {f.quantile(0.99) * 1e3:.1f} ms" for f in (them, us)]
        ratio = f"{them.typical() / us.typical():.1f}" if us.typical() else "-"
        costs = f"{them.typical() * 1e6:.0f} µs | {us.typical() * 1e6:.0f} µs | {ratio}"
        print(f"| {name} | {costs} | {latencies[0]} | {latencies[1]} |")
    print()
    print("| side | ready in | RSS at first | RSS now | PSS now |")
    print("|---|---|---|---|---|")
    for side in sides:
        rss, pss = side.memory_bytes()
        print(
            f"| {side.name} | {side.ready_seconds:.2f} s | {idle[side.name][0] / 1e6:.0f} MB | {rss / 1e6:.0f} MB "
            f"| {pss / 1e6:.0f} MB |"
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--operations", type=int, default=300)
    arguments.add_argument("--only", choices=["headrace"], help="leave the peer out, to look at our side alone")
    arguments.add_argument("--python", default=sys.executable, help="the interpreter of our server")
    chosen = arguments.parse_args()
    version = subprocess.run([chosen.python, "-VV"], capture_output=True, text=True, check=True).stdout
    print(f"headrace on {' '.join(version.split())}\n")
    with contextlib.ExitStack() as stack:
        sides = [stack.enter_context(headrace(python=chosen.python))]
        sides.append(stack.enter_context(headrace(python=chosen.python) if chosen.only else kubernetes()))
        asyncio.run(run(sides, chosen.rounds, chosen.operations))


main()
