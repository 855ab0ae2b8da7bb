"""The gRPC faces as plain functions: validation that keeps what it allows, desired and actual state, one call."""

import asyncio

import pytest

from headrace.api.kinds import CAPACITY_RESERVATION, NAMESPACE, NODE, POD
from headrace.api.objects import version_of
from headrace.resize.service import ResizeServices, ServiceError
from headrace.store.protocol import Deletion
from headrace.wire.generated import resize_pb2 as wire
from tests.resize.pods import resources
from tests.resize.scene import GI, scene
from tests.runtime.home import open_store, wall

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]
STATES = wire.ResourceSyncState.State
WEB, DB = "default/web/app", "default/db/app"
LONG = "y" + ".".join(["x" * 31] * 7 + ["z" * 22])  # where it is cut, it ends in a dot


def services(here):
    return ResizeServices(here.store, wall=wall, ledger_of=lambda node: here.store.rows.ledgers.get(node))


def validate(workload, cpu=0, memory=0):
    return wire.ValidateResourceUpdateRequest(workload_id=workload, requested_cpu=cpu, requested_memory=memory)


async def test_the_designs_example_is_refused_in_its_words_and_what_fits_is_kept_for_ten_seconds():
    async with scene(cpu="8", reserved_cpu="1") as here:
        await here.pod("web", 2000)
        await here.pod("db", 3000)
        service = services(here)
        refused = await service.validate(validate(WEB, cpu=5))
        assert not refused.allowed
        assert refused.reason.startswith(
            "Insufficient CPU: node node-a: insufficient cpu: 3 more wanted, 2 available of 8"
        )
        assert refused.available_cpu_milli == 2000
        allowed = await service.validate(validate(WEB, cpu=4))
        assert (allowed.allowed, allowed.reason, allowed.available_cpu_milli) == (True, "", 0)
        assert not (await service.validate(validate(DB, cpu=4))).allowed
        await here.settle(10.1)
        assert (await service.validate(validate(DB, cpu=4))).allowed
        assert len((await here.store.list(CAPACITY_RESERVATION)).items) == 1  # the first has expired and is gone


async def test_memory_is_named_when_memory_is_short():
    async with scene(memory="2Gi") as here:
        await here.pod("web", 1000, 1024)
        answer = await services(here).validate(validate(WEB, memory=4096))
        assert answer.reason.startswith(
            "Insufficient Memory: node node-a: insufficient memory: 3Gi more wanted, 1Gi avail"
        )


async def test_the_update_consumes_what_was_kept_for_it():
    async with scene(cpu="8", reserved_cpu="1") as here:
        await here.pod("web", 2000)
        await here.pod("db", 3000)
        service = services(here)
        assert (await service.validate(validate(WEB, cpu=4))).allowed
        answer = await service.update_desired(wire.UpdateDesiredStateRequest(workload_id=WEB, cpu_limit=4))
        assert (answer.success, answer.sync_state) == (True, STATES.APPLYING)
        assert int(version_of(await here.store.get(POD, "web", "default"))) == answer.revision
        await here.settle()
        assert await here.limits("web") == (4000, 4000, 4000)
        assert here.store.rows.ledgers["node-a"].room("cpu") == 0
        await here.settle(11)
        assert here.store.rows.ledgers["node-a"].holders.keys() == {"Pod default/web", "Pod default/db"}


async def test_the_answer_to_a_desired_state_is_of_that_wish_admitted_or_why_it_waits():
    async with scene(cpu="8", reserved_cpu="1") as here:
        await here.pod("web", 2000)
        await here.pod("db", 3000)
        service = services(here)
        told = []
        for cpu in (5, 6, 9, 4):
            answer = await service.update_desired(desired(cpu=cpu))
            told.append((answer.sync_state, answer.message.partition(" (")[0]))
        assert told == [
            (STATES.PENDING, "node node-a: insufficient cpu: 3 more wanted, 2 available of 8"),
            (STATES.PENDING, "node node-a: insufficient cpu: 4 more wanted, 2 available of 8"),
            (
                STATES.PENDING,
                "Resource Validation Failed: node node-a: insufficient cpu: 9 wanted, 7 allocatable of 8",
            ),
            (STATES.APPLYING, ""),
        ]


