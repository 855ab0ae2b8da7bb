"""PolicyManager on the real store in virtual time, with samples as agents send them: what is decided and what not."""

from contextlib import asynccontextmanager

import pytest

from headrace.api.kinds import POD, RESIZE_POLICY, RESOURCE_SCALING_ACTION
from headrace.metrics.memory import MemoryMetrics
from headrace.resize.monitoring import Monitoring
from headrace.resize.policy import plan as policies
from headrace.resize.policy_manager import PolicyManager, look_when_measured
from headrace.store.protocol import Deletion, Invalid
from headrace.wire.generated import agents_pb2 as wire
from tests.resize.scene import scene
from tests.runtime.home import wall

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]
WEB = "default/web/app"
MI = 1024**2


class Measured:
    """The scene with usage fed second by second."""

    def __init__(self, here, monitoring):
        self.here, self.monitoring = here, monitoring
        self.used, self.kills = {}, {}

    def __getattr__(self, name):
        return getattr(self.here, name)

    async def policy(self, name="policy", app="web", **spec):
        spec = {"selector": {"matchLabels": {"app": app}}, **spec}
        await self.here.store.create(RESIZE_POLICY, {"metadata": {"name": name}, "spec": spec}, "default")
        await self.here.settle(0.5)

    async def use(self, seconds, workload=WEB, cpu=0.0, memory=64, latency=None, kills=0):
        """For so many seconds this much: cores and MiB, a number or a function of the second."""
        for second in range(seconds):
            now = cpu(second) if callable(cpu) else cpu
            self.used[workload] = self.used.get(workload, 0.0) + now
            self.kills[workload] = self.kills.get(workload, 0) + (kills if second == 0 else 0)
            size = int((memory(second) if callable(memory) else memory) * MI)
            sample = wire.Sample(
                workload=workload,
                at=wall(),
                cpu_seconds=self.used[workload],
                memory_bytes=size,
                working_set_bytes=size,
                oom_kills=self.kills[workload],
            )
            self.monitoring.samples("node-a", wire.Samples(samples=[sample]))
            if latency is not None:
                self.monitoring.report(workload, {"latency": latency(second) if callable(latency) else latency})
            await self.here.settle(1)

    async def actions(self):
        found = (await self.here.store.list(RESOURCE_SCALING_ACTION)).items
        return sorted(found, key=lambda each: int(each["metadata"]["resourceVersion"]))

    async def targets(self):
        return [each["spec"]["target"] for each in await self.actions()]

    async def condition(self, type, name="policy"):
        policy = await self.here.store.get(RESIZE_POLICY, name, "default")
        found = [each for each in policy["status"].get("conditions") or () if each["type"] == type]
        return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else None

    async def status(self, name="policy"):
        return (await self.here.store.get(RESIZE_POLICY, name, "default"))["status"]


@asynccontextmanager
async def measured(**options):
    monitoring = Monitoring(MemoryMetrics(), wall)

    def jobs(manager, registry):
        monitoring.attach(manager.informers, registry)
        job = PolicyManager(manager.informers, monitoring, wall)
        look_when_measured(job, manager.add(job), monitoring)

    async with scene(jobs=jobs, **options) as here:
        yield Measured(here, monitoring)


LATENCY = [{"metric": "latency", "up": {"above": 300}}]


async def test_the_designs_story_latency_450_above_300_doubles_cpu_and_memory_once():
    async with measured() as here:
        await here.pod("web", 2000, 1024)
        await here.policy(triggers=LATENCY)
        await here.use(4, latency=450)
        await here.settle()
        [action] = await here.actions()
        assert action["spec"]["current"] == {"cpu": "2", "memory": "1Gi"}
        assert action["spec"]["target"] == {"cpu": "4", "memory": "2Gi"}
        cause = action["spec"]["cause"]
        assert (cause["metric"], cause["value"], cause["threshold"], cause["reason"]) == (
            "latency",
            450,
            300,
            "Degraded",
        )
        assert action["status"]["state"] == "Succeeded"
        await here.use(30, latency=150)
        assert len(await here.actions()) == 1
        events = [(each["status"], each["value"], each["threshold"]) for each in here.monitoring.recent()]
        assert events == [("Degraded", 450.0, 300.0), ("Normal", 150.0, 300.0)]
        assert (await here.status())["lastDecision"] == (
            "default/web/app up to cpu 4, memory 2Gi: latency 450 above 300"
        )


