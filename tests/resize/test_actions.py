"""The ActionController with the ResourceManager on the real store: each sequence of the design, and its faults."""

import pytest

from headrace.api.kinds import POD
from headrace.resize.sync import STATES, SYNC, Sync, diagram
from headrace.store.protocol import Refused, Unauthorized
from tests.resize.pods import resources
from tests.resize.scene import scene

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


async def test_success_what_is_read_back_is_told():
    async with scene() as here:
        await here.pod("web", 2000, 1024)
        await here.resize("a", cpu="4", memory="2Gi")
        await here.settle()
        status = await here.status("a")
        assert (status["state"], status["syncState"], status["reason"]) == ("Succeeded", "SYNCHRONIZED", "Synchronized")
        assert status["actual"] == {"cpu": "4", "memory": "2Gi"}
        assert await here.limits("web") == (4000, 4000, 4000)
        assert await here.held("web") == 4000
        assert await here.events_of("a") == ["ScalingSucceeded"]
        done = {"state": "Succeeded", "reason": "Synchronized"}
        assert here.registry.get_sample_value("headrace_scaling_actions_total", done) == 1


async def test_not_required_what_is_so_already_succeeds_at_once():
    async with scene() as here:
        await here.pod("web", 2000)
        await here.resize("a", cpu="2")
        await here.settle()
        assert await here.told("a") == ("Succeeded", "NotRequired", "SYNCHRONIZED")


async def test_insufficient_the_designs_own_example_total_8_allocated_5_reserved_1_request_3():
    async with scene(cpu="8", reserved_cpu="1") as here:
        await here.pod("web", 2000)
        await here.pod("db", 3000)
        await here.resize("a", cpu="5")
        await here.settle()
        status = await here.status("a")
        assert (status["state"], status["reason"], status["syncState"]) == ("Failed", "InsufficientCPU", "FAILED")
        assert status["message"] == (
            "Insufficient CPU: node node-a: insufficient cpu: 3 more wanted, 2 available of 8 "
            "(most is held by Pod default/db 3, Pod default/web 2)"
        )
        assert await here.limits("web") == (2000, None, 2000)
        assert await here.held("web") == 2000
        assert await here.events_of("a") == ["ScalingFailed"]


async def test_mismatch_is_failed_with_drift_detected_and_what_was_read_back():
    async with scene() as here:
        await here.pod("web", 2000)
        here.agent.gives = {"requests": {"cpu": "2", "memory": "256Mi"}, "limits": {"cpu": "3", "memory": "256Mi"}}
        await here.resize("a", cpu="4")
        await here.settle(60)
        status = await here.status("a")
        assert (status["state"], status["reason"], status["syncState"]) == ("Failed", "StateMismatch", "DRIFT_DETECTED")
        assert status["message"].startswith("State Mismatch: asked for")
        assert status["actual"]["cpu"] == "3"
        assert await here.held("web") == 4000


@pytest.mark.parametrize("current", [{}, {"current": {}}, {"current": {"memory": "256Mi"}}])
async def test_failure_after_its_retries_the_workload_wants_again_what_it_had_and_the_ledger_is_as_before(current):
    async with scene() as here:
        await here.pod("web", 2000)
        here.agent.broken = "runc update failed: exit status 1; the previous limits are in force"
        await here.resize("a", cpu="4", **current)
        await here.settle(2)
        assert await here.told("a") == ("Running", "RuntimeUpdateFailure", "FAILED")
        assert await here.held("web") == 4000
        await here.settle(5 + 10 + 20 + 2)
        status = await here.status("a")
        assert (status["state"], status["reason"], status["attempts"]) == ("Failed", "RuntimeUpdateFailure", 3)
        assert status["message"].startswith("Runtime Update Failure: runc update failed")
        here.agent.broken = ""
        await here.agent.look_again("web")
        await here.settle()
        assert await here.limits("web") == (2000, 2000, 2000)
        assert await here.held("web") == 2000


async def test_a_failure_that_passes_in_time_is_no_failure():
    async with scene() as here:
        await here.pod("web", 2000)
        here.agent.broken = "runc update failed: exit status 1"
        await here.resize("a", cpu="4", retry={"count": 3, "seconds": 5})
        await here.settle(8)
        here.agent.broken = ""
        await here.agent.look_again("web")
        await here.settle()
        assert await here.told("a") == ("Succeeded", "Synchronized", "SYNCHRONIZED")


