"""Every answer of Kubernetes' own allocator (v0.37.2), exact: results, order, errors, and the steps of its walk."""

import gzip
import json
import re
from collections import defaultdict
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from headrace.devices.allocate.allocator import Allocated, Failed, Search
from headrace.devices.allocate.answers import answer, inventory_of
from headrace.devices.allocate.nodes import name_of

CASES = Path(__file__).parents[1] / "data" / "allocate.jsonl.gz"
TAGS = (
    "basic",
    "selectors",
    "cel-runtime-error",
    "cel-compile-error",
    "all",
    "first-available",
    "match-attribute",
    "distinct-attribute",
    "multi-claim",
    "pools",
    "node-selection",
    "admin-access",
    "taints",
    "partitionable",
    "consumable-capacity",
    "consumable+counters",
    "binding-conditions",
    "config",
    "backtracking",
    "limits",
    "odd-objects",
    "edge",
    "features-off",
    "mixed",
    "one-node",
    "alpha-list-attributes",
    "alpha-compat-groups",
    "alpha-derived-attributes",
    "alpha-skip-node-ops",
)


@cache
def by_tag() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with gzip.open(CASES, "rt") as lines:
        for line in lines:
            case = json.loads(line)
            found[case["tags"][0]].append(case)
    return found


def comparable(fields: Any) -> Any:
    """Share ids are any text."""
    return json.loads(re.sub(r'"shareID": "[^"]*"', '"shareID": "any"', json.dumps(fields)))


def test_every_tag_is_tested() -> None:
    assert set(by_tag()) == set(TAGS)
    assert sum(map(len, by_tag().values())) == 2802


@pytest.mark.parametrize("tag", TAGS)
def test_answers_are_those_of_kubernetes(tag: str) -> None:
    for case in by_tag()[tag]:
        expected = {key: value for key, value in case["expect"].items() if key not in ("steps", "celError")}
        assert comparable(answer(case)) == comparable({"name": case["name"], **expected}), case["name"]


@pytest.mark.parametrize("tag", TAGS)
def test_the_plain_walk_takes_kubernetes_own_steps(tag: str) -> None:
    for case in by_tag()[tag]:
        assert plain_steps(case) == case["expect"]["steps"], case["name"]


def plain_steps(case: dict[str, Any]) -> int:
    inventory, ids, steps = inventory_of(case), (str(number) for number in count()), 0
    for node in case["nodes"]:
        if case["node"] not in ("*", name_of(node)):
            continue
        search = Search(node, case["claims"], inventory, ids, is_plain=True)
        while (outcome := search.run()) is None:
            pass
        if search.solving is not None and search.solving.walk is not None:
            steps += search.solving.walk.steps
        if isinstance(outcome, Allocated) or (isinstance(outcome, Failed) and outcome.fatal):
            break
    return steps
