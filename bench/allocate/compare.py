"""Kubernetes' allocator and ours on the same cases, in turns in one run; a table in Markdown goes to standard output.

    python -m bench.allocate.compare [--seconds 0.3] [--rounds 3]

Each figure is the smallest of all repetitions of all rounds, so that a busy machine harms both sides alike. Kubernetes
works with a warm CEL cache of the scheduler's size (10) except where the row says cold; ours is asked through the
public interface, and every row says whether it may use answers it has kept.
"""

import argparse
import gc
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import orjson

from bench.allocate.clusters import ASKED, Case, cluster, inventory, new_ids
from bench.allocate.peer import Peer
from headrace.devices.allocate.allocator import Allocated, Outcome, Search
from headrace.devices.allocate.answers import answer
from headrace.devices.allocate.inventory import Inventory
from headrace.devices.allocate.standing import Standing
from tests.devices.allocate.shapes import EVERYDAY, EXPLODING, claim, want

LIMIT_SECONDS = 10.0
SLICE = 2_000


@dataclass
class Row:
    """Best times in seconds. `theirs` stays None where Kubernetes met its limit."""

    name: str
    theirs: float | None = None
    ours: float = float("inf")
    met_limit: bool = False
    remarks: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        theirs = f"> {shown(LIMIT_SECONDS)}" if self.met_limit else shown(self.theirs or 0.0)
        ratio = (LIMIT_SECONDS if self.met_limit else self.theirs or 0.0) / self.ours
        sign = "> " if self.met_limit else ""
        times = f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"
        return f"| {self.name} | {theirs} | {shown(self.ours)} | {sign}{times} | {'; '.join(self.remarks)} |"


def shown(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} us"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def best(once: Callable[[], float], seconds: float) -> float:
    """The shortest of repetitions. What was there before is kept out of Python's garbage collection."""
    gc.collect()
    gc.freeze()
    found, begun = once(), time.perf_counter()
    while time.perf_counter() - begun < seconds:
        found = min(found, once())
    gc.unfreeze()
    return found


def solved(case: Case, made: Inventory) -> Outcome:
    for node in case["nodes"]:
        search = Search(node, case["claims"], made, new_ids())
        while (outcome := search.run(SLICE)) is None:
            pass
        if isinstance(outcome, Allocated):
            return outcome
    return outcome


def shapes(peer: Peer, cases: Mapping[str, Case], seconds: float, rounds: int, *, keep: bool) -> Iterator[Row]:
    """One node. Without `keep` nothing that was found out about the demand before is used."""
    for name, case in cases.items():
        row, made = Row(name), inventory(case)

        def once(case: Case = case, made: Inventory = made) -> float:
            if not keep:
                made.forget_answers()
            begun = time.perf_counter()
            solved(case, made)
            return time.perf_counter() - begun

        for _ in range(rounds):
            if not row.met_limit:
                theirs = peer.ask(case, mode="answer", seconds=seconds, limit=LIMIT_SECONDS)
                row.met_limit = "deadline" in theirs.get("error", "")
                if not row.met_limit:
                    row.theirs = min(row.theirs or float("inf"), theirs["times"][0] / 1e9)
                    if theirs["outcome"] != answer(case)["outcome"]:
                        row.remarks.append("DIFFERENT")
            row.ours = min(row.ours, best(once, seconds))
        yield row


def filtering(peer: Peer, nodes: int, seconds: float, rounds: int) -> Iterator[Row]:
    """All nodes, warm: which of them fit, and the result of the first. With the results of all of them as a remark."""
    for name, asked in ASKED.items():
        case = cluster(nodes, asked)
        made, row = inventory(case), Row(f"{nodes}x8 {name}")
        fitting = 0

        def once(case: Case = case, made: Inventory = made) -> float:
            nonlocal fitting
            begun = time.perf_counter()
            standing = Standing(made, case["claims"])
            while not standing.run(SLICE):
                pass
            if standing.first is not None:
                standing.results(standing.first, new_ids())
            spent, fitting = time.perf_counter() - begun, sum(1 for _ in standing.names())
            return spent

        def all_results(case: Case = case, made: Inventory = made) -> float:
            begun = time.perf_counter()
            standing = Standing(made, case["claims"])
            while not standing.run(SLICE):
                pass
            ids = new_ids()
            for each in standing.names():
                standing.results(each, ids)
            return time.perf_counter() - begun

        once()
        with_results = float("inf")
        for _ in range(rounds):
            theirs = peer.ask(case, mode="filter", seconds=seconds)
            with_results = min(with_results, best(all_results, seconds))
            row.theirs = min(row.theirs or float("inf"), theirs["times"][0] / 1e9)
            row.ours = min(row.ours, best(once, seconds))
            if theirs.get("fitting", 0) != fitting:
                row.remarks.append("DIFFERENT")
        row.remarks.append(f"{fitting} nodes fit; all results {shown(with_results)}")
        yield row