async def test_a_later_wish_after_a_failure_is_applied_without_restarting_anything():
    async with scene() as here:
        await here.pod("web", 2000)
        here.agent.broken = "500"
        await here.resize("a", cpu="4", retry={"count": 0, "seconds": 1})
        await here.settle(2)
        assert (await here.told("a"))[0] == "Failed"
        here.agent.broken = ""
        await here.resize("b", cpu="5")
        await here.settle()
        assert await here.told("b") == ("Succeeded", "Synchronized", "SYNCHRONIZED")


async def test_an_unavailable_agent_fails_the_action_and_it_succeeds_when_the_agent_is_back():
    async with scene() as here:
        await here.pod("web", 2000)
        here.agent.away = True
        await here.node_ready(False)
        await here.resize("a", cpu="4", retry={"count": 1, "seconds": 5})
        await here.settle(7)
        status = await here.status("a")
        assert (status["state"], status["reason"], status["syncState"]) == ("Failed", "NodeAgentUnavailable", "FAILED")
        assert await here.held("web") == 4000  # it may come back and apply it at any moment
        here.agent.away = False
        await here.node_ready(True)
        await here.agent.look_again("web")
        await here.settle(2)
        assert (await here.told("a"))[0::2] == ("Succeeded", "SYNCHRONIZED")
        assert await here.limits("web") == (4000, 4000, 4000)


async def test_a_deferred_big_one_never_blocks_a_small_one_and_is_granted_when_there_is_room():
    async with scene(cpu="4") as here:
        await here.pod("web", 1000)
        await here.pod("db", 1000)
        await here.resize("big", "web/app", cpu="7", onInsufficient="Defer", priority=100)
        await here.settle()
        assert await here.told("big") == ("Pending", "Deferred", "PENDING")
        await here.resize("small", "db/app", cpu="2")
        await here.settle()
        assert (await here.told("small"))[0] == "Succeeded"
        assert await here.told("big") == ("Pending", "Deferred", "PENDING")
        assert await here.held("web") == 1000  # pending is not allocated
        capacity = {"cpu": "16", "memory": "8Gi", "pods": "110"}
        from headrace.api.kinds import NODE

        fields = {"status": {"capacity": capacity, "allocatable": capacity}}
        await here.store.patch(NODE, "node-a", fields=fields, subresource="status")
        await here.settle()
        assert (await here.told("big"))[0] == "Succeeded"


async def test_clamp_takes_what_there_is():
    async with scene(cpu="8", reserved_cpu="1") as here:
        await here.pod("web", 6000)
        await here.resize("a", cpu="12", onInsufficient="Clamp")
        await here.settle()
        status = await here.status("a")
        assert (status["state"], status["target"], status["actual"]["cpu"]) == ("Succeeded", {"cpu": "7"}, "7")
        await here.resize("b", cpu="12", onInsufficient="Clamp")
        await here.settle()
        assert await here.told("b") == ("Failed", "InsufficientCPU", "FAILED")


async def test_of_two_that_do_not_fit_together_exactly_one_is_served():
    async with scene(cpu="4") as here:
        await here.pod("web", 1000)
        await here.pod("db", 1000)
        await here.resize("a", "web/app", cpu="3")
        await here.resize("b", "db/app", cpu="3", priority=10)
        await here.settle()
        assert {(await here.told("a"))[0], (await here.told("b"))[0]} == {"Failed", "Succeeded"}


async def test_one_in_flight_per_workload_the_next_waits_for_its_end():
    async with scene() as here:
        await here.pod("web", 1000)
        here.agent.away = True
        await here.resize("a", cpu="2")
        await here.settle()
        await here.resize("b", cpu="3")
        await here.settle()
        assert (await here.told("a"))[0] == "Running"
        assert (await here.told("b"))[0] is None
        here.agent.away = False
        await here.agent.look_again("web")
        await here.settle(2)
        assert [(await here.told(name))[0] for name in "ab"] == ["Succeeded", "Succeeded"]
        assert await here.limits("web") == (3000, 3000, 3000)


