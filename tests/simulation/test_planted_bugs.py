import pytest

from tests.simulation.harness.laws import Violation
from tests.simulation.harness.planted_bugs import PLANTED, PlantedBug
from tests.simulation.harness.simulation import simulate


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: PlantedBug):
    for seed in bug.seeds:
        with bug.plant() as faults:
            try:
                simulate(seed, faults)
            except Violation:
                return
    pytest.fail(f"{len(bug.seeds)} seeds did not find it")
