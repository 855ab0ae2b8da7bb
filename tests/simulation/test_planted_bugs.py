import pytest

from tests.simulation.harness.laws import Violation
from tests.simulation.harness.planted_bugs import PLANTED, PlantedBug
from tests.simulation.harness.simulation import simulate

SEEDS = 60


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: PlantedBug):
    for seed in range(1, SEEDS + 1):
        with bug.plant() as faults:
            try:
                simulate(seed, faults)
            except Violation:
                return
    pytest.fail(f"{SEEDS} seeds did not find it")