async def test_an_unknown_workload_is_not_found_and_charges_nothing():
    async with scene() as here:
        await here.resize("a", "ghost/app", cpu="2")
        await here.settle(10)
        assert await here.told("a") == ("Failed", "NotFound", "FAILED")
        await here.pod("web")
        await here.resize("b", "web/other", cpu="2")
        await here.settle(10)
        assert await here.told("b") == ("Failed", "NotFound", "FAILED")


async def test_what_would_change_the_qos_class_fails_validation():
    async with scene() as here:
        await here.pod("web", 1000, 256, limit_cpu=2000)
        await here.resize("a", cpu="1")
        await here.settle()
        status = await here.status("a")
        assert status["reason"] == "ResourceValidationFailed"
        assert status["message"].startswith("Resource Validation Failed: ")


async def test_somebody_elses_resize_supersedes_an_action_under_way():
    async with scene() as here:
        await here.pod("web", 1000)
        here.agent.away = True
        await here.resize("a", cpu="2")
        await here.settle()
        fields = {
            "spec": {"containers": [{"name": "app", "resources": {"limits": {"cpu": "3"}, "requests": {"cpu": "3"}}}]}
        }
        await here.store.patch(POD, "web", "default", fields=fields, subresource="resize", strategic=True)
        await here.settle()
        assert await here.told("a") == ("Failed", "Superseded", "FAILED")


async def test_the_history_of_a_workload_is_bounded():
    async with scene() as here:
        await here.pod("web", 1000)
        for number in range(25):
            await here.resize(f"a{number:02}", cpu=f"{1000 + 10 * (number % 2)}m")
            await here.settle(1)
        from headrace.api.kinds import RESOURCE_SCALING_ACTION

        names = [each["metadata"]["name"] for each in (await here.store.list(RESOURCE_SCALING_ACTION)).items]
        assert names == [f"a{number:02}" for number in range(5, 25)]


def shortest(before: Sync, after: Sync) -> tuple[Sync, ...]:
    """The shortest way along the arrows, both ends included."""
    ways: list[tuple[Sync, ...]] = [(before,)]
    seen = {before}
    for way in ways:
        if way[-1] == after:
            return way
        for (start, _), end in SYNC.items():
            if start == way[-1] and end not in seen:
                seen.add(end)
                ways.append((*way, end))
    raise AssertionError(f"no way from {before} to {after}")


async def test_the_tables_draw_the_designs_diagram_and_every_state_can_be_reached_and_left():
    drawn = "\n".join(diagram(SYNC, "UNKNOWN"))
    assert "PENDING --> APPLYING: admitted" in drawn
    assert "DRIFT_DETECTED --> APPLYING: reconcile" in drawn
    assert shortest("SYNCHRONIZED", "APPLYING") == ("SYNCHRONIZED", "PENDING", "APPLYING")
    for state in {"UNKNOWN", "PENDING", "APPLYING", "DRIFT_DETECTED", "FAILED"}:
        assert shortest(state, "SYNCHRONIZED")
    assert ("Failed", "cause gone") in STATES


async def test_a_runtime_that_cannot_be_queried_fails_the_verification_and_nothing_is_restored():
    """The container may well have what it was given: only nobody can tell."""
    async with scene() as here:
        await here.pod("web", 1000)
        here.agent.broken = "what is in force cannot be read: container a: cpu.shares: Input/output error"
        await here.resize("a", cpu="2", retry={"count": 1, "seconds": 1})
        await here.settle(5)
        status = await here.status("a")
        assert (status["state"], status["reason"]) == ("Failed", "ResourceVerificationFailed")
        assert status["message"].startswith("Resource Verification Failed: what is in force cannot be read")
        assert await here.held("web") == 2000
        here.agent.broken = ""
        await here.agent.look_again("web")
        await here.settle(2)
        assert await here.limits("web") == (2000, 2000, 2000)


async def test_a_resize_that_the_server_refuses_ends_its_action_and_holds_up_no_other():
    """Beyond the limit of the Pod as a whole: an action was tried again for ever, and no other of its node after it."""
    async with scene() as here:
        await here.pod("db", 1000, resources=resources(2000, 1024))
        await here.pod("web", 2000)
        await here.resize("a", workload="db/app", cpu="3", priority=5)
        await here.resize("b", cpu="4")
        await here.settle(3)
        assert await here.told("a") == ("Failed", "ResourceValidationFailed", "FAILED")
        assert "spec.resources.containers[0][cpu].limits: Invalid value" in (await here.status("a"))["message"]
        assert await here.events_of("a") == ["ScalingFailed"]
        assert await here.told("b") == ("Succeeded", "Synchronized", "SYNCHRONIZED")


