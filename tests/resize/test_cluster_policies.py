"""Policies of a cluster in virtual time: its controllers, a kubelet that admits, numbers as a metrics server has."""

import asyncio
from contextlib import asynccontextmanager

import pytest
import structlog
from prometheus_client import CollectorRegistry

from headrace.api.kinds import HORIZONTAL_POD_AUTOSCALER, NAMESPACE, NODE, POD, RESIZE_POLICY, RESOURCE_SCALING_ACTION
from headrace.metrics.memory import MemoryMetrics
from headrace.metrics.pod_metrics import Rate, Rates
from headrace.metrics.prometheus import Series
from headrace.metrics.protocol import Unmeasured
from headrace.resize.action_controller import ActionController
from headrace.resize.homes import CLUSTER
from headrace.resize.monitoring import Monitoring
from headrace.resize.policy.plan import Misspelt, plan_misspelt
from headrace.resize.policy_manager import PolicyManager, look_when_measured
from headrace.resize.sampling import Sampler
from headrace.runtime.clock import LoopClock
from tests.resize.kubelet import Kubelet
from tests.runtime.home import controllers, open_store, running, wall

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]
MI = 1024**2
RESOLUTION = 15  # seconds, of metrics-server by default


class Told:
    """Stands where metrics-server and Prometheus are. `fails` is why it gives no answer."""

    def __init__(self):
        self.uses, self.answers, self.fails, self.asked, self._rates = {}, {}, "", set(), Rates()

    async def usage(self, namespaces, now):
        self.asked |= set(namespaces)
        if self.fails:
            raise Unmeasured(self.fails)
        at = now // RESOLUTION * RESOLUTION
        found = []
        for workload, use in self.uses.items():
            cores, size = use(at) if callable(use) else use
            usage = self._rates.taken(Rate(workload, at, RESOLUTION, cores, size * MI), now)
            found += [(workload, usage)] if usage is not None else []
        return found

    async def ask(self, query):
        if query not in self.answers:
            raise Unmeasured("Prometheus: bad_data: parse error")
        return [Series(labels, ((wall(), value),)) for value, labels in self.answers[query]]


class Cluster:
    def __init__(self, store, told):
        self.store, self.told = store, told

    async def pod(self, name="web", cpu="1", memory="256Mi", request_cpu=None, containers=("app",), **metadata):
        limits = {"cpu": cpu, "memory": memory}
        resources = {"limits": limits, "requests": {**limits, "cpu": request_cpu or cpu}}
        made = [{"name": each, "image": "app", "resources": resources} for each in containers]
        obj = {"metadata": {"name": name, "labels": {"app": name}, **metadata}}
        obj["spec"] = {"nodeName": "node-a", "containers": made}
        await self.store.create(POD, obj, "default")
        await asyncio.sleep(1)

    async def policy(self, **spec):
        spec = {"selector": {"matchLabels": {"app": "web"}}, **spec}
        await self.store.create(RESIZE_POLICY, {"metadata": {"name": "policy"}, "spec": spec}, "default")

    async def limits(self, name="web"):
        pod = await self.store.get(POD, name, "default")
        return {each["name"]: each["resources"]["limits"] for each in pod["spec"]["containers"]}

    async def actions(self):
        found = (await self.store.list(RESOURCE_SCALING_ACTION)).items
        return sorted(found, key=lambda each: int(each["metadata"]["resourceVersion"]))

    async def condition(self, type, name="policy"):
        policy = await self.store.get(RESIZE_POLICY, name, "default")
        found = [each for each in policy["status"].get("conditions") or () if each["type"] == type]
        return (found[0]["status"], found[0]["message"]) if found else None


@asynccontextmanager
async def cluster(cpu="8", queries=True, through=lambda store: store):
    store = await open_store()
    await store.create(NAMESPACE, {"metadata": {"name": "default"}})
    await store.create(NODE, {"metadata": {"name": "node-a"}})
    size = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    fields = {"status": {"capacity": size, "allocatable": size}}
    await store.patch(NODE, "node-a", fields=fields, subresource="status")
    monitoring, told, manager = Monitoring(MemoryMetrics(), wall), Told(), controllers(through(store))
    registry = CollectorRegistry()
    monitoring.attach(manager.informers, registry)
    manager.add(ActionController(manager.informers, registry, CLUSTER))
    policies = PolicyManager(manager.informers, monitoring, wall, CLUSTER)
    look_when_measured(policies, manager.add(policies), monitoring)
    asked = told if queries else None
    sampler = Sampler(manager.informers, monitoring, told, asked, LoopClock(wall), structlog.get_logger(), 5.0)
    async with running(manager):
        await manager.wait_until_synced()
        tasks = [asyncio.create_task(each) for each in (Kubelet(store).run(), sampler.run())]
        try:
            yield Cluster(store, told)
        finally:
            for task in tasks:
                task.cancel()


