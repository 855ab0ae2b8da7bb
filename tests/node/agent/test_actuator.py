"""One actuator: revisions only grow, what is told was read, what cannot be done is said."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.node.actuator import Actuator, Actuators
from headrace.node.admitted import admitted, held_to, is_given_back, is_met, reported
from headrace.node.containers import Problem
from headrace.node.pod import Container
from headrace.node.resize_service import ResizeService
from headrace.node.runtimes.protocol import (
    ApplyFailed,
    ContainerSpec,
    Limits,
    MemoryInUse,
    RuntimeUnavailable,
    Unreadable,
)
from headrace.wire.generated import resize_pb2 as wire
from tests.node.agent.home import wall
from tests.node.agent.simulated_runtime import SimulatedRuntime

pytestmark = pytest.mark.looptime
ID = "u_main_0"
SMALL, BIG = Limits(500, 64 * 2**20), Limits(1000, 128 * 2**20)


async def started(limits=SMALL):
    runtime, told = SimulatedRuntime(wall), []
    await runtime.start(ContainerSpec(ID, "u", "default/p", "main", ["run"], {}, "/", "/log", limits))
    actuator = Actuator(ID, runtime, limits=limits, revision=1, tell=told.append)
    await actuator.converge()
    return runtime, actuator, told


async def test_what_is_in_force_already_is_read_and_not_written():
    runtime, actuator, told = await started()
    assert (actuator.actual, actuator.in_force, runtime.applied) == (SMALL, 1, [])
    assert len(told) == 1
    await actuator.converge()
    assert len(told) == 1  # nothing new to say


async def test_a_lower_revision_never_overrides_a_higher_one():
    runtime, actuator, _ = await started()
    actuator.aim(BIG, 9)
    actuator.aim(SMALL, 5)
    await actuator.converge()
    assert (runtime.limits[ID], actuator.in_force) == (BIG, 9)


@given(st.lists(st.tuples(st.integers(1, 50), st.sampled_from([SMALL, BIG, Limits(700, None)])), min_size=1))
def test_after_any_order_of_aims_the_highest_revision_is_in_force(aims):
    async def run():
        runtime, actuator, _ = await started()
        for revision, limits in aims:
            actuator.aim(limits, revision)
            if revision % 3 == 0:
                await actuator.converge()
        await actuator.converge()
        highest = max(revision for revision, _ in aims)
        expected = next(limits for revision, limits in reversed(aims) if revision == highest)
        assert (runtime.limits[ID], actuator.in_force) == (expected, highest)

    asyncio.run(run())


class Of(ResizeService):
    """The service of a node where this is the only container."""

    def __init__(self, actuator):
        self.actuator = actuator

    def _workload(self, id):
        return None, "main"

    def _actuator(self, worker, container):
        return self.actuator


async def test_what_was_read_some_time_ago_is_no_answer_to_what_is_in_force():
    runtime, actuator, _ = await started()
    request = wire.GetResourceStatusRequest(workload_id="default/p/main")
    found = await Of(actuator).status(request)
    assert (found.success, found.status.cpu_milli, found.status.cpu_unlimited) == (True, 500, False)

    async def fails(id):
        raise Unreadable(f"container {id}: cpu.cfs_quota_us: Input/output error")

    read, runtime.read = runtime.read, fails
    found = await Of(actuator).status(request)
    assert (found.success, found.status.cpu_milli, found.status.cpu_unlimited) == (False, 0, False)
    runtime.read = read
    assert (await Of(actuator).status(request)).success


async def test_what_is_in_force_is_told_while_a_change_hangs_and_as_somebody_else_left_it():
    runtime, actuator, told = await started()
    request = wire.GetResourceStatusRequest(workload_id="default/p/main")
    apply = runtime.apply

    async def hangs(id, limits):
        await asyncio.sleep(15)
        return await apply(id, limits)

    runtime.apply = hangs
    actuator.aim(BIG, 2)
    running = asyncio.create_task(actuator.run())
    await asyncio.sleep(1)
    async with asyncio.timeout(1):
        assert (await Of(actuator).status(request)).status.cpu_milli == 500
    await asyncio.sleep(15)
    assert (await Of(actuator).status(request)).status.cpu_milli == 1000
    runtime.apply, runtime.limits[ID] = apply, SMALL
    assert (await Of(actuator).status(request)).status.cpu_milli == 500
    await asyncio.sleep(0.1)  # that it differs is reason enough to compare
    assert (await Of(actuator).status(request)).status.cpu_milli == 1000
    assert told[-1].drifted == "found cpu 500m, memory 64Mi, put back cpu 1000m, memory 128Mi"
    running.cancel()


async def test_memory_in_use_is_said_with_both_amounts_and_tried_again():
    runtime, actuator, _ = await started(BIG)
    runtime.apply_error = MemoryInUse("in use", 80 * 2**20, 64 * 2**20)
    actuator.aim(SMALL, 2)
    running = asyncio.create_task(actuator.run())
    await asyncio.sleep(1)
    assert actuator.problem.reason == "Error"
    assert "67108864" in actuator.problem.message
    assert "83886080" in actuator.problem.message
    assert (actuator.actual, actuator.is_converged) == (BIG, False)
    runtime.apply_error = None
    await asyncio.sleep(6)
    assert (actuator.actual, actuator.problem, actuator.is_converged) == (SMALL, None, True)
    running.cancel()


@pytest.mark.parametrize(
    ("restored", "answered", "words"),
    [
        (True, True, "the previous limits are in force"),
        (False, True, "the new ones may be half applied"),
        (True, False, "the previous limits are in force, and the change may take effect yet"),
    ],
)
async def test_a_failed_change_says_what_is_in_force(restored, answered, words):
    runtime, actuator, _ = await started(BIG)
    runtime.apply_error = ApplyFailed("write /sys/fs/cgroup: no", restored=restored, answered=answered)
    actuator.aim(SMALL, 2)
    await actuator.converge()
    assert actuator.problem.message == f"write /sys/fs/cgroup: no; {words}"
    assert actuator.actual == BIG


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Limits(330, 64 * 2**20, 500), "found cpu 330m, memory 64Mi, put back cpu 500m, memory 64Mi"),
        (Limits(500, None, 500), "found cpu 500m, memory unlimited, put back cpu 500m, memory 64Mi"),
        (Limits(500, 64 * 2**20, 100), "found a cpu request of 100m, put back 500m"),
    ],
)
async def test_drift_says_what_differed(found, said):
    runtime, actuator, told = await started(Limits(500, 64 * 2**20, 500))
    runtime.limits[ID] = found
    await actuator.converge()
    assert told[-1].drifted == said
    assert str(runtime.limits[ID]) == "cpu 500m, memory 64Mi"


async def test_what_was_read_back_is_told_not_what_was_asked():
    runtime, actuator, _ = await started()

    async def apply_less(id, limits):
        runtime.limits[id] = Limits(900, limits.memory_bytes)
        return runtime.limits[id]

    runtime.apply = apply_less
    actuator.aim(BIG, 2)
    await actuator.converge()
    assert actuator.actual.cpu_milli == 900
    assert "cpu 900m" in actuator.problem.message
    assert not actuator.is_converged


async def test_a_change_by_somebody_else_is_put_right_and_told_once():
    runtime, actuator, told = await started()
    runtime.limits[ID] = BIG
    await actuator.converge()
    await actuator.converge()
    assert runtime.limits[ID] == SMALL
    assert [each.drifted for each in told if each.drifted] == [
        "found cpu 1000m, memory 128Mi, put back cpu 500m, memory 64Mi"
    ]


async def test_limits_that_stay_the_same_under_a_new_revision_are_in_force_at_once():
    runtime, actuator, _ = await started()
    actuator.aim(SMALL, 7)
    assert actuator.is_converged
    assert runtime.applied == []


RESOURCES = {"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "250m"}}
ALLOCATED = {"cpu": "1", "memory": "1Gi", "limits.cpu": "1500m", "limits.memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "status", "expected"),
    [
        pytest.param({}, {}, Limits(), id="nothing asked, nothing limited"),
        pytest.param(RESOURCES, {}, Limits(500, 64 * 2**20, 250), id="the spec, before anything is allocated"),
        pytest.param(
            RESOURCES,
            {"allocatedResources": ALLOCATED},
            Limits(1500, 2**30, 1000),
            id="what is allocated, not what is desired",
        ),
        pytest.param(
            RESOURCES, {"allocatedResources": {}}, Limits(), id="an empty allocation says that nothing was asked"
        ),
        pytest.param(
            RESOURCES, {"allocatedResources": {"cpu": "1"}}, Limits(None, None, 1000), id="an allocation is whole"
        ),
        pytest.param({"limits": {"cpu": "0", "memory": "0"}}, {}, Limits(None, None, 0), id="a limit of 0 is none"),
    ],
)
def test_what_a_container_is_held_to(resources, status, expected):
    assert admitted(Container(name="main", resources=resources), status) == expected


GROWN = {"cpu": "1", "memory": "1Gi", "limits.cpu": "1", "limits.memory": "1Gi"}


def told(cpu, memory):
    return {"limits": {name: each for name, each in (("cpu", cpu), ("memory", memory)) if each}}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        pytest.param(
            told("500m", "64Mi"), Limits(500, 64 * 2**20, 250), id="a growth that is not in force and not desired"
        ),
        pytest.param(told("1", "1Gi"), Limits(1000, 2**30, 1000), id="what is in force shrinks when that is admitted"),
        pytest.param(told("1000m", "64Mi"), Limits(1000, 64 * 2**20, 1000), id="one that is in force for cpu alone"),
        pytest.param(told("700m", "100Mi"), Limits(700, 100 * 2**20, 250), id="half of it is in force"),
        pytest.param(told("200m", "32Mi"), Limits(500, 64 * 2**20, 250), id="less is in force than is desired"),
        pytest.param(told("500m", str(2**30 + 1)), Limits(500, 2**30, 250), id="memory is kept in whole pages"),
        pytest.param(told("", "64Mi"), Limits(1000, 64 * 2**20, 1000), id="no limit in force is more than any"),
        pytest.param({}, Limits(500, 64 * 2**20, 250), id="nothing runs yet"),
    ],
)
def test_a_growth_that_nobody_desires_any_more_is_not_applied(told, expected):
    """What it is held to is never more than the ledger charges once the growth is given back."""
    status = {"allocatedResources": GROWN, "resources": told}
    main = Container(name="main", resources=RESOURCES)
    assert held_to(main, status) == expected
    assert is_given_back(main, status) is (expected != admitted(main, status))


async def test_a_call_without_an_answer_may_take_effect_until_a_later_one_is_answered():
    runtime, actuator, _ = await started()
    before = actuator.limits
    runtime.apply_error = ApplyFailed("podman did not answer", answered=False)
    actuator.aim(BIG, 7)
    await actuator.converge()
    actuator.aim(before, 8)
    await actuator.converge()
    assert not actuator.is_converged  # though just that was read
    runtime.apply_error = None
    await actuator.converge()
    assert actuator.is_converged
    assert actuator.problem is None
    calls = len(runtime.applied)
    await actuator.converge()
    assert len(runtime.applied) == calls


@pytest.mark.parametrize(
    ("actual", "met"),
    [
        (Limits(500, 64 * 2**20, 250), True),
        (Limits(500, 64 * 2**20, 251), True),
        (Limits(500, 64 * 2**20 + 100, 250), True),
        (Limits(499, 64 * 2**20, 250), False),
        (Limits(None, 64 * 2**20, 250), False),
        (Limits(500, 64 * 2**20, 900), False),
    ],
)
def test_as_exactly_as_the_kernel_can(actual, met):
    assert is_met(Limits(500, 64 * 2**20, 250), actual) is met


def test_amounts_are_told_as_they_were_written_unless_they_differ():
    container = Container(name="main", resources={"limits": {"cpu": "0.5", "memory": "64Mi"}})
    assert reported(container, {}, Limits(500, 64 * 2**20, 500)) == {
        "limits": {"cpu": "0.5", "memory": "64Mi"},
        "requests": {"cpu": "0.5", "memory": "64Mi"},
    }
    assert reported(container, {}, Limits(330, None, 500))["limits"] == {"cpu": "330m"}


async def test_a_hand_edit_is_found_within_the_sync_period_put_right_and_counted_once():
    runtime = SimulatedRuntime(wall)
    await runtime.start(ContainerSpec(ID, "u", "default/p", "main", ["run"], {}, "/", "/log", SMALL))
    told = []
    async with asyncio.TaskGroup() as tasks:
        actuators = Actuators(runtime, tasks, sync_seconds=60)
        actuators.hold(ID, SMALL, 1, told.append)
        await asyncio.sleep(1)
        runtime.limits[ID] = BIG
        await asyncio.sleep(58)
        assert (runtime.limits[ID], actuators.drifts) == (BIG, 0)
        await asyncio.sleep(2)
        assert (runtime.limits[ID], actuators.drifts) == (SMALL, 1)
        await asyncio.sleep(600)
        assert actuators.drifts == 1
        actuators.release(ID)
    assert [each.drifted for each in told if each.drifted] == [
        "found cpu 1000m, memory 128Mi, put back cpu 500m, memory 64Mi"
    ]


async def test_a_runtime_that_fails_unforeseen_is_told_and_tried_again():
    """A container's limits that could not be set for an unforeseen reason ended the agent."""
    runtime, actuator, told = await started()
    runtime.apply_error = RuntimeUnavailable("podman does not answer")
    actuator.aim(BIG, 2)
    await actuator.converge()
    assert actuator.problem == Problem("Error", "limits cannot be applied: podman does not answer")
    runtime.apply_error = None
    await actuator.converge()
    assert (actuator.problem, actuator.actual, len(told)) == (None, BIG, 3)
