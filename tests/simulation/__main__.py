"""`python -m tests.simulation --seeds 100`: many histories; a failing one prints the command that replays it."""

import argparse
import os
import sys
import time
import traceback

from tests.simulation.harness.laws import Violation
from tests.simulation.harness.simulation import simulate

MOST_FAILURES = 5  # more would tell nothing new


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many, from --first on")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seed", type=int, help="replay just this one")
    parser.add_argument("--trace", action="store_true", help="print all that happened")
    arguments = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a history
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    seeds = (
        [arguments.seed] if arguments.seed is not None else range(arguments.first, arguments.first + arguments.seeds)
    )
    failed, run, commits, faults, started = [], 0, 0, 0, time.monotonic()
    for run, seed in enumerate(seeds, 1):  # noqa: B007
        try:
            told = simulate(seed)
        except Exception as error:
            failed.append(seed)
            _print(error)
            print(f"seed {seed} failed", flush=True)
            if len(failed) == MOST_FAILURES:
                break
            continue
        commits, faults = commits + told.commits, faults + told.faults
        if arguments.trace:
            print("\n".join(told.trace))
    minutes = (time.monotonic() - started) / 60
    print(
        f"simulation: {run} seeds, {commits} commits, {faults} faults beside those of each message, "
        f"{len(failed)} failed{f' ({failed})' if failed else ''}, {minutes:.1f} minutes"
    )
    return 1 if failed else 0


def _print(error: Exception) -> None:
    """A violation tells enough by itself; anything else is a fault that needs its traceback."""
    print("\n".join(getattr(error, "__notes__", ())))
    if isinstance(error, Violation):
        print(f"violation: {error}")
    else:
        traceback.print_exception(error)


if __name__ == "__main__":
    sys.exit(main())
