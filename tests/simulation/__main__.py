"""`python -m tests.simulation --seeds 100`: many histories; a failing one prints the command that replays it."""

import argparse
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice

from tests.simulation.harness.laws import Violation
from tests.simulation.harness.simulation import simulate

MOST_FAILURES = 5  # more would tell nothing new
PROGRESS_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a seed. `failure` is what to print of it, empty if all laws held; `cpu` is in seconds."""

    seed: int
    failure: str = ""
    commits: int = 0
    faults: int = 0
    cpu: float = 0.0
    trace: tuple[str, ...] = ()


def history(seed: int, keep_trace: bool = False) -> Result:
    began = time.process_time()
    try:
        told = simulate(seed)
    except Exception as error:
        return Result(seed, _failure(error), cpu=time.process_time() - began)
    trace = tuple(told.trace) if keep_trace else ()
    return Result(seed, "", told.commits, told.faults, time.process_time() - began, trace)


def _failure(error: Exception) -> str:
    """A violation tells enough by itself; anything else is a fault that needs its traceback."""
    notes = "\n".join(getattr(error, "__notes__", ()))
    if isinstance(error, Violation):
        return f"{notes}\nviolation: {error}"
    return notes + "\n" + "".join(traceback.format_exception(error))


def in_processes(seeds: Sequence[int], processes: int) -> Iterator[Result | None]:
    """One history a process at a time, in the order they end; None when it is time to tell how far it is."""
    waiting = iter(seeds)
    with ProcessPoolExecutor(processes) as pool:
        under_way: set[Future[Result]] = set()
        while True:
            # No more than are needed to keep all busy: who stops early waits for these only.
            under_way |= {pool.submit(history, seed) for seed in islice(waiting, 2 * processes - len(under_way))}
            if not under_way:
                return
            ended, under_way = wait(under_way, PROGRESS_SECONDS, FIRST_COMPLETED)
            if not ended:
                yield None
            for each in ended:
                yield each.result()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many, from --first on")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seed", type=int, help="replay just this one")
    parser.add_argument("--trace", action="store_true", help="with --seed: print all that happened")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="as many as processors")
    arguments = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a history
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    if arguments.seed is not None:
        return _tell([history(arguments.seed, arguments.trace)], 1)
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    return _tell(in_processes(seeds, arguments.processes), len(seeds))


def _tell(results: Iterator[Result | None] | list[Result], wanted: int) -> int:
    ended: list[Result] = []
    started = told_at = time.monotonic()
    for result in results:
        if result is not None:
            ended.append(result)
            if result.trace:
                print("\n".join(result.trace))
            if result.failure:
                print(
                    f"{result.failure}\nseed {result.seed} failed; replay it: make simulate SEED={result.seed}",
                    flush=True,
                )
        if time.monotonic() - told_at >= PROGRESS_SECONDS:
            told_at = time.monotonic()
            print(f"simulation: {len(ended)} of {wanted} seeds after {told_at - started:.0f} s", flush=True)
        if sum(1 for each in ended if each.failure) >= MOST_FAILURES:
            break
    failed = sorted(each.seed for each in ended if each.failure)
    cpu = sum(each.cpu for each in ended)
    print(
        f"simulation: {len(ended)} seeds, {sum(each.commits for each in ended)} commits, "
        f"{sum(each.faults for each in ended)} faults beside those of each message, "
        f"{len(failed)} failed{f' ({failed})' if failed else ''}, {(time.monotonic() - started) / 60:.1f} minutes, "
        f"{cpu:.0f} s of CPU ({cpu / max(1, len(ended)):.2f} a seed)"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
