"""The pruned walk is the plain walk without dead branches: the same outcome, always, and never many times the work."""

from itertools import count
from typing import Any

import pytest

from headrace.devices.allocate.allocator import Allocated, GaveUp, Outcome, Search, Unsatisfiable
from headrace.devices.allocate.answers import inventory_of
from headrace.devices.allocate.fast import FastWalk
from headrace.devices.allocate.inventory import Inventory
from tests.devices.allocate.scenarios import case
from tests.devices.allocate.shapes import EVERYDAY, EXPLODING, GPU, claim, gpus, want
from tests.devices.allocate.shapes import case as shape

PLAIN_LIMIT = 100_000


def solved(problem: dict[str, Any], *, is_plain: bool = False, limit: int = PLAIN_LIMIT) -> tuple[Search, Outcome]:
    return ended(problem, inventory_of(problem), is_plain=is_plain, limit=limit)


def ended(problem: dict[str, Any], inventory: Inventory, *, is_plain: bool, limit: int) -> tuple[Search, Outcome]:
    ids = (f"share-{number}" for number in count())
    search = Search(problem["nodes"][0], problem["claims"], inventory, ids, limit, is_plain=is_plain)
    while (outcome := search.run()) is None:
        pass
    return search, outcome


@pytest.mark.parametrize("error_rate", [0.02, 0.2])
@pytest.mark.parametrize("block", range(10))
def test_random_cases_have_the_outcome_of_the_plain_walk(block: int, error_rate: float) -> None:
    for seed in range(block * 150, block * 150 + 150):
        problem = case(seed, error_rate=error_rate)
        _, plain = solved(problem, is_plain=True)
        if not isinstance(plain, GaveUp):
            assert solved(problem)[1] == plain, seed


@pytest.mark.parametrize("error_rate", [0.02, 0.2])
def test_what_earlier_demands_found_out_about_the_devices_changes_no_outcome(error_rate: float) -> None:
    for seed in range(20_000, 20_150):
        problem = case(seed, error_rate=error_rate)
        inventory = inventory_of(problem)
        for other in range(seed, seed + 8):
            asked = {**problem, "claims": case(other)["claims"]}
            _, plain = ended(asked, inventory, is_plain=True, limit=PLAIN_LIMIT)
            if not isinstance(plain, GaveUp):
                assert ended(asked, inventory, is_plain=False, limit=PLAIN_LIMIT)[1] == plain, (seed, other)


def test_many_devices_have_the_outcome_of_the_plain_walk_where_that_ends() -> None:
    for seed in range(10_000, 10_150):
        problem = case(seed, devices=14)
        _, plain = solved(problem, is_plain=True)
        _, fast = solved(problem)
        assert not isinstance(fast, GaveUp), seed
        if not isinstance(plain, GaveUp):
            assert fast == plain, seed


@pytest.mark.parametrize("name", EXPLODING)
def test_what_explodes_elsewhere_ends_here_after_little_work(name: str) -> None:
    search, outcome = solved(EXPLODING[name])
    assert outcome == Unsatisfiable()
    assert search.solving is not None
    assert isinstance(search.solving.walk, FastWalk)
    assert search.solving.work < 10_000  # a unit is about two microseconds


@pytest.mark.parametrize("name", EVERYDAY)
def test_everyday_shapes_are_served_as_the_plain_walk_serves_them(name: str) -> None:
    _, outcome = solved(EVERYDAY[name])
    assert isinstance(outcome, Allocated)
    assert outcome == solved(EVERYDAY[name], is_plain=True)[1]


def test_a_missing_device_is_found_out_before_an_error_that_the_walk_would_not_reach() -> None:
    """The last request's selector fails on every NIC; no branch gets as far, and none of them is walked."""
    failing = {"cel": {"expression": f'device.attributes["{GPU}"].nothing == 1'}}
    problem = shape(gpus(64), claim(want("gpu", 8), want("nic", kind="nic"), want("odd", selectors=[failing])))
    search, outcome = solved(problem)
    assert outcome == Unsatisfiable()
    assert search.solving is not None
    assert search.solving.work < 10_000


def test_the_search_gives_up_at_its_limit_and_names_the_request() -> None:
    search, outcome = solved(EXPLODING["gpu 8 of 64 + missing nic"], is_plain=True, limit=5_000)
    assert isinstance(outcome, GaveUp)
    assert outcome.request == "claim default/c, request nic"
    assert outcome.text.startswith("search gave up after ")
    assert search.run() is not None


def test_a_search_can_be_run_in_any_slices() -> None:
    for seed in range(200):
        problem = case(seed)
        ids = (f"share-{number}" for number in count())
        search = Search(problem["nodes"][0], problem["claims"], inventory_of(problem), ids)
        while (outcome := search.run(1)) is None:
            pass
        assert outcome == solved(problem, limit=10**9)[1], seed


@pytest.mark.parametrize("name", EXPLODING)
def test_a_slice_of_work_is_not_much_more_than_was_asked(name: str) -> None:
    problem = EXPLODING[name]
    search = Search(problem["nodes"][0], problem["claims"], inventory_of(problem), iter(()))
    assert search.solving is not None
    before, outcome = 0, None
    while outcome is None:
        outcome = search.run(500)
        assert search.solving.work - before < 1_500
        before = search.solving.work
