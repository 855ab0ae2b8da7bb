"""Fresh random cases, answered by Kubernetes' allocator and by ours: every difference is printed and counts as failure.

python -m bench.allocate.fuzz --cases 10000 [--seed 1] [--kind new|known|odd]
"""

import argparse
import gzip
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args

from bench.allocate.peer import Peer
from headrace.devices.allocate.answers import answer
from headrace.devices.allocate.features import Features
from tests.devices.allocate.odd_scenarios import odd_case
from tests.devices.allocate.scenarios import case

KNOWN = Path(__file__).parents[2] / "tests" / "devices" / "data" / "allocate.jsonl.gz"
_DETAIL = re.compile(r"(?<=CEL runtime error)|(?<=CEL compile error)|(?<= failed)(?=: )")
SKIPPED = "context deadline exceeded"
SHOWN = "failed to perform node selection for device"  # what follows shows Go's memory
Kind = Literal["new", "known", "odd"]
ASKED_AGAIN = 20
"""Of several wrong amounts of a device Kubernetes tells the one that comes first in Go's random order of maps."""


def comparable(found: dict[str, Any]) -> dict[str, Any]:
    """Without what is free to differ: share ids, CEL's details, our short name of an error."""
    text = json.dumps({key: value for key, value in found.items() if key not in ("errorKind", "times")})
    text = re.sub(r'"shareID": "[^"]*"', '"shareID": "any"', text)
    compared: dict[str, Any] = json.loads(text)
    if "error" in compared:
        compared["error"] = _DETAIL.split(compared["error"])[0].split(SHOWN)[0]
    return compared


def mutated(seed: int, cases: list[dict[str, Any]]) -> dict[str, Any]:
    """A known case with a few things changed: slices, claims of its kin, devices in use, nodes, gates."""
    random = Random(seed)
    found: dict[str, Any] = json.loads(json.dumps(random.choice(cases)))
    kin = [each for each in cases if each["tags"] == found["tags"]]
    for _ in range(random.randint(1, 4)):
        random.choice((_use, _drop_slice, _other_claims, _more_claims, _any_node, _gates))(random, found, kin)
    return {**{key: value for key, value in found.items() if key not in ("expect", "tags")}, "name": f"mutated-{seed}"}


def _use(random: Random, found: dict[str, Any], kin: list[dict[str, Any]]) -> None:
    slices = [each["spec"] for each in found["slices"] if each["spec"].get("devices")]
    if not slices:
        return
    spec = random.choice(slices)
    device = random.choice(spec["devices"])
    used = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
    if device.get("allowMultipleAllocations") and random.random() < 0.8:
        used["shareID"] = f"share-{random.random()}"
    found.setdefault("allocated", []).append(used)


def _drop_slice(random: Random, found: dict[str, Any], kin: list[dict[str, Any]]) -> None:
    if found["slices"]:
        found["slices"].pop(random.randrange(len(found["slices"])))


def _other_claims(random: Random, found: dict[str, Any], kin: list[dict[str, Any]]) -> None:
    found["claims"] = random.choice(kin)["claims"]


def _more_claims(random: Random, found: dict[str, Any], kin: list[dict[str, Any]]) -> None:
    found["claims"] = [*found["claims"], *random.choice(kin)["claims"]][:4]


def _any_node(random: Random, found: dict[str, Any], kin: list[dict[str, Any]]) -> None:
    found["node"] = random.choice(["*", *(node["metadata"]["name"] for node in found["nodes"])])


def _gates(random: Random, found: dict[str, Any], kin: list[dict[str, Any]]) -> None:
    names = [field.name for field in fields(Features)]
    alpha = random.random() < 0.3
    found["features"] = {name: random.random() < 0.8 for name in (names if alpha else names[:7])}


def differences(peer: Peer, seeds: Iterable[int], kind: Kind) -> Iterator[str | None]:
    """For each seed what differs, or "" for nothing; None where Kubernetes does not come to an answer."""
    make: dict[Kind, Callable[[int], dict[str, Any]]] = {"new": made, "odd": odd_case}
    if kind == "known":
        with gzip.open(KNOWN, "rt") as lines:
            known = [json.loads(line) for line in lines]
        make["known"] = lambda seed: mutated(seed, known)
    for seed in seeds:
        problem = make[kind](seed)
        ours = comparable(answer(problem))
        for _ in range(ASKED_AGAIN):
            theirs = peer.ask(problem, mode="answer", limit=0.5)
            if SKIPPED in theirs.get("error", "") or theirs["outcome"] == "panic":
                yield None
                break
            if comparable(theirs) == ours:
                yield ""
                break
        else:
            yield f"seed {seed}\n  Kubernetes {theirs}\n  headrace   {ours}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument(
        "--kind", choices=get_args(Kind), default="new",
        help="new cases, known ones with a few things changed, or cases with all that objects may and may not hold",
    )  # fmt: skip
    asked = parser.parse_args()
    different = skipped = 0
    with Peer() as peer:
        for found in differences(peer, range(asked.seed, asked.seed + asked.cases), asked.kind):
            skipped += found is None
            different += bool(found)
            if found:
                print(found)
    print(f"{asked.cases} cases from seed {asked.seed}: {different} different, {skipped} not answered by Kubernetes")
    return 1 if different else 0


def made(seed: int) -> dict[str, Any]:
    return case(seed, devices=6 + seed % 6, error_rate=(0.0, 0.02, 0.2)[seed % 3])


if __name__ == "__main__":
    sys.exit(main())