def cold(peer: Peer, nodes: int, seconds: float, rounds: int) -> Iterator[Row]:
    """All nodes, slices decoded on both sides, nothing else known: selectors compiled and evaluated. In CPU time."""
    for name, asked in ASKED.items():
        case, row = cluster(nodes, asked), Row(f"{nodes}x8 {name}, cold")

        load = float("inf")

        def once(case: Case = case) -> float:
            nonlocal load
            begun = time.thread_time()
            made = inventory(case)
            load = min(load, time.thread_time() - begun)
            begun = time.thread_time()
            standing = Standing(made, case["claims"])
            while not standing.run(SLICE):
                pass
            return time.thread_time() - begun

        fitting = sum(1 for _ in fitting_names(case))
        for _ in range(rounds):
            theirs = peer.ask(case, mode="cold", seconds=seconds)
            if theirs.get("fitting", 0) != fitting:
                row.remarks.append("DIFFERENT")
            row.theirs = min(row.theirs or float("inf"), theirs["times"][0] / 1e9)
            row.ours = min(row.ours, best(once, seconds))
        row.remarks.append(f"reading the events that made the index: {shown(load)}")
        yield row


def fitting_names(case: Case) -> Iterator[str]:
    standing = Standing(inventory(case), case["claims"])
    while not standing.run(SLICE):
        pass
    return standing.names()


def starts(peer: Peer, nodes: int, seconds: float, rounds: int) -> Iterator[Row]:
    """The cold case from the bytes of the slices on: protobuf there, as its scheduler has them, JSON here. CPU time."""
    for name, asked in ASKED.items():
        case, row = cluster(nodes, asked), Row(f"{nodes}x8 {name}, from bytes")
        encoded = [orjson.dumps(each) for each in case["slices"]]

        def once(case: Case = case, encoded: list[bytes] = encoded) -> float:
            begun = time.thread_time()
            made = inventory({**case, "slices": [orjson.loads(each) for each in encoded]})
            standing = Standing(made, case["claims"])
            while not standing.run(SLICE):
                pass
            return time.thread_time() - begun

        for _ in range(rounds):
            theirs = peer.ask(case, mode="start", seconds=seconds)
            row.theirs = min(row.theirs or float("inf"), theirs["times"][0] / 1e9)
            row.ours = min(row.ours, best(once, seconds))
        yield row


def streams(peer: Peer, nodes: int, pods: int) -> Iterator[Row]:
    """Pods one after the other, each on the first node that fits; the picks must be the same. Ours in CPU time."""
    turns = [[claim(want("r", 1 + at % 2))] for at in range(4)]
    for name, asked in (("count=1", turns[:1]), ("2+1 same group", [[ASKED["2+1 gpus same group, 2 selectors"]]])):
        case, row = cluster(nodes), Row(f"stream of Pods on {nodes}x8, {name}")
        theirs = peer.ask(case, mode="stream", pods=pods, turns=asked)
        row.theirs = sorted(theirs["times"])[len(theirs["times"]) // 2] / 1e9
        times, picks, slowest = stream(case, asked, pods)
        first, later = times[0], sorted(times[1:])
        row.ours = later[len(later) // 2]
        row.remarks += [
            f"p99 {shown(later[len(later) * 99 // 100])}",
            f"first sight {shown(first)}, its longest slice {shown(slowest)}",
        ]
        if picks != theirs["picks"]:
            row.remarks.append("DIFFERENT")
        yield row


def stream(case: Case, asked: list[list[Case]], pods: int) -> tuple[list[float], list[str], float]:
    """Seconds for each Pod, what each got, and the longest slice of work (thread CPU time)."""
    made, times, picks, slowest = inventory(case), [], [], 0.0
    standing = [Standing(made, each) for each in asked]
    gc.collect()
    gc.freeze()
    for pod in range(pods):
        begun = time.thread_time()
        turn = pod % len(asked)
        while True:
            at = time.thread_time()
            is_over = standing[turn].run(SLICE)
            slowest = max(slowest, time.thread_time() - at)
            if is_over:
                break
        node = made.nodes[standing[turn].first or ""]
        outcome = solved({"nodes": [node], "claims": asked[turn]}, made)
        assert isinstance(outcome, Allocated)
        results = [result for each in outcome.results for result in each["devices"]["results"]]
        made.hold(f"pod-{pod}", results)
        times.append(time.thread_time() - begun)
        picks.append("".join(f"{result['pool']}/{result['device']} " for result in results))
    gc.unfreeze()
    return times, picks, slowest


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nodes", type=json.loads, default=[100, 1000])
    asked = parser.parse_args()
    again = {f"{name}, asked again": case for name, case in EVERYDAY.items()}
    print("| case | Kubernetes | headrace | times faster | |\n|---|---|---|---|---|")
    with Peer() as peer:
        sections = (
            shapes(peer, EXPLODING, asked.seconds, asked.rounds, keep=False),
            shapes(peer, EVERYDAY, asked.seconds, asked.rounds, keep=False),
            shapes(peer, again, asked.seconds, asked.rounds, keep=True),
            *(filtering(peer, nodes, asked.seconds, asked.rounds) for nodes in asked.nodes),
            *(cold(peer, nodes, asked.seconds, asked.rounds) for nodes in asked.nodes),
            *(starts(peer, nodes, asked.seconds, asked.rounds) for nodes in asked.nodes),
            streams(peer, 1000, 400),
        )
        for section in sections:
            for row in section:
                print(row, flush=True)


if __name__ == "__main__":
    main()