async def test_a_sample_is_judged_once(monkeypatch):
    """For whoever follows performance and for the policy it was judged twice, which doubled what a sample costs."""
    judge, looks = policies.judge, []
    monkeypatch.setattr(policies, "judge", lambda *seen: looks.append(seen[-1]) or judge(*seen))
    async with measured() as here:
        await here.pod("web", 2000, 1024)
        await here.policy(triggers=LATENCY)
        await here.use(2, latency=150)
        looks.clear()
        await here.use(5, latency=150)
        assert len(looks) == len(set(looks)) == 5


async def test_not_required_below_the_threshold_nothing_happens():
    async with measured() as here:
        await here.pod("web", 2000, 1024)
        await here.policy()
        await here.use(60, cpu=1.0, memory=512)
        assert await here.actions() == []
        assert await here.condition("Active") == ("True", "Auto", "")


async def test_three_of_five_readings_are_needed():
    async with measured() as here:
        await here.pod("web", 1000)
        await here.policy()
        await here.use(20, cpu=lambda second: 1.0 if second % 5 in (0, 1) else 0.5)
        assert await here.actions() == []
        await here.use(6, cpu=lambda second: 1.0 if second % 5 in (0, 1, 2) else 0.5)
        assert await here.targets() == [{"cpu": "2"}]


async def test_growth_ends_at_twice_the_first_limits_and_says_so():
    async with measured() as here:
        await here.pod("web", 1000)
        await here.policy()
        await here.use(40, cpu=10.0)
        assert await here.targets() == [{"cpu": "2"}]
        assert await here.condition("Capped") == ("True", "Capped", WEB)


async def test_maximum_and_quota_bound_the_target():
    async with measured(cpu="32") as here:
        await here.pod("web", 1000)
        await here.pod("web2", 1000, labels={"app": "web"})
        await here.policy(max={"cpu": "10"}, quota={"cpu": "5"}, cooldownSeconds={"up": 5})
        for _ in range(6):
            await here.use(5, "default/web2/app", cpu=20.0)
            await here.use(5, cpu=20.0)
        assert (await here.limits("web"))[0] + (await here.limits("web2"))[0] == 5000
        assert (await here.condition("QuotaReached"))[0] == "True"


async def test_what_waits_for_room_counts_against_the_quota_of_the_others():
    async with measured(cpu="5") as here:
        await here.pod("web", 2000)
        await here.pod("web2", 500, labels={"app": "web"})
        await here.pod("other", 1500)
        await here.policy(max={"cpu": "4"}, quota={"cpu": "4500m"}, onInsufficient="Defer", cooldownSeconds={"up": 5})
        await here.use(10, cpu=20.0)
        [waiting] = await here.actions()
        assert (waiting["spec"]["target"], waiting["status"]["reason"]) == ({"cpu": "4"}, "Deferred")
        await here.use(20, "default/web2/app", cpu=20.0)
        assert (await here.condition("QuotaReached"))[:2] == ("True", "QuotaReached")
        await here.store.delete(POD, "other", "default", Deletion(grace_seconds=0))
        await here.use(20, "default/web2/app", cpu=20.0)
        assert [(await here.limits(name))[0] for name in ("web", "web2")] == [4000, 500]


