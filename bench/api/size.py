"""Memory and start of `headrace server` alone, with many objects in its file, and of all of `headrace up`.

    python -m bench.api.size [--objects 100000]

RSS of the one process; PSS of `up`, which is several. `ready` is from the start of the process to the first answer.
"""

import argparse
import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.api.servers import memory_bytes
from headrace.api.kinds import CONFIG_MAP
from headrace.client.http import Client
from headrace.client.kubeconfig import load
from headrace.client.paths import collection_path
from headrace.objects.local import Caller, LocalStore
from headrace.serve.home import FILE
from headrace.store.sqlite import open_rows

WRITERS = 256
SETTLE_SECONDS = 5.0
ALONE = ("server", "--no-controllers", "--no-agents")


@dataclass(frozen=True, slots=True)
class Started:
    process: subprocess.Popen[bytes]
    ready_seconds: float


@contextlib.contextmanager
def started(directory: Path, *arguments: str) -> Iterator[Started]:
    """A headrace process on free ports."""
    state = directory / "up.json"
    state.unlink(missing_ok=True)
    ports = ("--port", "0", "--agents-port", "0", "--data-dir", str(directory), "--log-level", "error")
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace.cli", *arguments, *ports], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not state.exists():
            assert process.poll() is None, f"{arguments} ended with {process.returncode}"
            time.sleep(0.005)
        yield Started(process, time.monotonic() - began)
    finally:
        process.terminate()
        process.wait()


async def fill(directory: Path, objects: int) -> None:
    """Through the store itself: quicker than by HTTP, and the same file."""
    rows = await open_rows(directory / FILE)
    store = LocalStore(rows, wall=time.time, new_uid=lambda: str(uuid.uuid4()), caller=Caller())
    numbers = iter(range(objects))

    async def some() -> None:
        for number in numbers:
            meta = {"name": f"object-{number}", "labels": {"bench": "yes"}}
            await store.create(CONFIG_MAP, {"metadata": meta, "data": {"key": "x" * 200}}, "default")

    await asyncio.gather(*(some() for _ in range(WRITERS)))
    await rows.close()


async def read_all(directory: Path) -> int:
    """All of them, page by page."""
    found, resume = 0, ""
    async with Client(load(directory / "kubeconfig")) as client:
        while True:
            query = {"limit": "500", "continue": resume} if resume else {"limit": "500"}
            page = await client.request("GET", collection_path(CONFIG_MAP, "default"), query=query)
            found += len(page["items"])
            resume = page["metadata"].get("continue", "")
            if not resume:
                return found


def family(pid: int) -> list[int]:
    """A process and all that descend from it, as far as they are not detached."""
    children = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [pid, *(each for child in children for each in family(child))]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--objects", type=int, default=100_000)
    chosen = arguments.parse_args()
    print("| what | ready in | RSS | PSS |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for what in ("first start", "second start"):
            with started(directory, *ALONE) as server:
                _row(f"API server alone, {what}", server.ready_seconds, [server.process.pid])
        asyncio.run(fill(directory, chosen.objects))
        with started(directory, *ALONE) as server:
            _row(f"with {chosen.objects:,} objects in its file", server.ready_seconds, [server.process.pid])
            assert asyncio.run(read_all(directory)) >= chosen.objects
            _row("after all of them were listed", server.ready_seconds, [server.process.pid])
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with started(directory, "up") as up:
            time.sleep(SETTLE_SECONDS)
            _row("`headrace up`: server, controllers, agent, keeper", up.ready_seconds, family(up.process.pid))
        subprocess.run([sys.executable, "-m", "headrace.cli", "down", "--data-dir", name], check=True)


def _row(what: str, ready: float, pids: list[int]) -> None:
    rss, pss = memory_bytes(pids)
    print(f"| {what} | {ready:.2f} s | {rss / 1e6:.0f} MB | {pss / 1e6:.0f} MB ({len(pids)}) |", flush=True)


if __name__ == "__main__":
    main()
