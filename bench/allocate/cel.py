"""Kubernetes' CEL and ours on the same selectors and devices, in turns in one run; Markdown goes to standard output.

    python -m bench.allocate.cel [--rounds 3] [--times 200]

All figures are CPU time, the least of all rounds: of Kubernetes' the whole process's, of ours the thread's. An
evaluation is DeviceMatches there, which builds the expression's input from the device each time; here it is a question
about a device that has been read before, and, told apart, about one whose attributes nobody has read yet. Nothing is
remembered between evaluations on either side. Verdicts are compared on the way.
"""

import argparse
import gc
import gzip
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import geometric_mean, median
from sys import stderr
from typing import Any

from bench.allocate.peer import Peer
from headrace.cel.device import compile_selector
from headrace.cel.errors import EvaluationError
from headrace.devices.allocate.device import Device, Slice
from headrace.devices.allocate.selectors import Selectors

Json = Mapping[str, Any]

DATA = Path(__file__).parents[2] / "tests" / "cel" / "data"
BATCHES = 5
GOAL = 5
GPU = 'device.attributes["gpu.example.com"]'
TYPICAL = {
    "driver": 'device.driver == "gpu.example.com"',
    "string": f'{GPU}.model == "A100"',
    "two strings and a number": f'device.driver == "gpu.example.com" && {GPU}.model == "A100" && {GPU}.numaNode < 2',
    "has": f"has({GPU}.mig) && !{GPU}.mig",
    "optional": f"{GPU}.?mig.orValue(false) == false",
    "quantity": 'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0',
    "version": f'{GPU}.driverVersion.isGreaterThan(semver("540.0.0"))',
    "pattern": f'{GPU}.model.matches("^A1[0-9]+")',
    "one of": f'{GPU}.model in ["A100", "H100", "H200"]',
    "bind": f'cel.bind(gpu, {GPU}, gpu.model == "A100" && gpu.numaNode == 0)',
    "exists": 'device.attributes.exists(domain, domain == "gpu.example.com")',
}


@dataclass
class Row:
    """Nanoseconds: of a compilation, and of an evaluation on each device."""

    theirs: list[float]
    known: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)
    compiled: float = float("inf")
    is_different: bool = False


def cpu_ns(number: int, call: Callable[[], object]) -> float:
    """The least CPU time of one call over batches of so many."""
    found = float("inf")
    for _ in range(BATCHES):
        begun = time.thread_time_ns()
        for _ in range(number):
            call()
        found = min(found, (time.thread_time_ns() - begun) / number)
    return found


def as_device(published: Json) -> Device:
    spec = {key: value for key, value in published.items() if key not in ("driver", "name")}
    devices = [{"name": published["name"], **spec}]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": published["driver"], "nodeName": "n", "pool": pool, "devices": devices}
    found = Slice({"metadata": {"name": "s"}, "spec": spec})
    found.read()
    return found.devices[0]


def measured(peer: Peer, expression: str, published: list[Json], times: int, rounds: int) -> Row | None:
    """None where Kubernetes does not compile it."""
    row: Row | None = None
    question = {"name": expression, "expression": expression, "devices": published}
    for _ in range(rounds):
        theirs = peer.ask(question, mode="selector", pods=times)
        if theirs["outcome"] != "compiled":
            return None
        row = row or Row(theirs["times"], [float("inf")] * len(published), [float("inf")] * len(published))
        row.theirs = [min(pair) for pair in zip(row.theirs, theirs["times"], strict=True)]
        row.compiled = min(row.compiled, cpu_ns(max(times // 50, 1), lambda: compile_selector(expression, "stored")))
        for at, device in enumerate(map(as_device, published)):
            verdict, known, new = ours(expression, device, times)
            row.is_different |= verdict != theirs["picks"][at]
            row.known[at], row.new[at] = min(row.known[at], known), min(row.new[at], new)
    return row


def ours(expression: str, device: Device, times: int) -> tuple[str, float, float]:
    """The verdict, and the time of an evaluation on a device that has been read and on one that has not."""
    selector = compile_selector(expression, "stored")
    prepared = Selectors().prepared(device)
    answer = selector.answer(prepared)
    known = cpu_ns(times, lambda: selector.answer(prepared))
    new = cpu_ns(times, lambda: Selectors().evaluated(selector, device))
    return "error" if isinstance(answer, EvaluationError) else str(answer).lower(), known, new


def line(row: Row, name: str) -> str:
    """One line, with the times of all devices as one."""
    theirs, known, new = (geometric_mean(each) for each in (row.theirs[1:], row.known, row.new))
    cells = [name, us(row.theirs[0]), us(row.compiled), us(theirs), us(known), f"{theirs / known:.1f}"]
    cells += [us(new), f"{theirs / new:.1f}", "DIFFERENT" if row.is_different else ""]
    return f"| {' | '.join(cells)} |"


def us(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e3:.3g} us"


def read(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def kinds(peer: Peer, published: list[Json], times: int, rounds: int) -> Iterator[str]:
    """The stored expressions by kind: the ratio in the middle, the worst, and how many reach five."""
    by_kind: dict[str, list[float]] = defaultdict(list)
    for each in read("expressions"):
        row = measured(peer, each["expr"], published, times, rounds)
        if row is not None:
            ratio = geometric_mean(row.theirs[1:]) / geometric_mean(row.known)
            by_kind[each["id"].rpartition("-")[0]].append(ratio)
            if ratio < GOAL or row.is_different:
                print(f"{ratio:.1f} {'DIFFERENT ' if row.is_different else ''}{each['id']} {each['expr']}", file=stderr)
    for kind, ratios in by_kind.items():
        reach = sum(ratio >= GOAL for ratio in ratios)
        yield f"| {kind} | {len(ratios)} | {median(ratios):.1f} | {min(ratios):.1f} | {reach} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--times", type=int, default=200)
    asked = parser.parse_args()
    published = [each for each in read("devices") if each["name"] != "list0"]
    gc.collect()
    gc.freeze()
    with Peer() as peer:
        print(
            "| selector | Kubernetes compiles in | headrace in | evaluates in | headrace in | times faster | ", end=""
        )
        print("headrace, unread device | times faster | |\n|---|---|---|---|---|---|---|---|---|")
        for name, expression in TYPICAL.items():
            row = measured(peer, expression, published, asked.times, asked.rounds)
            assert row is not None
            print(line(row, name), flush=True)
        print("\n| expressions of the tests | number | times faster, in the middle | at worst | at least 5 times |")
        print("|---|---|---|---|---|")
        for each in kinds(peer, published, max(asked.times // 4, 10), asked.rounds):
            print(each, flush=True)


if __name__ == "__main__":
    main()
