"""Allocation cases as lines of JSON: what `headrace simulate allocate` reads and answers.

A case holds nodes, slices, classes, claims and what is allocated; `node` is a name, or `*` for the first that fits.
"""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from headrace.devices.allocate.allocator import Allocated, Failed, GaveUp, allocate
from headrace.devices.allocate.features import DEFAULT, Features
from headrace.devices.allocate.inventory import Inventory
from headrace.devices.allocate.nodes import name_of

Json = Mapping[str, Any]

_WITHOUT_DETAIL = {
    "cel-runtime": "CEL runtime error",
    "cel-compile": "CEL compile error",
    "derived-compile": " failed",
    "derived-runtime": " failed",
}


def answer(case: Json) -> dict[str, Any]:
    """The answer to one case: name, outcome, and what the outcome has to say."""
    inventory = inventory_of(case)
    share_ids = (f"share-{number}" for number in count())
    wanted = case.get("node", "*")
    nodes = case.get("nodes") or []
    chosen = nodes if wanted == "*" else [node for node in nodes if name_of(node) == wanted]
    return {"name": case.get("name", ""), **_first_that_fits(chosen, case, inventory, share_ids)}


def inventory_of(case: Json) -> Inventory:
    features = case.get("features")
    inventory = Inventory(DEFAULT if features is None else Features.exactly(features))
    for number, each in enumerate(case.get("slices") or ()):
        inventory.put_slice(str(number), each)
    for each in case.get("classes") or ():
        inventory.put_class(each)
    inventory.hold("allocated", case.get("allocated") or ())
    return inventory


def _first_that_fits(nodes: list[Json], case: Json, inventory: Inventory, share_ids: Iterator[str]) -> dict[str, Any]:
    errors: dict[str, str] = {}
    found: dict[str, Any] = {"outcome": "unsatisfiable"}
    for node in nodes:
        outcome = allocate(node, case.get("claims") or (), inventory, share_ids)
        if isinstance(outcome, Failed) and not outcome.fatal:
            errors[name_of(node)] = outcome.error
        elif isinstance(outcome, Failed):
            error = _without_detail(outcome)
            found = {"outcome": "error", "node": name_of(node), "error": error, "errorKind": outcome.kind}
            break
        elif isinstance(outcome, GaveUp):
            found = {"outcome": "error", "node": name_of(node), "error": outcome.text, "errorKind": "gave-up"}
            break
        elif isinstance(outcome, Allocated):
            found = {"outcome": "allocated", "node": name_of(node)}
            if outcome.results:
                found["results"] = outcome.results
            break
    if errors:
        found["nodeErrors"] = errors
    return found


def _without_detail(failed: Failed) -> str:
    """CEL's own words differ between versions: the text ends where they begin."""
    end = _WITHOUT_DETAIL.get(failed.kind)
    return failed.error if end is None else failed.error.split(end)[0] + end