async def test_a_square_wave_around_the_threshold_resizes_at_most_twice_in_ten_minutes():
    async with measured() as here:
        await here.pod("web", 1000)
        await here.policy()
        await here.use(600, cpu=lambda second: 0.95 if second // 30 % 2 else 0.2)
        assert len(await here.actions()) <= 2


async def test_ten_percent_of_noise_after_a_resize_changes_nothing():
    async with measured() as here:
        await here.pod("web", 1000)
        await here.policy()
        await here.use(10, cpu=0.9)
        assert len(await here.actions()) == 1
        await here.use(600, cpu=lambda second: 0.9 * (1.1 if second % 2 else 0.9))
        assert len(await here.actions()) == 1


async def test_it_shrinks_after_the_window_to_what_the_peak_needs_and_not_below_the_minimum():
    async with measured() as here:
        await here.pod("web", 4000)
        await here.policy(min={"cpu": "500m", "memory": "64Mi"}, triggers=[{"metric": "cpu", "down": {"below": "30%"}}])
        await here.use(290, cpu=lambda second: 1.5 if second == 20 else 0.1)
        assert await here.actions() == []
        await here.use(12, cpu=0.1)
        assert await here.targets() == [{"cpu": "2"}]  # the half; the peak of 1.5 needs 1875m
        await here.use(302, cpu=0.1)
        assert await here.targets() == [{"cpu": "2"}, {"cpu": "1"}]
        await here.use(320, cpu=0.1)
        await here.use(320, cpu=0.1)
        assert await here.targets() == [{"cpu": "2"}, {"cpu": "1"}, {"cpu": "500m"}]


async def test_memory_never_shrinks_below_what_is_in_use_and_a_margin():
    async with measured() as here:
        await here.pod("web", 1000, 1024)
        triggers = [{"metric": "memory", "up": {"above": "80%"}, "down": {"below": "50%"}}]
        await here.policy(min={"memory": "64Mi"}, triggers=triggers)
        await here.use(310, memory=lambda second: 490 if second == 100 else 200)
        [target] = await here.targets()
        assert target == {"memory": "613Mi"}  # 490Mi at 80 %


async def test_a_kill_for_want_of_memory_bumps_once_then_it_is_capped():
    async with measured() as here:
        await here.pod("web", 1000, 40)
        await here.policy(max={"memory": "64Mi"}, triggers=[])
        await here.use(2, memory=39)
        await here.use(2, memory=39, kills=1)
        assert await here.targets() == [{"memory": "64Mi"}]
        await here.use(5, memory=60)
        await here.use(5, memory=60, kills=1)
        assert await here.targets() == [{"memory": "64Mi"}]
        assert (await here.condition("Capped"))[0] == "True"


async def test_after_two_growths_that_did_not_help_it_stops():
    async with measured(cpu="64", memory="64Gi") as here:
        await here.pod("web", 1000)
        await here.policy(triggers=LATENCY, max={"cpu": "32", "memory": "32Gi"})
        await here.use(120, latency=450)
        assert await here.targets() == [{"cpu": "2", "memory": "512Mi"}, {"cpu": "4", "memory": "1Gi"}]
        assert await here.condition("NoImprovement") == ("True", "NoImprovement", WEB)


async def test_growths_that_help_go_on():
    async with measured(cpu="64", memory="64Gi") as here:
        await here.pod("web", 1000)
        await here.policy(triggers=LATENCY, max={"cpu": "8", "memory": "32Gi"})
        for latency in (1600, 1000, 600, 400):
            await here.use(12, latency=latency)
        assert await here.limits("web") == (8000, 8000, 8000)
        assert (await here.condition("NoImprovement"))[0] == "False"


async def test_a_rejected_growth_is_tried_again_more_and_more_seldom():
    async with measured(cpu="2") as here:
        await here.pod("web", 1000)
        await here.pod("db", 1000)
        await here.policy()
        await here.use(300, cpu=0.95)
        actions = await here.actions()
        assert {each["status"]["reason"] for each in actions} == {"InsufficientCPU"}
        assert 3 <= len(actions) <= 7
        assert await here.condition("Insufficient") == ("True", "Insufficient", WEB)


async def test_clamp_takes_what_there_is_and_defer_waits_for_more():
    async with measured(cpu="3") as here:
        await here.pod("web", 1000)
        await here.pod("db", 1500)
        await here.policy(onInsufficient="Clamp")
        await here.use(6, cpu=0.95)
        assert await here.limits("web") == (1500, 1500, 1500)


async def test_up_and_down_have_cooldowns_of_their_own():
    async with measured(cpu="64") as here:
        await here.pod("web", 1000)
        await here.policy(max={"cpu": "32"}, cooldownSeconds={"up": 20, "down": 300})
        await here.use(19, cpu=30.0)
        assert len(await here.actions()) == 1
        await here.use(10, cpu=30.0)
        assert len(await here.actions()) == 2


async def test_dry_run_tells_and_touches_nothing():
    async with measured() as here:
        await here.pod("web", 1000, labels={"headrace.dev/managed": "false"})
        await here.policy(mode="DryRun")
        await here.use(10, cpu=0.95)
        assert await here.actions() == []
        assert (await here.status())["lastDecision"].startswith("default/web/app up to cpu 2: cpu 950m above 800m")
        assert "WouldScale" in await here.events_of("policy")
        labels = (await here.store.get(POD, "web", "default"))["metadata"]["labels"]
        assert labels["headrace.dev/managed"] == "false"


async def test_off_does_nothing():
    async with measured() as here:
        await here.pod("web", 1000)
        await here.policy(mode="Off")
        await here.use(10, cpu=0.95)
        assert await here.actions() == []
        assert await here.condition("Active") == ("False", "Off", "")


async def test_what_a_policy_selects_is_managed_and_holds_the_larger_of_request_and_limit():
    async with measured() as here:
        await here.pod("web", 1000, labels={"headrace.dev/managed": "false"}, limit_cpu=3000)
        assert await here.held("web") == 1000
        await here.policy()
        await here.settle()
        assert await here.held("web") == 3000


async def test_a_pod_whose_limits_do_not_fit_is_told_as_unmanageable():
    async with measured(cpu="2") as here:
        await here.pod("web", 1000, labels={"headrace.dev/managed": "false"}, limit_cpu=3000)
        await here.policy()
        await here.use(2, cpu=0.1)
        status, reason, message = await here.condition("Unmanageable")
        assert (status, reason) == ("True", "InsufficientCapacity")
        assert "insufficient cpu: 2 more wanted, 1 available of 2" in message


async def test_a_replaced_pod_starts_with_what_its_predecessor_had():
    async with measured() as here:
        await here.pod("web", 1000)
        await here.policy(triggers=[{"metric": "cpu", "up": {"above": "80%"}}])
        await here.use(6, cpu=0.95)
        assert await here.limits("web") == (2000, 2000, 2000)
        here.agent.away = True
        await here.store.delete(POD, "web", "default", Deletion())
        await here.agent._store.delete(POD, "web", "default", Deletion(grace_seconds=0))
        for each in await here.actions():  # as the garbage collector does
            await here.store.delete(RESOURCE_SCALING_ACTION, each["metadata"]["name"], "default")
        await here.settle(5)
        here.agent.away = False
        await here.pod("web", 1000)
        await here.settle(2)
        assert await here.limits("web") == (2000, 2000, 2000)
        assert [each["spec"]["cause"]["reason"] for each in await here.actions()] == ["LastTarget"]


async def test_nothing_of_a_pod_is_resized_while_another_wish_of_it_cannot_be_met():
    """A Pod is admitted as a whole: an action beside a wish that is Infeasible fails, and would again for ever."""
    async with measured() as here:
        greedy = {"name": "greedy", "image": "app", "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}}}
        web = {"name": "app", "image": "app", "resources": {"limits": {"cpu": "2", "memory": "256Mi"}}}
        await here.pod("web", containers=[web, greedy])
        wish = [{"name": "greedy", "resources": {"limits": {"cpu": "99"}, "requests": {"cpu": "99"}}}]
        fields = {"spec": {"containers": wish}}
        await here.here.store.patch(POD, "web", "default", fields=fields, subresource="resize", strategic=True)
        await here.policy(min={"cpu": "100m"}, cooldownSeconds={"up": 5, "down": 10}, stabilizationSeconds=10)
        await here.use(90, cpu=0.01)
        assert await here.actions() == []


async def test_an_hpa_on_the_same_resource_is_not_fought():
    async with measured() as here:
        from headrace.api.kinds import DEPLOYMENT, HORIZONTAL_POD_AUTOSCALER

        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "x"}]}}
        deployment = await here.store.create(
            DEPLOYMENT,
            {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": labels}, "template": template}},
            "default",
        )
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": deployment["metadata"]["uid"]}
        pod = await here.pod("web", 1000)
        await here.store.patch(
            POD, "web", "default", fields={"metadata": {"ownerReferences": [owner | {"controller": True}]}}
        )
        assert pod
        scaler = {
            "metadata": {"name": "web"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "maxReplicas": 3,
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
                    }
                ],
            },
        }
        await here.store.create(HORIZONTAL_POD_AUTOSCALER, scaler, "default")
        await here.policy()
        await here.use(10, cpu=0.95, memory=250)
        assert await here.targets() == [{"memory": "512Mi"}]
        assert (await here.condition("ConflictsWithHPA"))[0] == "True"