async def test_a_sidecar_grows_as_any_container_does():
    async with scene() as here:
        proxy = {"name": "proxy", "image": "app", "command": ["serve"], "resources": resources(1000, 256)}
        await here.pod("web", 2000, initContainers=[proxy | {"restartPolicy": "Always"}])
        assert await here.held("web") == 3000
        await here.resize("a", workload="web/proxy", cpu="2")
        await here.settle(3)
        assert await here.told("a") == ("Succeeded", "Synchronized", "SYNCHRONIZED")
        assert await here.held("web") == 4000
        pod = await here.store.get(POD, "web", "default")
        told = pod["status"]["initContainerStatuses"][0]
        assert (told["allocatedResources"]["limits.cpu"], told["resources"]["limits"]["cpu"]) == ("2", "2")
        assert "conditions" not in pod["status"]
        await here.resize("b", workload="web/proxy", cpu="7")
        await here.settle(3)
        assert await here.told("b") == ("Failed", "InsufficientCPU", "FAILED")
        assert await here.held("web") == 4000


async def test_an_initial_container_that_has_ended_is_not_resized_by_an_action():
    async with scene() as here:
        initial = {"name": "init", "image": "app", "command": ["prepare"], "resources": resources(1000, 256)}
        await here.pod("db", 1000, initContainers=[initial])
        await here.resize("a", workload="db/init", cpu="3")
        await here.settle(3)
        assert await here.told("a") == ("Failed", "NotRunning", "FAILED")
        assert (await here.status("a"))["message"] == "default/db/init has ended and is not started again"


async def test_what_is_desired_of_an_initial_container_is_admitted_and_charged():
    async with scene() as here:
        initial = {"name": "init", "image": "app", "command": ["prepare"], "resources": resources(1000, 256)}
        await here.pod("db", 1000, initContainers=[initial])
        for cpu in (3000, 2000):
            fields = {"spec": {"initContainers": [{"name": "init", "resources": resources(cpu, 256)}]}}
            await here.store.patch(POD, "db", "default", fields=fields, subresource="resize", strategic=True)
            await here.settle(2)
            assert await here.held("db") == cpu
            assert "conditions" not in (await here.store.get(POD, "db", "default"))["status"]
        assert await here.events_of("db") == ["ResizeStarted", "ResizeCompleted"]


async def test_a_pod_as_a_whole_is_resized_in_one_write_that_the_ledger_judges():
    async with scene() as here:
        await here.pod("db", 1000, resources=resources(2000, 1024))
        assert await here.held("db") == 2000
        grown = {"resources": resources(6000, 1024), "containers": [{"name": "app", "resources": resources(5000, 256)}]}
        await here.store.patch(POD, "db", "default", fields={"spec": grown}, subresource="resize", strategic=True)
        assert await here.held("db") == 6000
        await here.settle(2)
        assert await here.limits("db") == (5000, 5000, 5000)
        more = {"spec": {"resources": resources(9000, 1024)}}
        with pytest.raises(Refused, match="insufficient cpu"):
            await here.store.patch(POD, "db", "default", fields=more, subresource="resize", strategic=True)
        less = {"resources": resources(2000, 1024), "containers": [{"name": "app", "resources": resources(1000, 256)}]}
        await here.store.patch(POD, "db", "default", fields={"spec": less}, subresource="resize", strategic=True)
        assert await here.held("db") == 5000  # until its container has shrunk
        await here.settle(2)
        assert await here.held("db") == 2000


class Expired:
    """A store that does not know who asks, the first time that something is to be resized."""

    def __init__(self, store):
        self._store, self.asked = store, 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def patch(self, *arguments, subresource=None, **options):
        if subresource == "resize":
            self.asked += 1
            if self.asked == 1:
                raise Unauthorized("the token has expired")
        return await self._store.patch(*arguments, subresource=subresource, **options)


async def test_a_credential_that_has_expired_ends_no_action():
    async with scene(through=Expired) as here:
        await here.pod("web", 2000)
        await here.resize("a", cpu="4")
        await here.settle(10)
        assert await here.told("a") == ("Succeeded", "Synchronized", "SYNCHRONIZED")