async def test_a_desired_state_that_nobody_decides_is_answered_all_the_same():
    store = await open_store()
    await store.create(NAMESPACE, {"metadata": {"name": "default"}})
    await store.create(NODE, {"metadata": {"name": "node-a"}})
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "110"}
    fields = {"status": {"capacity": amounts, "allocatable": amounts}}
    await store.patch(NODE, "node-a", fields=fields, subresource="status")
    container = {"name": "app", "image": "app", "resources": resources(1000, 256)}
    web = {"metadata": {"name": "web"}, "spec": {"nodeName": "node-a", "containers": [container]}}
    await store.create(POD, web, "default")
    answer = await ResizeServices(store, wall=wall).update_desired(desired(cpu=2))
    assert (answer.success, answer.sync_state, answer.message) == (True, STATES.PENDING, "")


async def test_what_hinders_an_agent_is_told_behind_the_words_for_it():
    async with scene() as here:
        await here.pod("web", 1000)
        here.agent.broken = "memory limit of 1048576 bytes lies below the 2097152 bytes in use; the limit stays"
        await services(here).update_desired(desired(memory=1))
        await here.settle()
        state = await services(here).state(wire.GetResourceStateRequest(workload_id=WEB))
        assert (state.sync_state, state.reason) == (STATES.FAILED, "MemoryInUse")
        assert state.message == f"Memory In Use: {here.agent.broken}"


async def test_asking_again_prolongs_and_moves_what_is_kept():
    async with scene(cpu="8") as here:
        await here.pod("web", 2000)
        service = services(here)
        for cpu, free in ((6, 2000), (8, 0), (3, 5000)):
            assert (await service.validate(validate(WEB, cpu=cpu))).available_cpu_milli == free
        assert len((await here.store.list(CAPACITY_RESERVATION)).items) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(("a-b", "app"), ("a", "b-app"), id="names that read alike when they are put together"),
        pytest.param((LONG, "one"), (LONG, "two"), id="a name that leaves no room for the container's"),
    ],
)
async def test_what_is_kept_for_one_workload_is_not_taken_for_another(one, other):
    async with scene(cpu="8") as here:
        names: dict[str, list[str]] = {}
        for name, container in (one, other):
            names.setdefault(name, []).append(container)
        for name, containers in names.items():
            amounts = {"cpu": "2", "memory": "64Mi"}
            resources = {"limits": amounts, "requests": amounts}
            given = [{"name": each, "image": "app", "resources": resources} for each in containers]
            await here.pod(name, containers=given, labels={"app": "web"})
        service = services(here)
        for free, (name, container) in ((2000, one), (0, other)):
            answer = await service.validate(validate(f"default/{name}/{container}", cpu=4))
            assert (answer.allowed, answer.reason, answer.available_cpu_milli) == (True, "", free)
        assert len((await here.store.list(CAPACITY_RESERVATION)).items) == 2


async def test_request_scaling_answers_with_what_was_read_back():
    async with scene() as here:
        await here.pod("web", 2000, 1024)
        request = wire.ScalingActionRequest(
            node_id="node-a", workload_id=WEB, target_cpu_limit=4, target_memory_limit=2048
        )
        answer = await services(here).request_scaling(request)
        assert (answer.success, answer.sync_state, answer.actual_cpu_limit, answer.actual_memory_limit) == (
            True,
            STATES.SYNCHRONIZED,
            4,
            2048,
        )
        state = await services(here).state(wire.GetResourceStateRequest(workload_id=WEB))
        assert (state.desired_cpu, state.actual_cpu, state.actual_memory_bytes) == (4, 4, 2 * GI)
        assert state.sync_state == STATES.SYNCHRONIZED


async def test_request_scaling_that_does_not_fit_says_so_and_a_deferred_one_answers_at_once():
    async with scene(cpu="4") as here:
        await here.pod("web", 2000)
        service = services(here)
        answer = await service.request_scaling(wire.ScalingActionRequest(workload_id=WEB, target_cpu_limit=8))
        assert (answer.success, answer.reason) == (False, "InsufficientCPU")
        assert answer.message.startswith("Insufficient CPU: ")
        deferred = wire.ScalingActionRequest(workload_id=WEB, target_cpu_limit=8, on_insufficient="Defer")
        answer = await service.request_scaling(deferred)
        assert (answer.success, answer.sync_state, answer.reason) == (False, STATES.PENDING, "Deferred")
        assert answer.cpu_milli == 2000


