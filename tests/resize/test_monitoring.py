"""What agents and applications say: who is believed, what is kept, and what is told on."""

import asyncio
import json
import math

import pytest

from headrace.api.kinds import POD
from headrace.metrics.memory import MemoryMetrics
from headrace.resize.monitoring import BadMetrics, Monitoring, millicores
from headrace.store.protocol import Deletion
from headrace.wire.generated import agents_pb2 as wire
from tests.resize.scene import scene
from tests.runtime.home import wall

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]
WEB = "default/web/app"


def sample(workload=WEB, cpu_seconds=1.0, memory=64, at=None):
    at = wall() if at is None else at
    return wire.Sample(workload=workload, at=at, cpu_seconds=cpu_seconds, working_set_bytes=memory, memory_bytes=memory)


def watching():
    """A scene's jobs with monitoring attached, and the monitoring."""
    monitoring = Monitoring(MemoryMetrics(), wall)
    return monitoring, lambda manager, registry: monitoring.attach(manager.informers, registry)


async def test_an_agent_is_believed_about_pods_of_its_node_alone():
    monitoring, jobs = watching()
    async with scene(jobs=jobs) as here:
        await here.pod("web")
        heard = []
        monitoring.listen(heard.append)
        monitoring.samples("node-b", wire.Samples(samples=[sample()]))
        assert heard == []
        monitoring.samples("node-a", wire.Samples(samples=[sample(), sample("default/ghost/app")]))
        assert heard == [WEB]
        assert monitoring.metrics.workloads() == [WEB]


async def test_use_is_told_in_millicores_and_bytes_and_forgotten_with_the_pod():
    monitoring, jobs = watching()
    async with scene(jobs=jobs) as here:
        await here.pod("web")
        for second in range(3):
            monitoring.samples("node-a", wire.Samples(samples=[sample(cpu_seconds=second * 0.5)]))
            await here.settle(1)
        assert monitoring.usage()[WEB]["cpu"] == 500
        agent = here.agent._store
        here.agent.away = True
        await here.store.delete(POD, "web", "default", Deletion())
        await agent.delete(POD, "web", "default", Deletion(grace_seconds=0))
        await here.settle()
        assert monitoring.usage() == {}


async def test_nothing_is_known_of_a_pod_from_another_of_its_name():
    """One that was replaced while nobody watched came as a change of the old one, and was judged by its samples."""
    monitoring, jobs = watching()
    async with scene(jobs=jobs) as here:
        sidecar = {"name": "proxy", "image": "proxy", "command": ["serve"], "restartPolicy": "Always"}
        before = await here.pod("web", initContainers=[sidecar])
        for workload in (WEB, "default/web/proxy"):
            monitoring.samples("node-a", wire.Samples(samples=[sample(workload)]))
            monitoring.report(workload, {"latency": 450})
        monitoring._pod_changed(before, before)
        assert monitoring.metrics.workloads() == [WEB, "default/web/proxy"]
        monitoring._pod_changed(before, before | {"metadata": before["metadata"] | {"uid": "another"}})
        assert monitoring.metrics.workloads() == []
        assert monitoring.metrics.values("default/web/proxy", "latency", 0.0) == []


async def test_cpu_across_a_restart_is_not_known():
    monitoring, jobs = watching()
    async with scene(jobs=jobs) as here:
        await here.pod("web")
        monitoring.samples("node-a", wire.Samples(samples=[sample(cpu_seconds=9.0, at=1.0)]))
        monitoring.samples("node-a", wire.Samples(samples=[sample(cpu_seconds=0.1, at=2.0)]))
        before, after = monitoring.metrics.samples(WEB, 0)
        assert millicores(before, after) is None


@pytest.mark.parametrize(
    ("workload", "metrics", "words"),
    [
        ("default/ghost/app", {"latency": 1}, "no such Pod"),
        ("default/web/sidecar", {"latency": 1}, "the Pod has no such container"),
        ("web", {"latency": 1}, "no such Pod; it is named namespace/pod/container"),
        (WEB, {}, "must be 1 to 32 numbers"),
        (WEB, {"": 1}, "a name must have 1 to 256 characters, not 0"),
        (WEB, {"x" * 257: 1}, "a name must have 1 to 256 characters, not 257"),
        (WEB, {"latency": float("inf")}, "must be a finite number, not 'inf'"),
        (WEB, {"latency": 10**400}, "must be a finite number, not '1000"),
        (WEB, {"cpu": 1}, "is measured by the node"),
        (WEB, {"latency": "fast"}, "must be a finite number, not 'fast'"),
        (WEB, {"latency": float("nan")}, "must be a finite number"),
        (WEB, {"latency": True}, "must be a finite number"),
    ],
)
async def test_an_applications_metrics_are_refused_with_what_would_be_right(workload, metrics, words):
    monitoring, jobs = watching()
    async with scene(jobs=jobs) as here:
        await here.pod("web")
        with pytest.raises(BadMetrics, match=words):
            monitoring.report(workload, metrics)


@pytest.mark.parametrize("broken", [{"at": math.nan}, {"at": math.inf}, {"cpu_seconds": math.nan}])
async def test_a_sample_that_is_no_number_is_left(broken):
    monitoring, jobs = watching()
    async with scene(jobs=jobs) as here:
        await here.pod("web")
        monitoring.samples("node-a", wire.Samples(samples=[sample(**{"cpu_seconds": 1.0, "at": 1.0} | broken)]))
        assert monitoring.metrics.samples(WEB, 0) == ()


async def test_performance_events_tell_changes_once_as_json_of_the_documented_schema():
    monitoring, jobs = watching()
    async with scene(jobs=jobs) as here:
        await here.pod("web")
        told = []

        def hear(text):
            told.append(json.loads(text))

        async def read():
            async for text in monitoring.events(WEB):
                hear(text)

        reading = asyncio.create_task(read())
        await here.settle(0.1)
        for value in (450.0, 460.0):
            monitoring.judged(WEB, "latency", value, 300.0, True)
        monitoring.judged("default/other/app", "latency", 450.0, 300.0, True)
        monitoring.judged(WEB, "latency", 200.0, 300.0, False)
        await here.settle(0.1)
        reading.cancel()
        assert [(each["status"], each["value"]) for each in told] == [("Degraded", 450.0), ("Normal", 200.0)]
        assert told[0].keys() == {"workload", "metric", "value", "threshold", "status", "time"}
        assert told[0]["threshold"] == 300.0