CPU = [{"metric": "cpu", "up": {"above": "80%"}, "down": {"below": "30%"}}]


async def test_three_of_five_samples_of_a_metrics_server_cause_one_growth():
    async with cluster() as here:
        await here.pod()
        await here.policy(triggers=CPU)
        here.told.uses["default/web/app"] = (0.95, 100)
        await asyncio.sleep(RESOLUTION * 2)
        assert await here.actions() == []
        await asyncio.sleep(RESOLUTION * 2)
        [action] = await here.actions()
        assert action["status"]["state"] == "Succeeded"
        assert await here.limits() == {"app": {"cpu": "2", "memory": "256Mi"}}
        pod = await here.store.get(POD, "web", "default")
        assert pod["metadata"]["labels"] == {"app": "web"}, "a cluster's Pods are not marked"
        assert here.told.asked == {"default"}


async def test_a_square_wave_around_the_threshold_resizes_twice_at_most():
    async with cluster() as here:
        await here.pod()
        await here.policy(triggers=CPU)
        here.told.uses["default/web/app"] = lambda at: (0.9 if at // 30 % 2 else 0.5, 100)
        await asyncio.sleep(600)
        assert len(await here.actions()) <= 2
        assert {each["status"]["state"] for each in await here.actions()} == {"Succeeded"}


async def test_an_outage_is_told_in_the_policy_and_forgotten_when_it_is_over():
    async with cluster() as here:
        await here.pod()
        await here.policy(triggers=CPU)
        here.told.fails = "metrics.k8s.io: no endpoints"
        await asyncio.sleep(30)
        assert await here.condition("MetricsUnavailable") == ("True", "metrics.k8s.io: no endpoints")
        here.told.fails = ""
        here.told.uses["default/web/app"] = (0.95, 100)
        await asyncio.sleep(90)
        assert (await here.condition("MetricsUnavailable"))[0] == "False"
        assert len(await here.actions()) == 1


async def test_what_was_measured_before_an_outage_resizes_nothing_during_it():
    async with cluster() as here:
        await here.pod()
        here.told.uses["default/web/app"] = (0.95, 100)
        await here.policy(triggers=CPU, mode="DryRun")
        await asyncio.sleep(90)
        here.told.fails = "metrics.k8s.io: no endpoints"
        await asyncio.sleep(10)
        fields = {"spec": {"mode": "Auto"}}
        await here.store.patch(RESIZE_POLICY, "policy", "default", fields=fields)
        await asyncio.sleep(60)
        assert await here.actions() == []
        here.told.fails = ""
        await asyncio.sleep(60)
        assert len(await here.actions()) == 1


async def test_an_hpa_of_one_container_leaves_the_others_to_the_policy():
    async with cluster() as here:
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "1", "controller": True}
        await here.pod(containers=("app", "cache"), ownerReferences=[owner])
        judged = {"name": "cpu", "container": "app", "target": {"type": "Utilization", "averageUtilization": 50}}
        target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}
        metrics = [{"type": "ContainerResource", "containerResource": judged}]
        spec = {"scaleTargetRef": target, "maxReplicas": 3, "metrics": metrics}
        await here.store.create(HORIZONTAL_POD_AUTOSCALER, {"metadata": {"name": "web"}, "spec": spec}, "default")
        await here.policy()
        for name in ("app", "cache"):
            here.told.uses[f"default/web/{name}"] = (0.95, 250)
        await asyncio.sleep(90)
        assert await here.limits() == {
            "app": {"cpu": "1", "memory": "512Mi"},
            "cache": {"cpu": "2", "memory": "512Mi"},
        }
        assert await here.condition("ConflictsWithHPA") == ("True", "default/web/app")
        await here.store.delete(HORIZONTAL_POD_AUTOSCALER, "web", "default")
        await asyncio.sleep(90)
        assert (await here.condition("ConflictsWithHPA"))[0] == "False"
        assert (await here.limits())["app"]["cpu"] == "2"


async def test_what_a_hand_has_desired_is_told_and_kept():
    async with cluster() as here:
        await here.pod()
        await here.policy(triggers=CPU)
        here.told.uses["default/web/app"] = (0.95, 100)
        await asyncio.sleep(90)
        here.told.uses["default/web/app"] = (0.7, 100)
        resources = {"limits": {"cpu": "1500m"}, "requests": {"cpu": "1500m"}}
        fields = {"spec": {"containers": [{"name": "app", "resources": resources}]}}
        await here.store.patch(POD, "web", "default", fields=fields, subresource="resize", strategic=True)
        await asyncio.sleep(120)
        assert (await here.limits())["app"]["cpu"] == "1500m"
        assert await here.condition("ChangedByOthers") == ("True", "default/web/app")
        assert len(await here.actions()) == 1