@pytest.mark.parametrize(
    ("request_", "code", "words"),
    [
        (wire.ScalingActionRequest(workload_id=WEB), "INVALID_ARGUMENT", "must be greater than 0"),
        (wire.ScalingActionRequest(workload_id="web", cpu_milli=10), "INVALID_ARGUMENT", "namespace/pod/container"),
        (wire.ScalingActionRequest(workload_id="default/no/app", cpu_milli=10), "NOT_FOUND", "no such Pod"),
        (wire.ScalingActionRequest(workload_id="default/web/no", cpu_milli=10), "NOT_FOUND", "no such container"),
        (wire.ScalingActionRequest(workload_id=WEB, cpu_milli=5), "INVALID_ARGUMENT", "must be at least 10m"),
        (wire.ScalingActionRequest(node_id="x", workload_id=WEB, cpu_milli=50), "INVALID_ARGUMENT", "runs on 'node-a'"),
    ],
)
async def test_bad_requests_are_told_what_is_wrong(request_, code, words):
    async with scene() as here:
        await here.pod("web", 2000)
        with pytest.raises(ServiceError) as error:
            await services(here).request_scaling(request_)
        assert error.value.code == code
        assert words in error.value.message


async def test_a_pod_that_has_ended_or_is_on_no_node_is_told_as_such():
    async with scene() as here:
        await here.pod("web", 1000)
        waits = {
            "metadata": {"name": "db"},
            "spec": {"containers": [{"name": "app", "image": "a", "resources": resources(1000, 256)}]},
        }
        await here.store.create(POD, waits, "default")
        here.agent.away = True
        await here.store.patch(POD, "web", "default", fields={"status": {"phase": "Failed"}}, subresource="status")
        service = services(here)
        with pytest.raises(ServiceError, match="the Pod has ended") as error:
            await service.update_desired(desired(cpu=2))
        assert error.value.code == "FAILED_PRECONDITION"
        state = await service.state(wire.GetResourceStateRequest(workload_id=WEB))
        assert (state.reason, state.message) == ("NotRunning", "the Pod has ended: nothing of it is resized any more")
        answer = await service.update_desired(wire.UpdateDesiredStateRequest(workload_id=DB, cpu_limit=3))
        told = "the Pod is on no node yet: it is placed with what is desired"
        assert (answer.success, answer.sync_state, answer.message) == (True, STATES.PENDING, told)
        state = await service.state(wire.GetResourceStateRequest(workload_id=DB))
        assert (state.desired_cpu_milli, state.admitted_cpu_milli) == (3000, 3000)


async def test_less_than_the_smallest_quota_is_refused_by_every_call():
    async with scene() as here:
        await here.pod("web", 2000)
        service = services(here)
        for call, request in (
            (service.validate, wire.ValidateResourceUpdateRequest),
            (service.update_desired, wire.UpdateDesiredStateRequest),
            (service.request_scaling, wire.ScalingActionRequest),
        ):
            with pytest.raises(ServiceError, match=r"^cpu limit 9m: must be at least 10m$") as error:
                await call(request(workload_id=WEB, cpu_milli=9))
            assert error.value.code == "INVALID_ARGUMENT"
        assert not (await here.store.list(CAPACITY_RESERVATION)).items


async def test_what_an_agent_reports_is_compared_with_what_is_desired():
    async with scene() as here:
        await here.pod("web", 2000, 1024)
        service = services(here)

        async def report(**told):
            answer = await service.report_actual(wire.ReportActualStateRequest(workload_id=WEB, **told))
            return answer.synchronized, answer.drift_detected, answer.sync_state

        assert await report(cpu_limit=2, memory_limit=1024, update_success=True) == (True, False, STATES.SYNCHRONIZED)
        assert await report(cpu_limit=1, memory_limit=1024, update_success=True) == (False, True, STATES.DRIFT_DETECTED)
        assert await report(cpu_milli=2000, memory_bytes=GI, update_success=True) == (True, False, STATES.SYNCHRONIZED)
        assert await report(cpu_limit=2, memory_limit=1024, update_success=False) == (False, False, STATES.FAILED)
        missing = await service.state(wire.GetResourceStateRequest(workload_id="default/no/app"))
        assert not missing.found


async def race(here, service, both):
    """Two ask for the last 2 CPUs at once."""
    answers = await asyncio.gather(*both(service))
    available = here.store.rows.ledgers["node-a"].room("cpu")
    assert available >= 0
    return answers


def two_validations(service):
    return service.validate(validate(WEB, cpu=4)), service.validate(validate(DB, cpu=5))


async def forget(here):
    for each in (await here.store.list(CAPACITY_RESERVATION)).items:
        await here.store.delete(CAPACITY_RESERVATION, each["metadata"]["name"], "default", Deletion())