async def test_a_policy_is_refused_with_the_fields_that_are_wrong():
    async with measured() as here:
        with pytest.raises(Invalid) as refused:
            await here.policy(
                min={"cpu": "2"},
                max={"cpu": "1"},
                triggers=[{"metric": "latency"}, {"metric": "fps", "up": {"below": "80%"}}],
            )
        assert [cause.field for cause in refused.value.causes] == [
            "spec.min.cpu",
            "spec.triggers[0]",
            "spec.triggers[1].up.below",
        ]


async def test_one_reading_causes_one_growth_however_soon_the_next_look_is():
    async with measured(cpu="64") as here:
        await here.pod("web", 130)
        once = {"matching": 1, "of": 1}
        trigger = {"metric": "latency", "resources": ["cpu"], "up": {"above": 300}, "samples": once}
        await here.policy(max={"cpu": "1"}, cooldownSeconds={"up": 0}, stopAfterUps=0, triggers=[trigger])
        for wanted in (260, 520, 1000):
            here.monitoring.report(WEB, {"latency": 450.0})
            await here.settle(0.3)
            assert await here.limits("web") == (wanted, wanted, wanted)


@pytest.mark.parametrize("first", [5, 3])
async def test_a_limit_below_the_least_that_can_be_asked_for_grows_and_holds_up_nobody_else(first):
    """A Pod may have 5m of CPU. The action that told so was refused for ever, and so was what the policy does."""
    async with measured() as here:
        await here.pod("web", first, 64)
        await here.policy(triggers=[{"metric": "cpu", "up": {"above": "80%"}, "down": {"below": "30%"}}])
        await here.use(6, cpu=first / 1000, memory=1)
        await here.settle()
        [action] = await here.actions()
        assert action["spec"]["current"]["cpu"] == f"{first}m"
        assert action["spec"]["target"] == {"cpu": "10m"}
        assert action["status"]["state"] == "Succeeded"
        await here.use(700, cpu=0.0, memory=1)
        assert await here.targets() == [{"cpu": "10m"}]


