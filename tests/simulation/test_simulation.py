import asyncio

import pytest

from tests.simulation.harness.faults import Faults
from tests.simulation.harness.loop import NothingLeft, run
from tests.simulation.harness.simulation import simulate


@pytest.mark.parametrize("seed", range(1, 5))
def test_the_laws_hold_through_a_history_of_faults(seed):
    told = simulate(seed)
    assert told.faults > 20
    assert told.commits > 200
    assert told.devices_given > 0


def test_without_faults_it_is_quiet_too():
    assert simulate(1, Faults.none()).commits > 200


def test_a_seed_is_always_the_same_history():
    assert simulate(6).trace == simulate(6).trace


def test_hours_pass_in_no_time_and_waiting_for_nothing_is_told():
    async def hours():
        await asyncio.gather(*(asyncio.sleep(3600 * number) for number in range(5)))
        return asyncio.get_running_loop().time()

    assert run(hours()) == 4 * 3600

    async def stuck():
        await asyncio.Event().wait()

    with pytest.raises(NothingLeft):
        run(stuck())