async def many_races(times):
    async with scene(cpu="8", reserved_cpu="1") as here:
        await here.pod("web", 2000)
        await here.pod("db", 3000)
        service = services(here)
        won = 0
        for _ in range(times):
            answers = await race(here, service, two_validations)
            won += [answer.allowed for answer in answers].count(True)
            assert all(answer.allowed or answer.reason.startswith("Insufficient CPU") for answer in answers)
            await forget(here)
        assert won == times


async def test_two_that_ask_for_the_last_room_at_once_exactly_one_wins_50_of_50():
    await many_races(50)


@pytest.mark.slow
async def test_two_that_ask_for_the_last_room_at_once_exactly_one_wins_10000_of_10000():
    await many_races(10_000)


async def test_two_updates_of_the_last_room_one_is_admitted_and_one_waits():
    async with scene(cpu="8", reserved_cpu="1") as here:
        await here.pod("web", 2000)
        await here.pod("db", 3000)
        service = services(here)
        await asyncio.gather(
            service.update_desired(wire.UpdateDesiredStateRequest(workload_id=WEB, cpu_limit=4)),
            service.update_desired(wire.UpdateDesiredStateRequest(workload_id=DB, cpu_limit=5)),
        )
        await here.settle()
        states = [await service.state(wire.GetResourceStateRequest(workload_id=each)) for each in (WEB, DB)]
        assert sorted(state.sync_state for state in states) == [STATES.PENDING, STATES.SYNCHRONIZED]
        [waits] = [state for state in states if state.sync_state == STATES.PENDING]
        assert waits.reason == "Deferred"
        assert "insufficient cpu: 2 more wanted, 0 available of 8" in waits.message


async def test_two_scaling_requests_for_the_last_room_one_succeeds_and_one_is_refused():
    async with scene(cpu="8", reserved_cpu="1") as here:
        await here.pod("web", 2000)
        await here.pod("db", 3000)
        service = services(here)
        answers = await asyncio.gather(
            service.request_scaling(wire.ScalingActionRequest(workload_id=WEB, target_cpu_limit=4)),
            service.request_scaling(wire.ScalingActionRequest(workload_id=DB, target_cpu_limit=5)),
        )
        assert sorted(answer.success for answer in answers) == [False, True]
        assert {answer.reason for answer in answers} == {"InsufficientCPU", "Synchronized"}


async def test_a_validation_for_a_pod_that_goes_leaves_nothing_behind():
    async with scene() as here:
        await here.pod("web", 2000)
        assert (await services(here).validate(validate(WEB, cpu=4))).allowed
        await here.store.delete(POD, "web", "default", Deletion(grace_seconds=0))
        await here.settle(11)
        assert (await here.store.list(CAPACITY_RESERVATION)).items == []


class OverALine:
    """The store as those have it whose reads take a moment: what was read may be old by the next step."""

    def __init__(self, store):
        self._store = store

    async def get(self, *place):
        found = await self._store.get(*place)
        await asyncio.sleep(0.01)
        return found

    def __getattr__(self, name):
        return getattr(self._store, name)


def desired(cpu=0, memory=0):
    return wire.UpdateDesiredStateRequest(workload_id=WEB, cpu_limit=cpu, memory_limit=memory)


async def test_of_two_that_change_cpu_and_memory_at_once_both_are_recorded_20_of_20():
    async with scene() as here:
        await here.pod("web", 1000, 256)
        service = ResizeServices(OverALine(here.store), wall=wall)
        for times in range(1, 21):
            cpu, memory = 1 + times % 2, 256 + times
            answers = await asyncio.gather(
                service.update_desired(desired(cpu=cpu)), service.update_desired(desired(memory=memory))
            )
            assert all(answer.success for answer in answers)
            pod = await here.store.get(POD, "web", "default")
            assert pod["spec"]["containers"][0]["resources"]["limits"] == {"cpu": str(cpu), "memory": f"{memory}Mi"}
            await here.settle()


async def test_a_pod_that_changes_before_every_attempt_ends_the_call_after_some():
    async with scene() as here:
        await here.pod("web", 1000, 256)

        class Busy(OverALine):
            async def get(self, *place):
                found = await super().get(*place)
                count = int((found["metadata"].get("annotations") or {}).get("count", 0)) + 1
                await self._store.patch(
                    POD, "web", "default", fields={"metadata": {"annotations": {"count": str(count)}}}
                )
                return found

        with pytest.raises(ServiceError) as error:
            await ResizeServices(Busy(here.store), wall=wall).update_desired(desired(cpu=2))
        assert (error.value.code, error.value.message) == (
            "UNAVAILABLE",
            "workload 'default/web/app': its Pod was changed by others 5 times in between; ask again",
        )