async def test_a_deferred_growth_is_granted_when_a_pod_has_gone():
    async with cluster(cpu="3") as here:
        await here.pod("other", cpu="1500m")
        await here.pod()
        await here.policy(triggers=CPU, onInsufficient="Defer")
        here.told.uses["default/web/app"] = (0.95, 100)
        await asyncio.sleep(90)
        [action] = await here.actions()
        assert (action["status"]["state"], action["status"]["reason"]) == ("Pending", "Deferred")
        assert (await here.limits())["app"]["cpu"] == "1"
        fields = {"status": {"phase": "Succeeded"}}
        await here.store.patch(POD, "other", "default", fields=fields, subresource="status")
        await asyncio.sleep(5)
        [action] = await here.actions()
        assert action["status"]["state"] == "Succeeded"
        assert (await here.limits())["app"]["cpu"] == "2"


async def test_a_query_s_series_are_about_the_pods_that_their_labels_name():
    async with cluster() as here:
        await here.pod()
        await here.pod("fast", labels={"app": "web"})
        trigger = {"metric": "latency", "query": "q", "up": {"above": 300}, "samples": {"matching": 1, "of": 1}}
        here.told.answers["q"] = [(450.0, {"pod": "web"}), (100.0, {"pod": "fast"}), (900.0, {"namespace": "x"})]
        await here.policy(triggers=[trigger])
        await asyncio.sleep(10)
        assert (await here.limits())["app"] == {"cpu": "2", "memory": "512Mi"}
        assert (await here.limits("fast"))["app"] == {"cpu": "1", "memory": "256Mi"}


async def test_numbers_that_break_something_are_an_outage_like_any_other():
    """(Whatever else was raised ended the process.)"""
    async with cluster() as here:
        await here.pod()
        await here.policy(triggers=CPU)
        here.told.uses["default/web/app"] = lambda at: {}["no such number"]
        await asyncio.sleep(30)
        status, message = await here.condition("MetricsUnavailable")
        assert (status, "no such number" in message) == ("True", True)
        here.told.uses["default/web/app"] = (0.95, 100)
        await asyncio.sleep(90)
        assert (await here.condition("MetricsUnavailable"))[0] == "False"


async def test_one_policy_s_bad_query_is_told_in_it_alone_and_stops_no_other():
    async with cluster() as here:
        await here.pod()
        await here.pod("db")
        await here.policy(triggers=CPU)
        trigger = {"metric": "latency", "query": "bad", "up": {"above": 300}}
        spec = {"selector": {"matchLabels": {"app": "db"}}, "triggers": [*CPU, trigger]}
        await here.store.create(RESIZE_POLICY, {"metadata": {"name": "bad"}, "spec": spec}, "default")
        here.told.uses |= {"default/web/app": (0.95, 100), "default/db/app": (0.95, 100)}
        await asyncio.sleep(90)
        assert (await here.limits())["app"]["cpu"] == (await here.limits("db"))["app"]["cpu"] == "2"
        assert await here.condition("MetricsUnavailable") is None
        assert (await here.condition("MetricsUnavailable", "bad"))[0] == "True"
        fields = {"spec": {"triggers": CPU}}
        await here.store.patch(RESIZE_POLICY, "bad", "default", fields=fields)
        await asyncio.sleep(15)
        assert (await here.condition("MetricsUnavailable", "bad"))[0] == "False"


async def test_a_query_without_a_prometheus_is_told():
    async with cluster(queries=False) as here:
        await here.pod()
        trigger = {"metric": "latency", "query": "q", "up": {"above": 300}}
        await here.policy(triggers=[trigger])
        await asyncio.sleep(10)
        status, message = await here.condition("MetricsUnavailable")
        assert (status, "--prometheus" in message) == ("True", True)


async def test_a_misspelt_policy_is_told_once():
    policy = {"metadata": {"name": "policy", "namespace": "default", "uid": "1", "resourceVersion": "1"}, "spec": {}}
    patch, event = plan_misspelt(Misspelt(policy, "spec.min.cpu: must be a quantity"), 0.0)
    [condition] = patch.fields["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Active", "False", "Invalid")
    assert event.message == condition["message"] == "spec.min.cpu: must be a quantity"
    assert (
        plan_misspelt(Misspelt(policy | {"status": patch.fields["status"]}, "spec.min.cpu: must be a quantity"), 9.0)
        == ()
    )
