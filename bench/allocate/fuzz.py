"""Fresh random cases, answered by Kubernetes' allocator and by ours: every difference is printed and counts as failure.

python -m bench.allocate.fuzz --cases 10000 [--seed 1]
"""

import argparse
import json
import re
import sys
import time
from typing import Any

from bench.allocate.peer import Peer
from headrace.devices.allocate.answers import answer
from tests.devices.allocate.scenarios import case

SKIPPED = "context deadline exceeded"


def comparable(found: dict[str, Any]) -> dict[str, Any]:
    """Without what is free to differ: share ids, CEL's details, our short name of an error."""
    text = json.dumps({key: value for key, value in found.items() if key not in ("errorKind", "times")})
    text = re.sub(r'"shareID": "[^"]*"', '"shareID": "any"', text)
    compared: dict[str, Any] = json.loads(text)
    if "error" in compared:
        compared["error"] = re.split(r"(?<=CEL runtime error)|(?<=CEL compile error)", compared["error"])[0]
    return compared


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args()
    different = skipped = 0
    with Peer() as peer:
        for seed in range(asked.seed, asked.seed + asked.cases):
            problem = case(seed, devices=6 + seed % 6, error_rate=(0.0, 0.02, 0.2)[seed % 3])
            theirs = peer.ask(problem, mode="answer", limit=0.5)
            if SKIPPED in theirs.get("error", ""):
                skipped += 1
                continue
            if comparable(theirs) != comparable(answer(problem)):
                different += 1
                print(f"seed {seed}\n  Kubernetes {theirs}\n  headrace   {answer(problem)}")
    print(f"{asked.cases} cases from seed {asked.seed}: {different} different, {skipped} not answered by Kubernetes")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