async def test_a_metric_that_nobody_reports_is_told_until_one_comes():
    async with measured() as here:
        await here.pod("web", 2000, 1024)
        await here.policy(triggers=[*LATENCY, {"metric": "cpu", "up": {"above": "80%"}}])
        await here.use(50, cpu=1.0)
        assert await here.condition("MetricsUnavailable") is None
        await here.use(20, cpu=1.0)
        told = "latency: nobody has reported it since the policy began"
        assert await here.condition("MetricsUnavailable") == ("True", "NotReported", told)
        await here.use(3, cpu=1.0, latency=100)
        assert await here.condition("MetricsUnavailable") == ("False", "NotSo", "")


async def test_a_policy_without_running_containers_waits_for_no_metric():
    async with measured() as here:
        await here.pod("other", 1000, 64)
        await here.policy(triggers=LATENCY)
        await here.use(90, workload="default/other/app", cpu=0.5)
        await here.pod("web", 2000, 1024)
        await here.use(30, cpu=1.0)
        assert await here.condition("MetricsUnavailable") is None


async def test_a_query_is_told_at_once_where_nobody_asks_it_unless_the_application_reports():
    async with measured() as here:
        await here.pod("web", 2000, 1024)
        await here.policy(triggers=[{"metric": "latency", "query": "latency_ms", "up": {"above": 300}}])
        await here.use(2, cpu=1.0)
        status, reason, message = await here.condition("MetricsUnavailable")
        assert (status, reason) == ("True", "NotReported")
        assert message == "latency: queries are asked on a cluster only; let the application report it"
        await here.use(2, cpu=1.0, latency=100)
        assert (await here.condition("MetricsUnavailable"))[0] == "False"


async def test_a_bare_number_of_cpus_that_can_never_be_used_is_told():
    async with measured() as here:
        await here.pod("web", 2000, 1024)
        await here.policy(triggers=[{"metric": "cpu", "up": {"above": 80}}])
        await here.use(3, cpu=1.0)
        assert await here.condition("BeyondLimit") == ("True", "BeyondLimit", "default/web/app")
        await here.pod("db", 2000, 1024)
        await here.policy("within", app="db", triggers=[{"metric": "cpu", "up": {"above": "3900m"}}])
        await here.use(3, workload="default/db/app", cpu=1.0)
        assert (await here.status("within"))["selected"] == 1
        assert await here.condition("BeyondLimit", "within") is None
